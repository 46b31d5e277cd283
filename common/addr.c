/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/addr.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned int port_of(const struct addr *addr)
{
	return ntohs(addr->sa.sa_family == AF_INET6 ? addr->v6.sin6_port : addr->v4.sin_port);
}

static void render(struct addr *addr)
{
	char host[INET6_ADDRSTRLEN] = "?";

	if (addr->sa.sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &addr->v6.sin6_addr, host, sizeof host);
		snprintf(addr->text, sizeof addr->text, "[%s]:%u", host, port_of(addr));
	} else {
		inet_ntop(AF_INET, &addr->v4.sin_addr, host, sizeof host);
		snprintf(addr->text, sizeof addr->text, "%s:%u", host, port_of(addr));
	}
}

const char *addr_server_default(void)
{
	const char *named = secure_getenv("KVD_SERVER");

	return named && *named ? named : ADDR_SERVER_DEFAULT;
}

/* Splits text into host and port; the port keeps its default if there is none. */
static int split(const char *text, char *host, size_t host_bytes, const char **port)
{
	const char *end, *colon = strrchr(text, ':');

	*port = NULL;
	if (*text && !text[strspn(text, "0123456789")]) { /* getaddrinfo(3) takes 17480 for 0.0.68.72 */
		*port = text;
		text = "127.0.0.1";
		end = text + strlen(text);
	} else if (text[0] == '[') {
		text++;
		end = strchr(text, ']');
		if (!end || (end[1] && end[1] != ':'))
			return -1;
		if (end[1])
			*port = end + 2;
	} else if (colon && colon == strchr(text, ':')) {
		end = colon;
		*port = colon + 1;
	} else {
		end = text + strlen(text);
	}
	if (end == text || (size_t)(end - text) >= host_bytes)
		return -1;
	memcpy(host, text, (size_t)(end - text));
	host[end - text] = '\0';
	return 0;
}

/* Those of one family, as many as there is room for; how many. */
static unsigned take_family(const struct addrinfo *found, int family, bool wanted, uint16_t port,
			    struct addr *addrs, unsigned max)
{
	unsigned n = 0;

	for (; found && n < max; found = found->ai_next) {
		if ((found->ai_family == family) != wanted ||
		    (found->ai_family != AF_INET && found->ai_family != AF_INET6))
			continue;
		addr_from(&addrs[n], found->ai_addr);
		addr_set_port(&addrs[n++], port);
	}
	return n;
}

int addr_parse_all(struct addr *addrs, unsigned max, const char *text, struct err *err)
{
	char host[256];
	const char *port;
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
	unsigned long number = ADDR_PORT_DEFAULT;

	if (split(text, host, sizeof host, &port))
		return err_set(err, -1, "'%s' is not an address: write HOST:PORT or [V6]:PORT", text);
	if (port) {
		char *end;
		number = strtoul(port, &end, 10);
		if (*port < '0' || *port > '9' || *end || number > 65535)
			return err_set(err, -1, "'%s': the port '%s' is not a number from 0 to 65535",
				       text, port);
	}
	int rc = getaddrinfo(host, NULL, &hints, &found);
	if (rc)
		return err_set(err, ADDR_UNKNOWN, "can't look up the host '%s': %s", host, gai_strerror(rc));
	unsigned n = take_family(found, AF_INET, true, (uint16_t)number, addrs, max);
	n += take_family(found, AF_INET, false, (uint16_t)number, addrs + n, max - n);
	freeaddrinfo(found);
	return n ? (int)n : err_set(err, ADDR_UNKNOWN, "the host '%s' has no address", host);
}

int addr_parse(struct addr *addr, const char *text, struct err *err)
{
	int n = addr_parse_all(addr, 1, text, err);

	return n < 0 ? n : 0;
}

void addr_from(struct addr *addr, const struct sockaddr *sa)
{
	memset(addr, 0, sizeof *addr);
	memcpy(&addr->sa, sa, sa->sa_family == AF_INET6 ? sizeof addr->v6 : sizeof addr->v4);
	render(addr);
}

bool addr_is_loopback(const struct addr *addr)
{
	if (addr->sa.sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&addr->v6.sin6_addr);
	return ntohl(addr->v4.sin_addr.s_addr) >> 24 == 127;
}

void addr_set_port(struct addr *addr, uint16_t port)
{
	if (addr->sa.sa_family == AF_INET6)
		addr->v6.sin6_port = htons(port);
	else
		addr->v4.sin_port = htons(port);
	render(addr);
}

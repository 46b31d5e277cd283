/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sock.c -- connection management: the sockets between processes, and time.
 *
 * A listener is an abstract unix socket "softverbs/<fabric>/cm/<address>/<port>".
 * A connection is a SEQPACKET connection to it, which lives as long as both ids; what
 * its messages, its end and the lack of both mean is in conn.c.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>
#include "common/softverbs/base/compiler.h"
#include "common/softverbs/base/fd.h"
#include "common/softverbs/base/lock.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/cm/sock.h"

#define TIMEOUT_MS 4000 /* SOFTVERBS_CM_TIMEOUT_MS overrides */
#define PORT_TRIES 1000
#define FIRST_FREE_PORT 32768
#define IPV6_ONLY "::!"

/* ---- time ---- */

uint64_t sv_cm_timeout_ms(void)
{
	const char *text = getenv("SOFTVERBS_CM_TIMEOUT_MS");
	unsigned long ms = text ? strtoul(text, NULL, 10) : 0;

	return ms && ms <= 600000 ? ms : TIMEOUT_MS;
}

void sv_cm_due_at(uint64_t at_ns)
{
	if (at_ns < atomic_load(&sv_cm.next_ns))
		atomic_store(&sv_cm.next_ns, at_ns);
	sv_ctl_wake_at(at_ns);
}

void sv_cm_set_deadline(struct sv_id *id, uint64_t in_ms)
{
	id->deadline_ns = in_ms ? sv_now_ns() + in_ms * 1000000u : UINT64_MAX;
	if (in_ms)
		sv_cm_due_at(id->deadline_ns);
}

/* ---- addresses ---- */

static uint16_t port_of(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 ?
		       ntohs(((const struct sockaddr_in6 *)(const void *)addr)->sin6_port) :
		       ntohs(((const struct sockaddr_in *)(const void *)addr)->sin_port);
}

static void set_port(struct sockaddr *addr, uint16_t port)
{
	if (addr->sa_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)addr)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)(void *)addr)->sin_port = htons(port);
}

/* Each port space has its own ports. */
static socklen_t unix_name(const struct sv_id *id, struct sockaddr_un *sun, const char *host,
			   uint16_t port)
{
	char name[INET6_ADDRSTRLEN + 8];

	snprintf(name, sizeof(name), "%s/%u", host, port);
	return sv_address(sun, sv_id_datagram(id) ? "cu" : "cm", name);
}

static void host_name(const struct sockaddr *addr, char *host, socklen_t size)
{
	const struct sockaddr_in6 *in6 = (const void *)addr;
	const struct sockaddr_in *in = (const void *)addr;

	if (addr->sa_family == AF_INET)
		inet_ntop(AF_INET, &in->sin_addr, host, size);
	else if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		inet_ntop(AF_INET, &in6->sin6_addr.s6_addr[12], host, size);
	else
		inet_ntop(AF_INET6, &in6->sin6_addr, host, size);
}

static int open_socket(void)
{
	return sv_fd_track(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/* ---- sockets of ids ---- */

static void release_sock(struct sv_watch *watch)
{
	free(SV_CONTAINER(watch, struct sv_cm_sock, watch));
}

struct sv_cm_sock *sv_cm_new_sock(int fd, struct sv_id *id)
{
	struct sv_cm_sock *sock = calloc(1, sizeof(*sock));

	if (!sock)
		return NULL;
	sock->watch.fd = fd;
	sock->watch.release = release_sock;
	sock->id = id;
	return sock;
}

void sv_cm_end_sock(struct sv_cm_sock *sock)
{
	sock->id = sock->listener = NULL;
	sv_fd_close(sock->watch.fd);
	sock->watch.fd = -1;
	sv_watch_retire(&sock->watch);
}

void sv_cm_close(struct sv_id *id)
{
	while (id->embryos) {
		struct sv_cm_sock *sock = id->embryos;

		id->embryos = sock->next;
		sv_cm_end_sock(sock);
	}
	id->nembryos = 0;
	if (id->sock)
		sv_cm_end_sock(id->sock);
	id->sock = NULL;
}

static int bind_port(const struct sv_id *id, int fd, const char *host, uint16_t port)
{
	struct sockaddr_un sun;

	return bind(fd, (struct sockaddr *)&sun, unix_name(id, &sun, host, port)) ? errno : 0;
}

static int bind_free_port(const struct sv_id *id, int fd, const char *host, uint16_t *port)
{
	uint16_t random;

	for (int i = 0; i < PORT_TRIES; i++) {
		int ret;

		if (sv_random(&random, sizeof(random)))
			return EIO;
		*port = (uint16_t)(FIRST_FREE_PORT + random % FIRST_FREE_PORT);
		ret = bind_port(id, fd, host, *port);
		if (ret != EADDRINUSE)
			return ret;
	}
	return EADDRINUSE;
}

int sv_cm_bind(struct sv_id *id, const struct sockaddr *addr)
{
	char host[INET6_ADDRSTRLEN] = "";
	uint16_t port = port_of(addr);
	int fd, ret;

	host_name(addr, host, sizeof(host));
	if (id->af_only && !strcmp(host, "::"))
		strcpy(host, IPV6_ONLY);
	fd = open_socket();
	if (fd < 0)
		return errno;
	ret = port ? bind_port(id, fd, host, port) : bind_free_port(id, fd, host, &port);
	if (ret)
		goto err;
	ret = ENOMEM;
	id->sock = sv_cm_new_sock(fd, id);
	if (!id->sock)
		goto err;
	memcpy(&id->id.route.addr.src_storage, addr,
	       addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
					     sizeof(struct sockaddr_in));
	set_port(&id->id.route.addr.src_addr, port);
	return 0;
err:
	sv_fd_close(fd);
	return ret;
}

bool sv_cm_is_cut(const struct sv_id *id)
{
	const struct rdma_addr *addr = &id->id.route.addr;

	return sv_device_may_be_cut() && (sv_device_is_cut(sv_device_of(&addr->src_addr)) ||
					  sv_device_is_cut(sv_device_of(&addr->dst_addr)));
}

int sv_cm_send(struct sv_id *id, const struct sv_cm_msg *msg)
{
	if (!id->sock || id->sock->watch.fd < 0)
		return ENOTCONN;
	if (sv_cm_is_cut(id))
		return 0;
	return send(id->sock->watch.fd, msg, sizeof(*msg), MSG_DONTWAIT | MSG_NOSIGNAL) ==
			       (ssize_t)sizeof(*msg) ?
		       0 :
		       errno;
}

/* ---- connect ---- */

/* Tries the address itself, then the wildcards that would cover it.  IPV6_ONLY is
 * the name of the IPv6 wildcard that covers no IPv4 address. */
static int connect_listener(const struct sv_id *id, int fd)
{
	const struct sockaddr *dst = &id->id.route.addr.dst_addr;
	char host[INET6_ADDRSTRLEN] = "";
	const char *hosts[3] = { host, "0.0.0.0", "::" };
	int ret = ECONNREFUSED;

	host_name(dst, host, sizeof(host));
	if (strchr(host, ':')) {
		hosts[1] = "::";
		hosts[2] = IPV6_ONLY;
	}
	for (int i = 0; i < 3 && ret == ECONNREFUSED; i++) {
		struct sockaddr_un sun;
		socklen_t len = unix_name(id, &sun, hosts[i], port_of(dst));

		ret = connect(fd, (struct sockaddr *)&sun, len) ? errno : 0;
	}
	return ret;
}

int sv_cm_dial(const struct sv_id *id)
{
	int fd = open_socket(), ret;

	if (fd < 0)
		return -1;
	ret = connect_listener(id, fd);
	if (!ret && !sv_same_user(fd))
		ret = ECONNREFUSED;
	if (!ret)
		return fd;
	sv_fd_close(fd);
	return sv_cm_fail(ret);
}

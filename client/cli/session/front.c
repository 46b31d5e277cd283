/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/session/front.h"

#include "config.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 10000 /* kvfront waits for its kvd for 5 s */
#define GREETING "VERSION "
#define OURS "-kvfront-"

static const char question[] = "version\r\nstats\r\n";

__attribute__((format(printf, 4, 5))) static void tell(struct cli_front *f, const char *mark,
						       const char *where, const char *format, ...)
{
	int n = snprintf(f->text, sizeof f->text, "%.200s: ", where);
	va_list ap;

	va_start(ap, format);
	vsnprintf(f->text + n, sizeof f->text - (size_t)n, format, ap);
	va_end(ap);
	f->mark = mark;
}

/* ----------------------------------------------------------------- connect */

/* A descriptor, or -1 after setting errno. */
static int connect_to(int family, const struct sockaddr *addr, socklen_t bytes)
{
	const struct timeval patience = { .tv_sec = PATIENCE_MS / 1000 };
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); /* of connect(), too */
	if (!connect(fd, addr, bytes))
		return fd;
	int error = errno;
	close(fd);
	errno = error;
	return -1;
}

static int connect_path(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof addr.sun_path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(addr.sun_path, path);
	return connect_to(AF_UNIX, (struct sockaddr *)&addr, sizeof addr);
}

static int connect_host(const char *where)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	const char *port = strrchr(where, ':');
	struct addrinfo *found;
	char host[256];
	int fd = -1;

	if (!port || port == where || (size_t)(port - where) >= sizeof host) {
		errno = EINVAL;
		return -1;
	}
	snprintf(host, sizeof host, "%.*s", (int)(port - where), where);
	if (getaddrinfo(host, port + 1, &hints, &found)) {
		errno = EADDRNOTAVAIL;
		return -1;
	}
	for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
		fd = connect_to(a->ai_family, a->ai_addr, a->ai_addrlen);
	int error = errno;
	freeaddrinfo(found);
	errno = error;
	return fd;
}

/* --------------------------------------------------------------------- ask */

static int ms_since(const struct timespec *begun)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int)((now.tv_sec - begun->tv_sec) * 1000 + (now.tv_nsec - begun->tv_nsec) / 1000000);
}

/* That is all, or the first of it is no version, and nothing else will come. */
static bool is_answered(const char *text)
{
	return strstr(text, "END\r\n") || (*text == 'V' ? strstr(text, "ERROR") : strchr(text, '\n'));
}

/* False: it was not answered in time. */
static bool ask(int fd, char *text, size_t room)
{
	struct timespec begun;
	size_t bytes = 0;

	clock_gettime(CLOCK_MONOTONIC, &begun);
	if (send(fd, question, sizeof question - 1, MSG_NOSIGNAL) != sizeof question - 1)
		return false;
	text[0] = '\0';
	while (!is_answered(text) && bytes + 1 < room) {
		struct pollfd in = { .fd = fd, .events = POLLIN };
		int left_ms = PATIENCE_MS - ms_since(&begun);
		if (left_ms <= 0 || poll(&in, 1, left_ms) <= 0)
			return false;
		ssize_t n = recv(fd, text + bytes, room - 1 - bytes, 0);
		if (n <= 0)
			return false;
		bytes += (size_t)n;
		text[bytes] = '\0';
	}
	return true;
}

/* Only letters, digits, dots, dashes and pluses, so that it can be shown. */
static void take_word(const char *from, char *to, size_t room)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-~";
	size_t bytes = strspn(from, plain);

	snprintf(to, room, "%.*s", (int)(bytes < room ? bytes : room - 1), from);
}

static void judge(const char *where, const char *text, struct cli_front *f)
{
	const char *ours = strstr(text, OURS);
	char version[64];

	if (strstr(text, "unauthenticated")) {
		tell(f, "note", where, "it wants a name and a password first, so it is not known how it is");
		return;
	}
	if (strncmp(text, GREETING, strlen(GREETING)) != 0 || !ours || ours > strchr(text, '\r')) {
		take_word(strncmp(text, GREETING, strlen(GREETING)) ? "" : text + strlen(GREETING), version,
			  sizeof version);
		tell(f, "note", where, "it is no kvfront%s%s", *version ? ", but a memcached " : "", version);
		return;
	}
	take_word(ours + strlen(OURS), version, sizeof version);
	if (!strstr(text, "STAT kvd_reachable 1\r\n"))
		tell(f, "FIX", where, "version %s; it does not reach its kvd: its log says why, and kvcli "
		     "ping whether kvd answers", version);
	else if (strcmp(version, PACKAGE_VERSION) != 0)
		tell(f, "note", where, "version %s, it reaches its kvd; kvcli is version %s: restart "
		     "kvfront if it was updated", version, PACKAGE_VERSION);
	else
		tell(f, "ok", where, "version %s, it reaches its kvd", version);
}

void cli_front_examine(const char *where, struct cli_front *f)
{
	char text[16384];
	int fd = strchr(where, '/') ? connect_path(where) : connect_host(where);

	f->is_there = fd >= 0 || (errno != ENOENT && errno != ECONNREFUSED);
	if (fd >= 0 && ask(fd, text, sizeof text))
		judge(where, text, f);
	else if (fd >= 0)
		tell(f, "FIX", where, "it takes connections, but does not answer: restart it");
	else if (errno == EACCES || errno == EPERM)
		tell(f, "note", where, "%s: only the socket's owner and group may ask it", strerror(errno));
	else if (errno == EINVAL)
		tell(f, "FIX", where, "no path of a socket, and not HOST:PORT");
	else
		tell(f, "FIX", where, "no kvfront: %s: start it, or say where it is", strerror(errno));
	if (fd >= 0)
		close(fd);
}

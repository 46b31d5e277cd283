/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/listener.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/addr.h"
#include "common/log_limit.h"
#include "front/loop.h"

#define ACCEPTS_MAX 64u /* in a row */

struct listener {
	struct listeners *all;
	struct event *event;
	int fd; /* -1: none */
};

struct listeners {
	struct front *front;
	const struct options *options;
	struct listener tcp, local;
	unsigned next; /* the loop whose turn it is */
	char text[ADDR_TEXT_BYTES + sizeof(struct sockaddr_un) + 8];
};

/* ------------------------------------------------------------------ accept */

static void hand_over(struct listeners *ls, int fd, bool tcp)
{
	struct front *front = ls->front;
	int on = 1;

	if (atomic_load_explicit(&front->connections, memory_order_relaxed) >=
	    (unsigned)ls->options->connections) {
		static const char full[] = "ERROR Too many open connections\r\n";
		if (send(fd, full, sizeof full - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			log_debug("a client was gone before it was sent away");
		close(fd);
		log_limited(LOG_LEVEL_WARN, "clients sent away",
			    "as many clients as may be (--conn-limit %d): one was sent away",
			    ls->options->connections);
		return;
	}
	if (tcp)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	atomic_fetch_add_explicit(&front->connections, 1, memory_order_relaxed);
	if (loop_adopt(front->loops[ls->next++ % front->loop_count], fd))
		atomic_fetch_sub_explicit(&front->connections, 1, memory_order_relaxed);
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
	struct listener *l = arg;

	(void)what;
	for (unsigned i = 0; i < ACCEPTS_MAX; i++) {
		int got = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (got >= 0) {
			hand_over(l->all, got, l == &l->all->tcp);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE) {
			log_limited(LOG_LEVEL_ERROR, "connections without a descriptor",
				    "no descriptor for a connection: raise 'ulimit -n', or lower "
				    "--conn-limit");
			usleep(10000); /* it would be told of again at once */
		}
		return;
	}
}

/* ------------------------------------------------------------------ listen */

static int begin(struct listener *l, struct event_base *base, struct err *err)
{
	l->event = event_new(base, l->fd, EV_READ | EV_PERSIST, on_accept, l);
	return l->event && !event_add(l->event, NULL) ? 0 : err_set(err, -1, "out of memory");
}

static int listen_tcp(struct listeners *ls, struct err *err)
{
	const struct options *o = ls->options;
	struct sockaddr_storage bound;
	socklen_t bytes = sizeof bound;
	int on = 1, port = o->port < 0 ? 0 : o->port;
	struct addr addr;
	char text[512];

	snprintf(text, sizeof text, strchr(o->listen, ':') && *o->listen != '[' ? "[%s]:%d" : "%s:%d",
		 o->listen, port);
	if (addr_parse(&addr, text, err))
		return -1;
	ls->tcp.fd = socket(addr.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (ls->tcp.fd < 0)
		return err_set_errno(err, -1, errno, "can't make a TCP socket");
	setsockopt(ls->tcp.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(ls->tcp.fd, &addr.sa,
		 addr.sa.sa_family == AF_INET6 ? sizeof addr.v6 : sizeof addr.v4) ||
	    listen(ls->tcp.fd, o->backlog))
		return err_set_errno(err, -1, errno, "can't listen at %s (see -l and -p)", addr.text);
	if (getsockname(ls->tcp.fd, (struct sockaddr *)&bound, &bytes))
		return err_set_errno(err, -1, errno, "getsockname");
	addr_from(&addr, (struct sockaddr *)&bound);
	snprintf(ls->text, sizeof ls->text, "%s\n", addr.text);
	return 0;
}

/* A socket that nobody listens at is an old one. */
static int remove_old(const struct sockaddr_un *address, struct err *err)
{
	struct stat st;

	if (lstat(address->sun_path, &st))
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return err_set(err, -1, "%s is there and is no socket", address->sun_path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int rc = fd < 0 ? -1 : connect(fd, (const struct sockaddr *)address, sizeof *address);
	if (fd >= 0)
		close(fd);
	if (!rc)
		return err_set(err, -1, "somebody listens at %s already", address->sun_path);
	return unlink(address->sun_path)
		       ? err_set_errno(err, -1, errno, "can't remove %s", address->sun_path)
		       : 0;
}

static int listen_local(struct listeners *ls, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const struct options *o = ls->options;
	size_t used = strlen(ls->text);

	if (strlen(o->socket) >= sizeof address.sun_path)
		return err_set(err, -1, "%s: the path of a Unix socket has %zu bytes at the most",
			       o->socket, sizeof address.sun_path - 1);
	strcpy(address.sun_path, o->socket);
	if (remove_old(&address, err))
		return -1;
	ls->local.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (ls->local.fd < 0)
		return err_set_errno(err, -1, errno, "can't make a Unix socket");
	mode_t before = umask(~(mode_t)o->socket_mode & 0777);
	int rc = bind(ls->local.fd, (struct sockaddr *)&address, sizeof address);
	umask(before);
	if (rc || listen(ls->local.fd, o->backlog)) {
		close(ls->local.fd);
		ls->local.fd = -1;
		return err_set_errno(err, -1, errno, "can't listen at %s", o->socket);
	}
	snprintf(ls->text + used, sizeof ls->text - used, "%s\n", o->socket);
	return 0;
}

int listeners_new(const struct options *options, struct front *front, struct event_base *base,
		  struct listeners **listeners, struct err *err)
{
	struct listeners *ls = calloc(1, sizeof *ls);

	*listeners = ls;
	if (!ls)
		return err_set(err, -1, "out of memory");
	ls->front = front;
	ls->options = options;
	ls->tcp = ls->local = (struct listener){ .all = ls, .fd = -1 };
	if (options->port && (listen_tcp(ls, err) || begin(&ls->tcp, base, err)))
		return -1;
	if (options->socket && (listen_local(ls, err) || begin(&ls->local, base, err)))
		return -1;
	return 0;
}

static void end(struct listener *l)
{
	if (l->event)
		event_free(l->event);
	if (l->fd >= 0)
		close(l->fd);
}

void listeners_delete(struct listeners **listeners)
{
	struct listeners *ls = *listeners;

	if (!ls)
		return;
	if (ls->local.fd >= 0)
		unlink(ls->options->socket);
	end(&ls->tcp);
	end(&ls->local);
	free(ls);
	*listeners = NULL;
}

const char *listeners_text(const struct listeners *ls)
{
	return ls->text;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/metrics/http.h"

#include "config.h"

#ifdef HAVE_LIBMICROHTTPD

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/addr.h"
#include "common/clock.h"
#include "common/log.h"
#include "server/metrics/guests.h"
#include "server/metrics/metrics.h"

/* Who scrapes is one or two; guests.h says who goes when there are many. */
#define CONNECTIONS_MAX (2 * GUESTS_MAX)
#define TIMEOUT_S 10u
#define LOOK_MS 250
#define MEMORY_BYTES_MAX 16384u

struct http {
	struct host *host;
	struct MHD_Daemon *daemon;
	struct guests guests;
	pthread_t thread;
	bool has_thread;
	int stop_fd; /* eventfd */
};

static enum MHD_Result answer(struct MHD_Connection *c, unsigned status, const char *type,
			      const char *text, size_t bytes, enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(bytes, (void *)(uintptr_t)text, mode);

	if (!r)
		return MHD_NO;
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	enum MHD_Result queued = MHD_queue_response(c, status, r);
	MHD_destroy_response(r);
	return queued;
}

static enum MHD_Result plain(struct MHD_Connection *c, unsigned status, const char *text)
{
	return answer(c, status, "text/plain; charset=utf-8", text, strlen(text),
		      MHD_RESPMEM_MUST_COPY);
}

static enum MHD_Result answer_metrics(struct http *h, struct MHD_Connection *c)
{
	size_t bytes;
	char *text = metrics_text(h->host, &bytes);

	if (!text)
		return plain(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
	return answer(c, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", text, bytes,
		      MHD_RESPMEM_MUST_FREE);
}

static enum MHD_Result answer_health(struct http *h, struct MHD_Connection *c)
{
	char text[128];
	bool well = metrics_healthy(h->host, text, sizeof text);

	return plain(c, well ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, text);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_bytes, void **state)
{
	static int begun;
	struct http *h = arg;

	(void)version;
	(void)upload;
	if (!*state) { /* the head is there, a body may follow */
		*state = &begun;
		return MHD_YES;
	}
	if (*upload_bytes) {
		*upload_bytes = 0; /* passed over */
		return MHD_YES;
	}
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return plain(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
	if (!strcmp(url, "/metrics"))
		return answer_metrics(h, c);
	if (!strcmp(url, "/healthz"))
		return answer_health(h, c);
	return plain(c, !strcmp(url, "/") ? MHD_HTTP_OK : MHD_HTTP_NOT_FOUND,
		     "kvd: /metrics, /healthz\n");
}

static void on_connection(void *arg, struct MHD_Connection *c, void **guest,
			  enum MHD_ConnectionNotificationCode what)
{
	struct http *h = arg;
	const union MHD_ConnectionInfo *fd, *peer;

	if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (*guest)
			guests_leave(&h->guests, *guest);
		*guest = NULL;
		return;
	}
	fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	peer = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	if (!fd)
		return;
	*guest = guests_come(&h->guests, fd->connect_fd, peer ? peer->client_addr : NULL, clock_ns());
	if (!*guest)
		shutdown(fd->connect_fd, SHUT_RDWR);
}

/* Its time begins again. */
static void on_answered(void *arg, struct MHD_Connection *c, void **state,
			enum MHD_RequestTerminationCode why)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct guest *guest = info ? info->socket_context : NULL;

	(void)arg;
	(void)state;
	if (guest && why == MHD_REQUEST_TERMINATED_COMPLETED_OK)
		guest->since_ns = clock_ns();
}

/* How long to wait for something to do; -1: for as long as nothing comes. */
static int wait_ms(const struct http *h)
{
	MHD_UNSIGNED_LONG_LONG ms;
	int most = h->guests.count ? LOOK_MS : -1;

	if (MHD_get_timeout(h->daemon, &ms) != MHD_YES)
		return most;
	return most < 0 || ms < (unsigned)most ? (int)(ms < LOOK_MS ? ms : LOOK_MS) : most;
}

static void *run(void *arg)
{
	struct http *h = arg;
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	struct pollfd fds[2] = { { .fd = h->stop_fd, .events = POLLIN },
				 { .fd = info ? info->epoll_fd : -1, .events = POLLIN } };

	while (!fds[0].revents) {
		if (poll(fds, 2, wait_ms(h)) < 0 && errno != EINTR)
			break;
		guests_look(&h->guests, clock_ns());
		MHD_run(h->daemon);
	}
	return NULL;
}

static int start_thread(struct http *h, struct err *err)
{
	h->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int rc = h->stop_fd < 0 ? errno : pthread_create(&h->thread, NULL, run, h);

	h->has_thread = !rc;
	return rc ? err_set_errno(err, -1, rc, "--metrics: can't start its thread") : 0;
}

static void on_log(void *arg, const char *format, va_list args)
{
	char text[256];

	(void)arg;
	vsnprintf(text, sizeof text, format, args);
	text[strcspn(text, "\n")] = '\0';
	log_debug("metrics: %s", text);
}

int http_new(struct host *host, const char *address, struct http **http, struct err *err)
{
	struct http *h = calloc(1, sizeof *h);
	struct addr addr;

	*http = NULL;
	if (!h)
		return err_set(err, -1, "out of memory");
	if (addr_parse(&addr, address, err)) {
		free(h);
		return -1;
	}
	h->host = host;
	h->stop_fd = -1;
	guests_init(&h->guests);
	unsigned flags = MHD_USE_EPOLL | MHD_USE_ERROR_LOG |
			 (addr.sa.sa_family == AF_INET6 ? MHD_USE_IPv6 : 0);
	errno = 0;
	h->daemon = MHD_start_daemon(flags, 0, NULL, NULL, on_request, h, MHD_OPTION_EXTERNAL_LOGGER,
				     on_log, NULL, MHD_OPTION_SOCK_ADDR, &addr.sa,
				     MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
				     MHD_OPTION_NOTIFY_COMPLETED, on_answered, h,
				     MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
				     MHD_OPTION_CONNECTION_TIMEOUT, TIMEOUT_S,
				     MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_BYTES_MAX,
				     MHD_OPTION_END);
	if (!h->daemon) {
		int e = errno;
		free(h);
		return err_set(err, -1, "--metrics: can't serve %s: %s; give an address of this machine "
			       "and a port that is free, or port 0 for any", addr.text, strerror(e));
	}
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_BIND_PORT);
	if (info)
		addr_set_port(&addr, info->port);
	if (start_thread(h, err)) {
		http_delete(&h);
		return -1;
	}
	log_info("metrics at http://%s/metrics", addr.text);
	*http = h;
	return 0;
}

void http_delete(struct http **http)
{
	if (!*http)
		return;
	if ((*http)->has_thread && !eventfd_write((*http)->stop_fd, 1))
		pthread_join((*http)->thread, NULL);
	MHD_stop_daemon((*http)->daemon);
	if ((*http)->stop_fd >= 0)
		close((*http)->stop_fd);
	free(*http);
	*http = NULL;
}

#else

int http_new(struct host *host, const char *address, struct http **http, struct err *err)
{
	(void)host;
	(void)address;
	*http = NULL;
	return err_set(err, -1, "--metrics: this kvd was built without libmicrohttpd; install "
		       "libmicrohttpd-dev (Debian, Ubuntu) or libmicrohttpd-devel (Fedora) and "
		       "configure again");
}

void http_delete(struct http **http)
{
	*http = NULL;
}

#endif

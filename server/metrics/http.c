/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/metrics/http.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef HAVE_LIBMICROHTTPD

#include <errno.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/addr.h"
#include "common/log.h"
#include "server/metrics/metrics.h"

/* Who scrapes is one or two; more than this is a mistake or an attack. */
#define CONNECTIONS_MAX 16u
#define TIMEOUT_S 10u
#define MEMORY_BYTES_MAX 16384u

struct http {
	struct host *host;
	struct MHD_Daemon *daemon;
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
	unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO | MHD_USE_ERROR_LOG |
			 (addr.sa.sa_family == AF_INET6 ? MHD_USE_IPv6 : 0);
	errno = 0;
	h->daemon = MHD_start_daemon(flags, 0, NULL, NULL, on_request, h, MHD_OPTION_EXTERNAL_LOGGER,
				     on_log, NULL, MHD_OPTION_SOCK_ADDR, &addr.sa,
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
	log_info("metrics at http://%s/metrics", addr.text);
	*http = h;
	return 0;
}

void http_delete(struct http **http)
{
	if (!*http)
		return;
	MHD_stop_daemon((*http)->daemon);
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

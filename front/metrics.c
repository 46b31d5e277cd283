/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/metrics.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/addr.h"
#include "common/log.h"
#include "front/stats.h"

#define HEAD_BYTES_MAX 16384
#define BODY_BYTES_MAX 4096
#define TIMEOUT_S 10

struct metrics {
	struct front *front;
	struct evhttp *http;
};

static void answer(struct evhttp_request *request, int status, const char *type, const char *text)
{
	struct evbuffer *body = evbuffer_new();

	evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type", type);
	if (body)
		evbuffer_add(body, text, strlen(text));
	evhttp_send_reply(request, status, NULL, body);
	if (body)
		evbuffer_free(body);
}

static void on_metrics(struct evhttp_request *request, void *arg)
{
	struct metrics *m = arg;
	char *text = stats_prometheus(m->front);

	if (text)
		answer(request, HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", text);
	else
		answer(request, HTTP_INTERNAL, "text/plain", "out of memory\n");
	free(text);
}

static void on_other(struct evhttp_request *request, void *arg)
{
	(void)arg;
	answer(request, HTTP_NOTFOUND, "text/plain; charset=utf-8", "kvfront: /metrics\n");
}

/* It closes its descriptor when that has left the loop's set: evhttp by itself would close it before, and
 * then take another one's of that number out. */
static struct bufferevent *new_connection(struct event_base *base, void *arg)
{
	(void)arg;
	return bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
}

static int listen_at(struct metrics *m, struct addr *addr, struct err *err)
{
	struct sockaddr_storage bound;
	socklen_t bytes = sizeof bound;
	int on = 1, fd = socket(addr->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err_set_errno(err, -1, errno, "--metrics: can't make a socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, &addr->sa,
		 addr->sa.sa_family == AF_INET6 ? sizeof addr->v6 : sizeof addr->v4) ||
	    listen(fd, 16) || getsockname(fd, (struct sockaddr *)&bound, &bytes) ||
	    evhttp_accept_socket(m->http, fd)) {
		err_set_errno(err, -1, errno,
			      "--metrics: can't serve %s (give an address of this machine and a "
			      "port that is free)",
			      addr->text);
		close(fd);
		return -1;
	}
	addr_from(addr, (struct sockaddr *)&bound);
	return 0;
}

int metrics_new(struct front *front, struct event_base *base, const char *address,
		struct metrics **metrics, struct err *err)
{
	struct metrics *m = calloc(1, sizeof *m);
	struct addr addr;

	*metrics = m;
	if (!m)
		return err_set(err, -1, "out of memory");
	m->front = front;
	if (addr_parse(&addr, address, err))
		return -1;
	m->http = evhttp_new(base);
	if (!m->http)
		return err_set(err, -1, "out of memory");
	evhttp_set_max_headers_size(m->http, HEAD_BYTES_MAX);
	evhttp_set_max_body_size(m->http, BODY_BYTES_MAX);
	evhttp_set_timeout(m->http, TIMEOUT_S);
	evhttp_set_allowed_methods(m->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
	evhttp_set_bevcb(m->http, new_connection, NULL);
	evhttp_set_gencb(m->http, on_other, m);
	if (evhttp_set_cb(m->http, "/metrics", on_metrics, m))
		return err_set(err, -1, "out of memory");
	if (listen_at(m, &addr, err))
		return -1;
	log_info("metrics at http://%s/metrics", addr.text);
	return 0;
}

void metrics_delete(struct metrics **metrics)
{
	if (!*metrics)
		return;
	if ((*metrics)->http)
		evhttp_free((*metrics)->http);
	free(*metrics);
	*metrics = NULL;
}

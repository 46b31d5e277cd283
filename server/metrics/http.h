/* SPDX-License-Identifier: BSD-2-Clause */
/* http.h -- GET /metrics and GET /healthz, answered by a thread of their own. */
#ifndef SERVER_METRICS_HTTP_H
#define SERVER_METRICS_HTTP_H

#include "common/err.h"

struct http;
struct host;

/* Listens at "ADDR:PORT".  0, or -1 after setting err. */
int http_new(struct host *host, const char *address, struct http **http, struct err *err);
/* No request is under way any more when it returns.  Takes NULL. */
void http_delete(struct http **http);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* request.h -- requests: made, queued, ended.  The loop's thread. */
#ifndef FRONT_CONN_REQUEST_H
#define FRONT_CONN_REQUEST_H

#include "front/conn/impl.h"

/* At the end of the connection's queue, waiting; NULL: out of memory. */
struct request *request_new(struct conn *c, const struct command *command);
/* Its key, as it came or, of base64, as it is; false: it is no base64. */
bool request_set_key(struct request *r, const char *key, size_t bytes);

/* Whether it has to wait for an earlier one of its connection. */
bool request_must_wait(const struct request *r);

/* It has been started, and has to wait after all. */
void request_wait(struct request *r);

/* It has its answer.  Its connection, if there still is one, is dirty. */
void request_end(struct request *r, enum outcome outcome);
/* With a text that lives for ever; NULL: no answer. */
void request_end_text(struct request *r, const char *text);
/* "SERVER_ERROR " and a sentence, which is copied. */
void request_end_error(struct request *r, const char *why);

/* Takes the first of the queue out, and frees it. */
void request_pop(struct conn *c);
/* The connection ends: those that are executed go on for nobody, the others are dropped. */
void requests_forget(struct conn *c);
/* Also those that are executed for nobody; kvd's sessions are gone. */
void requests_free_all(struct loop *loop);

/* Before the loop sleeps it runs. */
void conn_mark(struct conn *c);

#endif

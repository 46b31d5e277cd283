/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rewrites.h -- appends and prepends to long values, and touches of them, that are under way: one a
 * connection, and a step of one of them (server/store/rewrite.h) in a worker's round.
 *
 * A worker's thread, all of it.
 */
#ifndef SERVER_WORKER_REQUEST_REWRITES_H
#define SERVER_WORKER_REQUEST_REWRITES_H

#include <stdbool.h>
#include <stdint.h>

#include "server/worker/request/deferred.h"
#include "server/worker/request/parts.h"

#define REWRITES 8u

struct layout_item;
struct rewriting;
struct sendq;
struct wire_request;

struct rewrites {
	struct request_parts parts;
	struct rewriting *all;
	unsigned turn, count; /* count: under way */
};

/* 0 or an errno value. */
int rewrites_init(struct rewrites *rewrites, const struct request_parts *parts);
void rewrites_fini(struct rewrites *rewrites);

/* Whether there is room for one more, of this connection. */
bool rewrites_may_begin(const struct rewrites *rewrites, const struct sendq *to);
/* Caller: has seen that there is room.  `input`: an item with the key, the attributes and
 * what is to be joined; it is taken over.  The answer comes when all is done. */
void rewrites_begin(struct rewrites *rewrites, struct sendq *to, const struct wire_request *request,
		    struct layout_item *input, uint64_t begun_ns);
void rewrites_step(struct rewrites *rewrites);
bool rewrites_waiting(const struct rewrites *rewrites);

#endif

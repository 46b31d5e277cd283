/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clear.h -- a flush at a time that was told before: what is there then goes.
 *
 * From that time on a request finds none of it: clear_key() takes it away ahead of each.  A
 * walk takes the rest, in steps of a worker's rounds; until it has come by, a one-sided GET
 * finds what is still there.  Any worker.
 */
#ifndef SERVER_STORE_RECLAIM_CLEAR_H
#define SERVER_STORE_RECLAIM_CLEAR_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/change/change.h"

struct clear;

/* 0 or an errno value. */
int clear_new(struct clear **clear);
void clear_delete(struct clear **clear);

/* The time, in kvd's clock; 0: none, and one that was set before counts no more. */
void clear_set(struct store *store, uint64_t at_ms);
/* Whether the time has come, and not everything is gone. */
bool clear_is_due(const struct store *store);
/* Whether it is due, and the next step can be made at once. */
bool clear_is_ready(const struct store *store, uint64_t now_ns);
void clear_step(struct store_worker *worker, uint64_t now_ns);
/* False: the key is to go, and somebody is in the way.  Caller: has seen that it is due. */
bool clear_key(struct store_worker *worker, const struct store_change *key);

#endif

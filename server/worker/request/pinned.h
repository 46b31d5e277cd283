/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pinned.h -- items that clients READ because kvd told them where: the answers to GETs whose
 * value is too long for a message.
 *
 * One a connection.  It lasts until the client gives it back, the connection's next GET of
 * a long value, or PINNED_NS, whichever is first; the store may end it before (server/store/item/pin.h).
 * A worker's thread, all of it.
 */
#ifndef SERVER_WORKER_REQUEST_PINNED_H
#define SERVER_WORKER_REQUEST_PINNED_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/item/pin.h"

#define PINNED_NS 10000000000ull

struct store_change;
struct store_result;
struct store_worker;

/* A connection's; zeros: none. */
struct pinned {
	struct pin pin;
	uint64_t version;
	uint64_t until_ns; /* 0: it is in no list */
	struct pinned *next, **prev;
};

/* A worker's, the first to end first. */
struct pinned_list {
	struct pinned *first, **end;
};

void pinned_init(struct pinned_list *list);

/* Gives back what is pinned there, and pins the key's item; as store_pin(). */
int pinned_take(struct pinned_list *list, struct store_worker *store, struct pinned *pinned,
		const struct store_change *key, struct store_result *result, uint64_t now_ns);
/* Gives it back, if there is one. */
void pinned_end(struct pinned_list *list, struct store_worker *store, struct pinned *pinned);
/* Gives back those whose time is over. */
void pinned_lapse(struct pinned_list *list, struct store_worker *store, uint64_t now_ns);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rmw.h -- changes whose value comes from the old one: counters, append, prepend, touch.
 */
#ifndef SERVER_STORE_CHANGE_RMW_H
#define SERVER_STORE_CHANGE_RMW_H

#include "server/store/change/change.h"

/* More than that is not computed in one go: copying and hashing it takes a millisecond. */
#define COMPUTE_BYTES_MAX (1u << 20)

/* What was made of the old item beforehand (server/store/rewrite.h). */
struct rewritten {
	const struct layout_item *from; /* the old item; NULL: there was none */
	uint64_t version;               /* of it; 0: it is pinned */
	struct layout_item *item;       /* WIRE_APPEND, WIRE_PREPEND: the new one, hashed */
	struct layout_attributes with;  /* that it was made with */
	uint64_t hash;                  /* WIRE_TOUCH: of all of it, but version and place */
};

/* Lives as long as the store_put that it is for. */
struct compute {
	enum wire_op op;         /* WIRE_INCR, WIRE_APPEND, WIRE_PREPEND, WIRE_TOUCH */
	struct wire_incr incr;
	bool has_initial;
	int64_t number;          /* WIRE_INCR: the new one; WIRE_UNSIGNED: its 64 bits */
	const struct rewritten *made; /* NULL: nothing as yet */
	/* The new value where it is short; the new header and key of a WIRE_TOUCH. */
	uint8_t buf[LAYOUT_INPLACE_BYTES_MAX] __attribute__((aligned(8)));
};

/* False if the request makes no sense.  `value`: what stands behind its key. */
bool compute_init(struct compute *compute, const struct wire_request *request,
		  const void *value);

/*
 * Completes a change: sets value and value_bytes (in change->compute or in the old
 * item), or item (new memory), or head; and what is stored with it.  `old` is NULL if there is
 * no such key.  Caller: has the key's stripe marked, and no bucket locked.  An enum
 * wire_status; or STORE_LONG: it is too much for one go, or was made of another item.  If it
 * is not WIRE_OK, nothing was allocated.
 */
int compute_run(struct store_worker *worker, struct store_change *change,
		const struct layout_item *old);

/* What is kept with the new value: what the old one had, but for what is asked to change. */
struct layout_attributes compute_attributes(const struct store_change *change,
					    const struct layout_item *old);

static inline bool compute_joins(enum wire_op op)
{
	return op == WIRE_APPEND || op == WIRE_PREPEND;
}

/* Decimal text as compute_run writes it, and nothing else: "-17", not "007". */
bool compute_parse(const uint8_t *text, uint64_t bytes, int64_t *number);

#endif

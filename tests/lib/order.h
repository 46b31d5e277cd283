/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * order.h -- whether what clients saw of a store can be explained by operations that take
 * effect one at a time, each at one instant between its call and its return.
 *
 * linear.h does so for GET, PUT and DEL of millions of operations; this one for all that a
 * client can ask of kvd, in episodes of some dozens of operations on a few keys.
 *
 *	struct order *o = order_new();
 *	struct order_op *op = order_add(o, client, start_ns, end_ns);
 *	op->parts[op->count++] = (struct order_part){ .kind = ORDER_GET, .key = 1,
 *		.result = ORDER_OK, .value = order_text(o, "Ada", 3) };
 *	if (order_check(o, states_max, &report) != ORDER_EXPLAINED)
 *		order_print(o, &report, stderr);
 *
 * An operation has parts, which take effect at the same instant: a GET has one, a
 * transaction one for each key that it read and for each that it changed.
 */
#ifndef TESTS_LIB_ORDER_H
#define TESTS_LIB_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define ORDER_OPS_MAX 256u
#define ORDER_KEYS_MAX 8u
#define ORDER_PARTS_MAX 8u
#define ORDER_OPEN UINT64_MAX /* an end that never came */

enum order_kind {
	ORDER_GET,
	ORDER_PUT,
	ORDER_DEL,
	ORDER_INCR,
	ORDER_APPEND,
	ORDER_PREPEND,
	ORDER_TOUCH,
	ORDER_LOCK,
	ORDER_UNLOCK,
	ORDER_KINDS,
};

enum order_result {
	ORDER_OK,
	ORDER_NOT_FOUND,
	ORDER_CONDITION,
	ORDER_ENUMBER,
	ORDER_ANY, /* not known; of an operation whose outcome is not known */
};

enum order_condition {
	ORDER_ALWAYS,
	ORDER_IF_ABSENT,
	ORDER_IF_PRESENT,
	ORDER_IF_VERSION,
};

struct order_part {
	uint8_t kind;
	uint8_t key; /* below ORDER_KEYS_MAX */
	uint8_t result;
	uint8_t condition;
	bool tells;       /* the answer had a version; with CONDITION 0 is of an absent key */
	bool keeps_ttl;   /* of a PUT or TOUCH: a key that is there keeps its expiry */
	bool has_initial; /* of an INCR */
	uint32_t value;   /* a text: PUT, APPEND, PREPEND: what is stored; GET: what was there */
	uint32_t lock;    /* under which it was done, or that it takes or gives back; 0: none */
	uint64_t if_version;
	uint64_t version; /* that was told */
	uint64_t ttl_ms;  /* 0: for ever */
	uint64_t bytes;   /* APPEND, PREPEND: the length that was told; 0: none was */
	int64_t delta, initial, number; /* of an INCR; `number` is the sum */
};

struct order_op {
	uint64_t start_ns, end_ns;
	uint32_t client;
	/* It took effect at some time after its start, or never: what its parts' results say
	 * doesn't count.  Otherwise it took effect once, by its end. */
	bool is_unknown;
	uint8_t count;
	struct order_part parts[ORDER_PARTS_MAX];
};

enum order_verdict {
	ORDER_EXPLAINED,
	ORDER_BROKEN,    /* no order of the operations explains the answers */
	ORDER_UNDECIDED, /* too many possibilities, or no memory; never a pass */
};

struct order_report {
	uint64_t states; /* that were looked at */
	unsigned expired; /* keys whose time was over, in the orders that were found */
	unsigned keys;   /* a bit for each key of the operations that are not explained */
	unsigned stuck;  /* the first of them to return that has no place */
	bool done[ORDER_OPS_MAX]; /* those with a place, where the search got furthest */
};

struct order;

/* A history without operations, of keys that are absent and not locked.  Exits without memory. */
struct order *order_new(void);
void order_delete(struct order **o);

/* Forgets operations and texts. */
void order_clear(struct order *o);

/* A number for these bytes, above 0, the same for the same bytes. */
uint32_t order_text(struct order *o, const void *bytes, size_t n);

/* A new operation without parts; NULL after ORDER_OPS_MAX.  Valid until order_clear(). */
struct order_op *order_add(struct order *o, uint32_t client, uint64_t start_ns, uint64_t end_ns);

/*
 * Looks for an order.  Each group of keys that operations of several keys join has its own,
 * and is given up after states_max states.
 */
enum order_verdict order_check(struct order *o, uint64_t states_max, struct order_report *report);

/*
 * The operations of the keys that are not explained, in the order of their returns: "+" has a
 * place where the search got furthest, "*" is the first without one.
 */
void order_print(const struct order *o, const struct order_report *report, FILE *to);

#endif

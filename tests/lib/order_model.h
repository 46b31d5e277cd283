/* SPDX-License-Identifier: BSD-2-Clause */
/* order_model.h -- the store that order.h's histories are held against; texts; words. */
#ifndef TESTS_LIB_ORDER_MODEL_H
#define TESTS_LIB_ORDER_MODEL_H

#include "tests/lib/order.h"

#define ORDER_TEXTS_MAX 8192u
#define ORDER_TEXT_BYTES_MAX (64u << 20) /* of all together */

/* Interned byte strings: a value is a number, so that states are small. */
struct order_texts {
	struct order_text {
		char *bytes;
		size_t n;
		uint64_t hash;
	} at[ORDER_TEXTS_MAX];
	uint32_t count;
	size_t bytes;
	bool is_full; /* a verdict would be a guess */
};

/* What is there of a key. */
struct order_key {
	uint32_t value; /* a text; 0: the key is absent */
	uint32_t lock;  /* 0: free */
	/* Of the last change; not of one whose version nobody told: that is above it. */
	uint64_t version;
	uint64_t is_told; /* 0 or 1; no padding, so that states compare as bytes */
	/* When its time is over: not before the one, by the other. */
	uint64_t soonest_ns, latest_ns;
};

struct order_state {
	struct order_key keys[ORDER_KEYS_MAX];
};

/* Numbers bytes; 0: too many. */
uint32_t order_texts_add(struct order_texts *texts, const void *bytes, size_t n);
void order_texts_clear(struct order_texts *texts);

void order_expire(struct order_key *key);

/*
 * Lets an operation take effect.  False, with the state undefined: the store would have
 * answered otherwise, or let it wait.
 */
bool order_step(struct order_texts *texts, struct order_state *state, const struct order_op *op);

/* What a part asked and what it was answered, in words. */
void order_say(const struct order_texts *texts, const struct order_op *op,
	       const struct order_part *part, FILE *to);

#endif

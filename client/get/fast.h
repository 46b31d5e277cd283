/* SPDX-License-Identifier: BSD-2-Clause */
/* fast.h -- the short way of a GET that waits, and of one behind a lock. */
#ifndef CLIENT_GET_FAST_H
#define CLIENT_GET_FAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/hash.h"

struct engine;
struct iovec;
struct op;

struct got { /* of a GET that waits; `allocated` is the caller's */
	void *allocated;
	size_t bytes;
	uint64_t version;
	uint64_t lengths, expiry; /* of the item's header: what is kept beside the value */
};

enum fast {
	FAST_NOT,   /* the ordinary way from its beginning */
	FAST_BEGUN, /* *op is on it */
	FAST_DONE,  /* *result; *got, if that is KVD_OK or KVD_ESPACE */
};

enum fast fast_get(struct engine *e, const void *key, size_t key_bytes, const struct iovec *to,
		   struct got *got, struct op **op, int *result);

/* Of a GET behind the compare-and-swap of its key's lock. */
struct fast_lock {
	bool was_free;  /* the lock */
	bool won;       /* and that counts (doc/cluster.md, 8) */
	bool has_value; /* then `result`, and `got` as above; false: to be READ once more */
	int result;
	struct got got;
	struct op *cas, *read; /* FAST_BEGUN */
};

/* hash: of the key. */
enum fast fast_lock_get(struct engine *e, const void *key, size_t key_bytes, struct hash hash,
			uint64_t token, const struct iovec *to, struct fast_lock *q);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hasher.h -- the checksum of a long value, made while the value arrives.
 *
 * Happy path: a client's second thread hashes what has arrived, while the thread that the
 * session belongs to READs on: at the end that waits for the last part only.  The thread is
 * made for the first long value, serves one value at a time, whichever session's it is, and
 * ends with the client.  It is never relied upon: what it has not begun the session's thread
 * hashes by itself, if it falls behind, and at the end.  So it is without one where there is
 * only one processor, where no thread can be made, while another value has it, and in a
 * process that was forked.
 *
 * A hash belongs to one thread.  Of a hasher any thread may call all but hasher_delete().
 */
#ifndef CLIENT_CACHE_HASHER_H
#define CLIENT_CACHE_HASHER_H

#include <stddef.h>
#include <stdint.h>

#include "client/cache/iov.h"
#include "common/hash.h"

#define HASHER_BYTES_MIN (1u << 20)   /* of a value: waking a thread takes a while, too */
#define HASHER_BEHIND_MAX (1u << 20)  /* then the session's thread hashes, too */
#define HASHER_STEP_BYTES (256u << 10) /* for which the other one waits at the most */

struct hasher;

/* Of the first bytes of `pieces`, in order.  Its owner begins `sum`. */
struct value_hash {
	struct hash_stream sum;
	const struct pieces *pieces;
	struct hasher *by; /* NULL: by nobody else */
	uint64_t hashed;   /* bytes; with the hasher's lock held, if `by` is set, as is what follows */
	uint64_t aside;    /* of them, by the second thread */
};

/* Makes no thread yet.  NULL without memory. */
struct hasher *hasher_new(void);
/* The thread has ended; no value is being hashed.  Also in a forked child. */
void hasher_delete(struct hasher *hasher);

/* `hash->sum` has begun; `bytes` are to come.  The hasher may be NULL. */
void value_hash_begin(struct value_hash *hash, struct hasher *hasher, const struct pieces *pieces,
		      uint64_t bytes);
/* So many more have arrived. */
void value_hash_add(struct value_hash *hash, uint64_t bytes);
/* All of them are in hash->sum, and nobody else looks at the pieces: waits for a step of the
 * second thread at the most. */
void value_hash_end(struct value_hash *hash);
/* The same, without the rest: the value is not wanted any more.  Of one that has ended, or was
 * never begun (all zero), nothing. */
void value_hash_drop(struct value_hash *hash);

#endif

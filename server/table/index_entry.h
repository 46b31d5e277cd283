/* SPDX-License-Identifier: BSD-2-Clause */
/* index_entry.h -- where a key stands in the index. */
#ifndef SERVER_TABLE_INDEX_ENTRY_H
#define SERVER_TABLE_INDEX_ENTRY_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/hash.h"

/* The locked places of one key. */
struct index_spot {
	struct hash hash;
	uint64_t bucket[2]; /* may be equal */
	unsigned epoch[2];
	unsigned lock[2];
	unsigned locks;
};

/* An entry that was found, or made. */
struct index_entry {
	_Atomic uint64_t *at;
	uint64_t word;
	uint64_t bucket; /* number of the bucket, ~0 in an overflow node */
	unsigned slot;
};

#endif

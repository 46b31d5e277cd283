/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * index_bucket.h -- adds words to a bucket and the nodes behind it.  Caller: has the bucket
 * locked.
 */
#ifndef SERVER_TABLE_INDEX_BUCKET_H
#define SERVER_TABLE_INDEX_BUCKET_H

#include "server/table/index_impl.h"
#include "server/table/index_node.h"

/* How many of these words are empty; *first: the first of them, if there is one. */
unsigned index_free_words(const struct words *words, unsigned *first);

/*
 * Adds a word to a bucket or its overflow.  False: there is no memory for a node, which only
 * an ordinary insert meets.
 */
bool index_add(struct index *index, uint64_t bucket, unsigned epoch, uint64_t word,
	       enum node_use use, struct index_entry *entry);

#endif

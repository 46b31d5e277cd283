/* SPDX-License-Identifier: BSD-2-Clause */
/* index_grow.h -- makes the index larger as keys come. */
#ifndef SERVER_TABLE_INDEX_GROW_H
#define SERVER_TABLE_INDEX_GROW_H

struct index;

/*
 * Grows the index by a few buckets if its load asks for it.  Any worker, holding
 * no bucket lock; returns at once if another is at it.
 */
void index_grow(struct index *index);

/* Frees what it keeps from one expansion to the next.  Nobody uses the index any more. */
void index_grow_fini(struct index *index);

#endif

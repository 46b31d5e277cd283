/* SPDX-License-Identifier: BSD-2-Clause */
/* index_node.h -- overflow nodes, from a pool.  Any worker; the pool has a lock. */
#ifndef SERVER_TABLE_INDEX_NODE_H
#define SERVER_TABLE_INDEX_NODE_H

#include "server/table/index_impl.h"

/* What expansions of groups that are not crowded may need in overflow nodes. */
#define INDEX_NODES_RESERVED 512u

/*
 * What a node is for.  Inserts leave a reserve, so that an expansion under way never fails,
 * and what index_promise() promised.
 */
enum node_use { NODE_INSERT, NODE_PROMISED, NODE_GROWTH };

/* A node with all words empty at `epoch`, and the word that links it; 0: none. */
uint64_t index_node_new(struct index *index, unsigned epoch, enum node_use use);
void index_node_delete(struct index *index, uint64_t word);

/*
 * An expansion begins, or needs more: n are free beside those promised, and others leave them;
 * false: no memory.
 */
bool index_nodes_reserve(struct index *index, size_t n);
/* It is over, or did not begin. */
void index_nodes_release(struct index *index);

/*
 * Keeps a node; without `needed`, where an entry has its place now, and loses it to another
 * one only by chance, one of the reserve will do.
 */
bool index_node_promise(struct index *index, bool needed);
void index_node_promises_end(struct index *index, unsigned count);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* index_node.h -- overflow nodes, from a pool.  Any worker; the pool has a lock. */
#ifndef SERVER_TABLE_INDEX_NODE_H
#define SERVER_TABLE_INDEX_NODE_H

#include "server/table/index_impl.h"

/* What expansions of groups that are not crowded may need in overflow nodes. */
#define INDEX_NODES_RESERVED 512u

/*
 * A node with all words empty at `epoch`, and the word that links it; 0: none.
 * Inserts leave a reserve, so that an expansion under way never fails.
 */
uint64_t index_node_new(struct index *index, unsigned epoch, bool growing);
void index_node_delete(struct index *index, uint64_t word);

/* Makes sure that n are free, and that inserts leave them; false: no memory. */
bool index_nodes_reserve(struct index *index, size_t n);

#endif

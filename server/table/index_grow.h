/* SPDX-License-Identifier: BSD-2-Clause */
/* index_grow.h -- what the growth of the index keeps from one expansion to the next. */
#ifndef SERVER_TABLE_INDEX_GROW_H
#define SERVER_TABLE_INDEX_GROW_H

#include "server/table/index_impl.h"

/* Frees it.  Nobody uses the index any more. */
void index_grow_fini(struct index *index);

#endif

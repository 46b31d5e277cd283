/* SPDX-License-Identifier: BSD-2-Clause */
/* index_segment.h -- memory for buckets. */
#ifndef SERVER_TABLE_INDEX_SEGMENT_H
#define SERVER_TABLE_INDEX_SEGMENT_H

#include "server/table/index_impl.h"

/* The segment that the bucket is in.  False: there is no memory, or the table's part for the
 * index is used up. */
bool index_ensure_segment(struct index *index, uint64_t bucket);

#endif

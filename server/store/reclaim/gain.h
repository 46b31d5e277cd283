/* SPDX-License-Identifier: BSD-2-Clause */
/* gain.h -- what compaction could gain, by the books of the slabs and the region alone. */
#ifndef SERVER_STORE_RECLAIM_GAIN_H
#define SERVER_STORE_RECLAIM_GAIN_H

#include "server/table/table.h"

/* What other classes could have if each class' slabs were packed; *all: what all have. */
uint64_t gain_of_slabs(struct slabs *slabs, uint64_t *all);
/* Whether that is worth its cost, where all have so much: a fiftieth is left, the last is the
 * dearest. */
bool gain_is_worth_it(uint64_t gain, uint64_t all);
/* What is free of the region is in pieces: of the longest one slabs can be made. */
bool gain_is_torn(const struct table *table);

#endif

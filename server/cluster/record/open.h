/* SPDX-License-Identifier: BSD-2-Clause */
/* open.h -- what primaries and backups do alike with an open record. */
#ifndef SERVER_CLUSTER_RECORD_OPEN_H
#define SERVER_CLUSTER_RECORD_OPEN_H

#include "server/cluster/record/record.h"

/* Its number becomes another, while it is open. */
void record_renumber(struct records *rs, struct record *r, uint64_t number);
/* NULL: none has it. */
struct record *record_find(const struct records *rs, uint64_t number);
void record_open(struct records *rs, struct record *r);
/* It takes effect, in all of its stripes. */
void record_apply(struct records *rs, struct record *r);
void record_drop(struct records *rs, struct record *r);
/* `other` is what `r` was from now on: the same change, kept in another form. */
void record_replace(struct records *rs, struct record *r, struct record *other);
/* It is no more, and no hook is called: nobody else was told of it. */
void record_cancel(struct records *rs, struct record *r);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* out.h -- a primary's records; records.h says when. */
#ifndef SERVER_CLUSTER_RECORD_OUT_H
#define SERVER_CLUSTER_RECORD_OUT_H

#include "server/cluster/record/record.h"

/* Whether none of the stripes has a change under way. */
bool records_is_free(const struct records *rs, const struct record *r);
/* Draws its number; the record is sent to all of need & begun; `self`: RECORDS_SELF or 0. */
void records_add(struct records *rs, struct record *r, uint32_t self);
/* The same for a copy of one stripe, which only `joiner` gets. */
void records_add_copy(struct records *rs, struct record *r, uint32_t joiner);
/* A member, or RECORDS_SELF, has it, as it said in that epoch. */
void records_acked(struct records *rs, uint32_t member, uint64_t epoch, uint64_t number);
/* Whom it waits for from now on: a joiner more, or somebody less. */
void records_await(struct records *rs, uint32_t awaited);
/* The member is ready for records of this epoch: it is sent what records_lacks() says. */
void records_begun(struct records *rs, uint32_t member);
static inline bool records_lacks(const struct record *r, uint32_t member)
{
	return r->need & ~r->has & member;
}
/* Whether all have all that is under way. */
bool records_is_settled(const struct records *rs);
/* It serves from now on. */
void records_show(struct records *rs);
/* All up to this number are visible. */
uint64_t records_visible(const struct records *rs);

#endif

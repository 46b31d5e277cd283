/* SPDX-License-Identifier: BSD-2-Clause */
/* in.h -- a backup's records; records.h says when. */
#ifndef SERVER_CLUSTER_RECORD_IN_H
#define SERVER_CLUSTER_RECORD_IN_H

#include "server/cluster/record/record.h"

enum records_taken {
	RECORDS_REFUSED, /* not of this epoch, or sealed: nothing is answered */
	RECORDS_TAKEN,   /* kept as open: it is acknowledged when it is on the disk */
	RECORDS_HAD,     /* known; the same, but this one is the caller's */
};
/* Its number and reign are the sender's. */
enum records_taken records_take(struct records *rs, uint64_t epoch, struct record *r);
/* A copy of a stripe: TAKEN: the caller puts its keys, then acknowledges. */
enum records_taken records_take_copy(struct records *rs, uint64_t epoch, const struct record *r);
/* The primary said that all up to this number of the epoch are visible.  False: of another epoch. */
bool records_seen(struct records *rs, uint64_t epoch, uint64_t number);

#endif

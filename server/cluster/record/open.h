/* SPDX-License-Identifier: BSD-2-Clause */
/* open.h -- what primaries and backups do alike with an open record. */
#ifndef SERVER_CLUSTER_RECORD_OPEN_H
#define SERVER_CLUSTER_RECORD_OPEN_H

#include "server/cluster/record/record.h"

void record_open(struct records *rs, struct record *r);
/* It takes effect, in all of its stripes. */
void record_apply(struct records *rs, struct record *r);
void record_drop(struct records *rs, struct record *r);

#endif

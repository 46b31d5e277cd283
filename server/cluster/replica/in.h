/* SPDX-License-Identifier: BSD-2-Clause */
/* in.h -- a backup's records. */
#ifndef SERVER_CLUSTER_REPLICA_IN_H
#define SERVER_CLUSTER_REPLICA_IN_H

#include "server/cluster/replica/impl.h"

void replica_heard_records(struct replica_peer *q, struct link_reader *r);
/* Items take effect, and are freed; or only the latter. */
void replica_apply(struct replica_worker *w, struct replica_record *in);
void replica_forget(struct replica_worker *w, struct replica_record *in);
/* What a call of this worker found to be committed takes effect, or is dropped. */
void replica_do(struct replica_worker *w);
void replica_has_read(struct replica_worker *w, uint64_t cookie, bool is_ok);
/* READs that found no room. */
void replica_go_on_reading(struct replica_peer *q);
/* Its connection ended: what it was to READ is given up. */
void replica_stop_reading(struct replica_peer *q);
/* Records that found no memory: tried again. */
void replica_take_parked(struct replica_peer *q);
/* With the next message. */
void replica_acknowledge(struct replica_peer *q, uint64_t epoch, uint64_t number);
void replica_send_acks(struct replica_peer *q);

#endif

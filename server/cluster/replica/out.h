/* SPDX-License-Identifier: BSD-2-Clause */
/* out.h -- a primary's records. */
#ifndef SERVER_CLUSTER_REPLICA_OUT_H
#define SERVER_CLUSTER_REPLICA_OUT_H

#include "server/cluster/replica/impl.h"

/* store_others' */
void replica_submit(void *worker, struct durable_op *op);
/* It takes effect, or nobody has it: its worker takes it back.  The lock is held. */
void replica_finish(struct replica_record *o, bool is_applied);
/* The same change as items; NULL: there is no memory. */
struct replica_record *replica_items_of(struct replica_worker *w, const struct replica_record *o);

/* Whose connection it is, by the present seats; what it was sent counts no more. */
void replica_seat(struct replica_peer *q);
/* Whether that is so already. */
bool replica_is_seated(const struct replica_peer *q);
/* What is new, to that member. */
void replica_send_records(struct replica_peer *q);
void replica_take_back(struct replica_worker *w);
/* The database gave its change back. */
void replica_change_written(struct replica_worker *w, struct replica_record *o,
			    enum durable_result result);
void replica_heard_acks(struct replica_peer *q, struct link_reader *r);

#endif

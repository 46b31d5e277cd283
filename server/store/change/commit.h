/* SPDX-License-Identifier: BSD-2-Clause */
/* commit.h -- changes that wait for the disk. */
#ifndef SERVER_STORE_CHANGE_COMMIT_H
#define SERVER_STORE_CHANGE_COMMIT_H

#include "server/store/change/change.h"

/*
 * With a database a change is made in two steps.  store_put, store_remove and txn_run
 * look at everything, prepare what is new, hand in its record and return
 * STORE_COMMIT; the stripe stays marked.  When the record comes back to the worker's
 * port, commit_end makes it visible, or takes it back.  The change's item is the
 * store's from then on.
 */
struct commit {
	struct durable_op op; /* first */
	int (*end)(struct store_worker *worker, struct commit *commit,
		   struct store_result *result);
	void *caller; /* for whoever made the change, to know it again */
};

/*
 * A record of the worker's came back.  An enum wire_status as of the change itself;
 * WIRE_EDISK: the disk is full or broken, nothing was changed; WIRE_EELSEWHERE: nor was it,
 * as this is no primary any more; WIRE_EUNKNOWN: it may be found after a restart, and is
 * handed in once more, to be undone; STORE_SILENT: that is done.  *result as of the change.
 */
int commit_end(struct store_worker *worker, struct commit *commit, struct store_result *result);
/* Hands what it has to who it waits for. */
void commit_submit(struct store_worker *worker, struct commit *commit);
/* The same for the first time; w->commit is it. */
int commit_begin(struct store_worker *worker, struct commit *commit);

/*
 * As work_put(), once it is on disk.  STORE_COMMIT: change->item is the commit's.
 * WIRE_EMEMORY: nothing was done, and the change has not ended.
 */
int commit_put(struct store_worker *worker, const struct store_change *change, struct work *work);
/* The same for a key whose memory others need: nobody is answered (its caller is NULL). */
int commit_evict(struct store_worker *worker, struct work *work);
/* As work_remove().  STORE_COMMIT; or WIRE_EMEMORY: nothing was done, and it has ended. */
int commit_remove(struct store_worker *worker, struct work *work,
		  const struct store_result *result);

#endif

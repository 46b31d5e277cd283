/* SPDX-License-Identifier: BSD-2-Clause */
/* options.h -- what a shard is made with. */
#ifndef SERVER_CLUSTER_SHARD_OPTIONS_H
#define SERVER_CLUSTER_SHARD_OPTIONS_H

#include <stdatomic.h>

#include "common/addr.h"
#include "common/err.h"
#include "common/rdma/device.h"
#include "server/cluster/link/prove.h"
#include "server/store/item/context.h"

#define SHARD_WORKERS_MAX 64u

struct shard_options {
	const struct device *device;
	struct ibv_pd *pd;        /* members' links are of its device, whichever one a worker is of */
	uint8_t device_port;
	struct addr listen;       /* for other members */
	const char *clients;      /* where it listens for those, as text, with commas between */
	const char *agreement;    /* "zk1:2181,zk2:2181/prod" */
	struct link_key key;
	uint64_t incarnation;     /* of the table that its disk has; 0: it is empty, and draws one */
	unsigned copies;          /* it makes the cluster when so many are there; 0: it does not */
	struct store *store;
	struct store_worker *workers[SHARD_WORKERS_MAX];
	unsigned worker_count;
	void (*wake)(void *worker); /* any thread */
	void *wake_args[SHARD_WORKERS_MAX];
	/* A change of another member's took effect: what its client is to be told.  Any worker. */
	void (*completed)(void *arg, const struct durable_fate *fate, uint64_t reign);
	/* This member was copied to: what became of changes of that reign, and before, it does not know. */
	void (*lacks)(void *arg, uint64_t reign);
	void *completed_arg;
	/* For workers to look at: the reign in which requests are executed, 0: none; until when
	 * something may be answered without a change, and until when a reader's lease is told to be
	 * good, by CLOCK_BOOTTIME. */
	_Atomic uint64_t *reign, *lease_until_ns, *reader_until_ns;
	_Atomic bool *is_held; /* changes wait: another member is to be primary */
};

#endif

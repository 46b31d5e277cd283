/* SPDX-License-Identifier: BSD-2-Clause */
/* zookeeper.h -- records that Apache ZooKeeper keeps, by its own C client. */
#ifndef SERVER_CLUSTER_AGREE_ZOOKEEPER_H
#define SERVER_CLUSTER_AGREE_ZOOKEEPER_H

#include "common/err.h"
#include "server/cluster/agree/agree.h"

struct agree_zookeeper {
	const char *servers; /* "zk1:2181,zk2:2181/below"; paths are below that, if it is there */
	unsigned timeout_ms; /* of the session; the ensemble has limits of its own */
	/*
	 * "user:password", by which it proves itself; what it creates is for who proves the same
	 * only.  NULL: what it creates is for everybody.
	 */
	const char *digest;
};

/*
 * Returns before it is connected.  The strings are copied.  0, or -1 after setting err: the
 * servers' names can't be understood, no memory, or kvd was built without ZooKeeper.
 */
int agree_zookeeper_open(const struct agree_zookeeper *options, const struct agree_events *events,
			 struct agree **agree, struct err *err);

#endif

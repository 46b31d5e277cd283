/* SPDX-License-Identifier: BSD-2-Clause */
/* A build without ZooKeeper's client. */
#include "server/cluster/agree/zookeeper.h"

int agree_zookeeper_open(const struct agree_zookeeper *options, const struct agree_events *events,
			 struct agree **agree, struct err *err)
{
	(void)events;
	(void)agree;
	return err_set(err, -1, "cannot ask ZooKeeper at %s: kvd was built without it; build it with "
		       "libzookeeper-mt-dev (Debian, Ubuntu) installed", options->servers);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * loopback.h -- a queue pair connected to another of the same device, through which
 * kvd does atomics on lock words as clients do.  One thread at a time.
 */
#ifndef SERVER_LOCK_LOOPBACK_H
#define SERVER_LOCK_LOOPBACK_H

#include <stdint.h>

#include "common/addr.h"
#include "common/err.h"
#include "common/verbs/verbs.h"

struct loopback;

struct loopback_config {
	const struct verbs *verbs;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	uint8_t port;     /* of the device */
	struct addr addr; /* that kvd serves: its GID is the pair's */
	_Atomic uint64_t *locks;
	uint32_t rkey; /* of the locks */
};

/* 0, or -1 after setting err.  `config` is copied. */
int loopback_new(const struct loopback_config *config, struct loopback **loopback,
		 struct err *err);
void loopback_delete(struct loopback **loopback);

/*
 * Compare-and-swap of the lock word of a stripe; *old is what it was.  Waits for
 * the completion.  0, or -1 after setting err: the queue pair is broken then, and
 * whether the swap took place is not known.
 */
int loopback_cas(struct loopback *loopback, uint64_t stripe, uint64_t expected, uint64_t desired,
		 uint64_t *old, struct err *err);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peer.h -- the end that answers: `kvbench raw --listen`, or a process that
 * kvbench forks for itself.  One connection at a time.
 */
#ifndef BENCH_RAW_PEER_H
#define BENCH_RAW_PEER_H

#include <sys/types.h>

#include "bench/raw/relay.h"
#include "common/addr.h"
#include "common/err.h"

/* Listens at an address (port 0: any), tells where on descriptor `tell` in a line,
 * and serves until a signal ends the process.  `to`: whom it forwards to, or NULL.
 * -1 with err: it couldn't. */
int rawpeer_serve(const char *device, const struct addr *addr, const struct rawrelay_to *to,
		  int tell, struct err *err);

struct rawpeer {
	pid_t pid; /* 0: none */
};

/*
 * The peer at `server`, or where that is NULL a process of our own at `address`; sets *addr to
 * where it listens.  `to`: whom the process forwards to, or NULL.  It forks: call it before
 * this process uses any RDMA device or thread.  0 or -1 with err.
 */
int rawpeer_begin(struct rawpeer *peer, const char *server, const char *address,
		  const char *device, const struct rawrelay_to *to, struct addr *addr,
		  struct err *err);
void rawpeer_end(struct rawpeer *peer);

#endif

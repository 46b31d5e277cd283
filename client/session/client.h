/* SPDX-License-Identifier: BSD-2-Clause */
/* client.h -- a client: what its sessions share.  Its locks: doc/threads.md. */
#ifndef CLIENT_SESSION_CLIENT_H
#define CLIENT_SESSION_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "client/cache/buffer.h"
#include "client/cache/directory.h"
#include "client/cache/hasher.h"
#include "client/cache/mirror.h"
#include "client/kvd.h"
#include "client/session/route.h"
#include "common/addr.h"
#include "common/auth/file.h"
#include "common/rdma/device.h"
#include "common/rdma/link.h"

#define CLIENT_ADDRS_MAX 8u /* of a name */

#define CLIENT_DEVICES_MAX BUFFER_DEVICES_MAX

/* device.h.  Under the client's lock, but for what a session on it reads: that stays. */
struct client_device {
	struct ibv_context *ctx;
	struct ibv_pd *pd; /* NULL: the place is free */
	struct link_limits limits;
	unsigned users; /* sessions */
	bool is_lost;   /* the last of them lets go of it */
	struct client_device *next; /* of all in the process: device.c */
};

struct kvd_client {
	struct kvd_options options;
	struct route route;
	pthread_mutex_t settling; /* one session connects first; tried only, and taken before `lock` */
	_Atomic bool is_settled;  /* one has */
	uint64_t space;           /* space_number() of that */
	struct device device;
	const struct verbs *verbs;
	struct credentials credentials;
	bool has_credentials;
	pthread_mutex_t lock; /* of what follows, and err */
	struct err err;
	struct client_device devices[CLIENT_DEVICES_MAX];
	struct directory *directory; /* of the kvd that was met last; NULL before */
	uint64_t clock_tick_ns;      /* of the coarse clock */

	struct buffers *buffers;
	struct hasher *hasher; /* of long values */
	struct mirror *mirror;
	_Atomic uint64_t buckets; /* the highest number that any session learnt */
};

#endif

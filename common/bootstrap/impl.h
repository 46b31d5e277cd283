/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * impl.h -- a connection over TCP: what its files know of an id, a channel and an event.
 */
#ifndef COMMON_BOOTSTRAP_IMPL_H
#define COMMON_BOOTSTRAP_IMPL_H

#include <errno.h>
#include "common/bootstrap/path.h"
#include "common/wire.h"

enum state {
	IDLE,
	LISTENING,
	HALF_OPEN,
	REQUESTED,
	ACCEPTED,
	CONNECTING,
	ASKED,
	ANSWERED,
	UP,
	OVER,
};

struct queued {
	struct rdma_cm_event event;
	struct queued *next;
	uint8_t data[WIRE_BOOTSTRAP_DATA_BYTES];
};

struct channel {
	struct rdma_event_channel ib;
	int bell;
	struct queued *head, **tail;
};

struct id {
	struct rdma_cm_id ib;
	struct bootstrap_path path;
	enum state state;
	int fd;
	int spare_fd; /* of a listener: given up to turn one away when there is none left */
	struct wire_bootstrap out, peer;
	uint8_t in[sizeof(struct wire_bootstrap)];
	size_t in_bytes;
	/* HALF_OPEN ones, the latest first; of a listener their list and number. */
	struct id *listener, *half_open, *next, **prev;
	unsigned half_open_count;
};

static inline struct channel *channel_of(const struct id *id)
{
	return (struct channel *)id->ib.channel;
}

static inline struct id *id_of(struct rdma_cm_id *id)
{
	return (struct id *)id;
}

static inline int fail(int error)
{
	errno = error;
	return -1;
}

#endif

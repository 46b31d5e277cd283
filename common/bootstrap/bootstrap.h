/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bootstrap.h -- connections whose queue pairs are introduced over TCP.
 *
 * For fabrics whose RDMA interfaces have no IP address, so that rdma_cm has nothing
 * to resolve.  The functions of rdma_cm that the store uses are done here over a TCP
 * connection: it carries queue pair number, GID or LID, packet sequence number, MTU
 * and the private data (struct wire_bootstrap), stays open as long as the connection,
 * and its end is the connection's.  All else is the device's own.  Addresses and
 * rkeys are not among it: those come over the queue pair, after the hello.
 *
 * Nothing blocks but get_cm_event() of a blocking channel; time-outs are the caller's.  What a peer sends is bounded and
 * checked: one message of fixed length each way and one word that it is ready.  Peers
 * that have not yet sent theirs are HALF_OPEN_MAX at the most: the eldest makes room.
 *
 * Threads: a channel and its ids belong to one thread at a time, unlike rdma_cm's.
 */
#ifndef COMMON_BOOTSTRAP_BOOTSTRAP_H
#define COMMON_BOOTSTRAP_BOOTSTRAP_H

#include "common/verbs/verbs.h"
#include "common/wire.h"

/* The device, as set_option() takes it, before an id is bound or resolved. */
struct bootstrap_device {
	char name[64];
	int port;       /* from 1; 0: the first */
	int gid_index;  /* -1: a RoCE v2 one with an address, else the first */
	int pkey_index;
};
#define BOOTSTRAP_LEVEL 0x6b7664

/* `base` with rdma_cm's part done over TCP; static. */
const struct verbs *bootstrap_verbs(const struct verbs *base);

/*
 * Whether a message off the wire makes sense, and is of one of the kinds in the mask
 * (1 << enum wire_bootstrap_kind).
 */
bool bootstrap_is_sane(const struct wire_bootstrap *message, unsigned kinds);

/* path.c: what of it is the device's. */
struct bootstrap_path {
	const struct verbs *base;
	struct ibv_context *ctx;
	struct bootstrap_device device;
	union ibv_gid gid;
	uint16_t lid;
	uint8_t port, mtu, link_layer;
	int gid_index;
	uint32_t psn;
};
/* Opens the device (once a process) and asks it.  0, or -1 and errno. */
int bootstrap_path_open(struct bootstrap_path *path);
/* The same again for another queue pair. */
int bootstrap_path_again(struct bootstrap_path *path, const struct bootstrap_path *from);
/* Fills in what the peer has to know of this end. */
void bootstrap_path_tell(const struct bootstrap_path *path, struct wire_bootstrap *message);
/* For a transition to attr->qp_state, towards `peer`.  0, or -1 and errno. */
int bootstrap_path_attr(const struct bootstrap_path *path, const struct wire_bootstrap *peer,
			struct ibv_qp_attr *attr, int *mask);

#endif

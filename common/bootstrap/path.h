/* SPDX-License-Identifier: BSD-2-Clause */
/* path.h -- the device of an id whose queue pair is introduced over TCP. */
#ifndef COMMON_BOOTSTRAP_PATH_H
#define COMMON_BOOTSTRAP_PATH_H

#include <stdint.h>
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

/* What of an id is the device's. */
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

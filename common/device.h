/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * device.h -- which RDMA device to use.
 *
 * The choice is made once and told in one line.  A device named by the user or
 * nothing else; without a name a loopback address means the software device, an
 * interface's address that interface's device, and a machine with no RDMA device
 * at all has the software one.  There is never a silent fallback.
 */
#ifndef COMMON_DEVICE_H
#define COMMON_DEVICE_H

#include "common/addr.h"
#include "common/err.h"
#include "common/verbs.h"

struct device {
	const struct verbs *verbs;
	char name[64];  /* the device that was asked for; "" = by the address */
	char line[256]; /* the choice, for people */
};

/* `name` may be NULL.  0, or -1 after setting err. */
int device_choose(struct device *device, const char *name, const struct addr *addr,
		  struct err *err);

/*
 * Checks that an id that was bound or resolved is on the device asked for, and
 * completes the line.  0, or -1 after setting err.
 */
int device_check(struct device *device, const struct rdma_cm_id *id, const struct addr *addr,
		 struct err *err);

/* The names of the system's RDMA devices, "mlx5_0, mlx5_1", or "none". */
const char *device_list(char *buf, size_t buf_bytes);

#endif

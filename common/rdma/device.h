/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * device.h -- which RDMA device to use.
 *
 * The choice is made once and told in one line.  A device named by the user or
 * nothing else; without a name a loopback address means the software device, an
 * interface's address that interface's device, and a machine with no RDMA device
 * at all has the software one.  There is never a silent fallback.
 */
#ifndef COMMON_RDMA_DEVICE_H
#define COMMON_RDMA_DEVICE_H

#include "common/addr.h"
#include "common/bootstrap/bootstrap.h"
#include "common/err.h"
#include "common/verbs/verbs.h"

/* How its queue pairs are to be; DEVICE_UNSET: as rdma_cm and link.c have it. */
struct device_tuning {
	int ack_timeout;   /* 4.096 us times two to the power of it, 1 to 31 */
	int retries;       /* 0 to 6: 7 is for ever on some devices */
	int service_level; /* 0 to 15 */
	int traffic_class; /* 0 to 255 */
};
#define DEVICE_UNSET (-1)

struct device {
	const struct verbs *verbs;
	struct device_tuning tuning;
	bool bootstrap; /* TCP introduces queue pairs: verbs is a table of bootstrap.h */
	struct bootstrap_device path; /* then */
	char name[64];  /* the device that was asked for; "" = by the address */
	char line[384]; /* the choice, for people */
};

/*
 * `name`: NULL, or "[NAME or GUID][,OPTION=VALUE]...": ack-timeout, retries, sl, tc;
 * bootstrap=tcp, and then port, gid, pkey.  The environment's KVD_BOOTSTRAP stands for
 * the bootstrap option where that is not given.  0, or -1 after setting err.
 */
int device_choose(struct device *device, const char *name, const struct addr *addr,
		  struct err *err);

/* `name` with ",bootstrap=" and `bootstrap` behind it, in `buf`; NULL: without either. */
const char *device_spec(const char *name, const char *bootstrap, char *buf, size_t buf_bytes);

/* Of an id that was just made, before it is bound or resolved.  0, or -1 and errno. */
int device_prepare(const struct device *device, struct rdma_cm_id *id);

/*
 * Checks that an id that was bound or resolved is on the device asked for, and
 * completes the line.  0, or -1 after setting err.
 */
int device_check(struct device *device, const struct rdma_cm_id *id, const struct addr *addr,
		 struct err *err);

/* The names of the system's RDMA devices, "mlx5_0, mlx5_1", or "none". */
const char *device_list(char *buf, size_t buf_bytes);

#endif

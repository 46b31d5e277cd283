/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * doctor.h -- what of this machine stands in the way of RDMA: one line each, that it
 * is well or what to type.
 */
#ifndef COMMON_RDMA_DOCTOR_H
#define COMMON_RDMA_DOCTOR_H

#include <stdint.h>
#include <stdio.h>

/*
 * Looks at modules, devices, ports, GIDs, limits, huge pages, NUMA, PCI and firewall.
 * memory_bytes: what is to be registered; 0 for a client.  Opens devices, changes
 * nothing, takes no root.  How many things want a remedy.
 */
unsigned doctor_examine(FILE *out, uint64_t memory_bytes);

/* The same without a file: `each` gets "ok", "note" or "FIX", what was looked at, and the
 * sentence.  They live until it returns. */
unsigned doctor_examine_each(void (*each)(void *arg, const char *mark, const char *what,
					  const char *text),
			     void *arg, uint64_t memory_bytes);

#endif

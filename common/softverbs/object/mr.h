/* SPDX-License-Identifier: BSD-2-Clause */
/* mr.h -- protection domains and memory regions, and the checks that every access makes. */
#ifndef COMMON_SOFTVERBS_OBJECT_MR_H
#define COMMON_SOFTVERBS_OBJECT_MR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include "common/softverbs/base/compiler.h"
#include "common/softverbs/base/shm.h"

struct sv_pd {
	struct ibv_pd ib;
	uint32_t id;
	_Atomic unsigned int users;
};

static inline struct sv_pd *sv_pd_of(struct ibv_pd *pd)
{
	return SV_CONTAINER(pd, struct sv_pd, ib);
}

/* A region as its table entry says, after the checks that every access makes. */
struct sv_target {
	uint32_t mem;
	uint64_t mem_offset; /* of the first byte asked for */
};

/* Looks rkey up in a table, for access by way of the owner's queue pair qpn; 0: by the owner
 * itself, who can't use windows.  0, or EACCES. */
int sv_mr_check(const struct sv_ro *ro, uint32_t rkey, uint32_t pd, uint32_t qpn, uint64_t addr,
		uint64_t length, uint32_t access, struct sv_target *target);
/* True if every element lies in a local region with these rights. */
bool sv_sge_check(uint32_t pd, const struct ibv_sge *sge, int nsge, uint32_t access);
uint64_t sv_sge_bytes(const struct ibv_sge *sge, int nsge);

#endif

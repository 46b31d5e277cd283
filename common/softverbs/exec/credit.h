/* SPDX-License-Identifier: BSD-2-Clause */
/* credit.h -- receive credits: how one is claimed, and those that will not be used; see wire.c. */
#ifndef COMMON_SOFTVERBS_EXEC_CREDIT_H
#define COMMON_SOFTVERBS_EXEC_CREDIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "common/softverbs/base/shm.h"
#include "common/softverbs/object/qp.h"

/* Counts a claim in its claimant's counter, unless that was done. */
static inline void sv_credit_count(struct sv_rw *rw, uint64_t word)
{
	uint32_t claimant = (uint32_t)(word >> 20) & 0xfff;
	uint32_t number = (uint32_t)word & 0xfffff;
	_Atomic uint32_t *claimed = &rw->qp[claimant].claimed;
	uint32_t n = atomic_load(claimed);

	if (claimant && ((n + 1) & 0xfffff) == number)
		atomic_compare_exchange_strong(claimed, &n, n + 1);
}

/* Claims a credit of receive queue rq, in the tables of its process, for the queue pair in seat
 * index; false: there is none. */
static inline bool sv_credit_claim(const struct sv_ro *ro, struct sv_rw *rw, uint32_t rq,
				   uint32_t index)
{
	_Atomic uint64_t *claim = &rw->rq[rq].claim;
	uint64_t word = atomic_load(claim), mine;

	do {
		/* acquire: partner sv_rq_post(). */
		uint32_t posted = atomic_load_explicit(&ro->rq[rq].posted, memory_order_acquire);

		if ((int32_t)(posted - (uint32_t)(word >> 32)) <= 0)
			return false;
		sv_credit_count(rw, word);
		/* All earlier claims for this queue pair are counted by now. */
		mine = (uint64_t)((uint32_t)(word >> 32) + 1) << 32 | index << 20 |
		       ((atomic_load(&rw->qp[index].claimed) + 1) & 0xfffff);
	} while (!atomic_compare_exchange_weak(claim, &word, mine));
	sv_credit_count(rw, mine);
	return true;
}

/* Gives back the credits that its peer claimed and will not use; receive CQ's lock held. */
void sv_qp_reclaim_locked(struct sv_qp *qp);
/* The same of a seat that may have been left: a peer gave up a claim when it saw that. */
void sv_seat_reclaim(uint32_t index);

#endif

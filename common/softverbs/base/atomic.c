/* SPDX-License-Identifier: BSD-2-Clause */
/* atomic.c -- remote atomics on memory of this host. */
#include <stdatomic.h>
#include <infiniband/verbs.h>
#include "common/softverbs/base/atomic.h"
#include "common/softverbs/base/fault.h"
#include "common/softverbs/base/proc.h"

uint64_t sv_atomic_execute(uint32_t device, void *word, uint32_t opcode, uint64_t compare_add,
			   uint64_t swap)
{
	_Atomic uint64_t *at = word;
	uint64_t old;

	if (atomic_load(&sv_faults_on) && sv_faults.noncoherent) {
		pthread_mutex_lock(&sv_proc->nic_lock[device]);
		old = atomic_load(at);
		sched_yield();
		if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			atomic_store(at, old + compare_add);
		else if (old == compare_add)
			atomic_store(at, swap);
		pthread_mutex_unlock(&sv_proc->nic_lock[device]);
		return old;
	}
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return atomic_fetch_add(at, compare_add);
	old = compare_add;
	atomic_compare_exchange_strong(at, &old, swap);
	return old;
}

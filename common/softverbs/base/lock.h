/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lock.h -- short locks inside one process, and the clock.
 *
 * A sv_spin is never shared between processes, so a dead process can't hold
 * one.  A waiter gives the CPU away after a few looks: the holder may be on the
 * same core.
 *
 * Lock order of the device, outermost first:
 *	sv_cm.lock          connection management: ids, channels, their queues
 *	sv_proc.lock        tables of the process, list of peers (mutex)
 *	sv_qp.sq_lock       send queue, and the connection to the peer
 *	sv_cq.lock          completions; of a QP's receive CQ: its receive side
 *	sv_rq.lock, sv_qp_seat.lock, sv_peer.lock, sv_maps.lock, sv_chan.lock,
 *	sv_ctx.lock         (leaves)
 * No function of the caller runs under a lock, and nothing sleeps under one but
 * the mutexes.
 */
#ifndef COMMON_SOFTVERBS_BASE_LOCK_H
#define COMMON_SOFTVERBS_BASE_LOCK_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define SV_CACHE_LINE 64

struct sv_spin {
	atomic_uint held;
};

static inline void sv_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static inline bool sv_spin_trylock(struct sv_spin *lock)
{
	/* acquire: pairs with the release in sv_spin_unlock(). */
	return !atomic_exchange_explicit(&lock->held, 1, memory_order_acquire);
}

static inline void sv_spin_lock(struct sv_spin *lock)
{
	unsigned int looks = 0;

	while (!sv_spin_trylock(lock)) {
		while (atomic_load_explicit(&lock->held, memory_order_relaxed)) {
			if (++looks % 32 == 0)
				sched_yield();
			else
				sv_cpu_relax();
		}
	}
}

static inline void sv_spin_unlock(struct sv_spin *lock)
{
	atomic_store_explicit(&lock->held, 0, memory_order_release);
}

static inline uint64_t sv_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif

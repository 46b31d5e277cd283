/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dma.h -- fences between this CPU and a device that READs and changes its memory, named by
 * purpose.
 *
 * x86: stores reach the device in program order, and what C11 makes of a full fence covers
 * devices.  ARM64: C11's fences are of the inner shareable domain (dmb ish), and a device
 * may be in the outer one, so these are dmb osh and dmb oshst, as the kernel's dma_mb() and
 * dma_wmb().  What a device wrote before a completion needs none of these: ibv_poll_cq() has
 * its own.  Stores before ibv_post_send() don't, either.
 */
#ifndef COMMON_DMA_H
#define COMMON_DMA_H

#include <stdatomic.h>

/* Full: a device that does not see what was stored before has made its change already, and
 * a load behind sees it.  Partner: a client's compare-and-swap before its READ. */
static inline void dma_fence(void)
{
#if defined(__aarch64__)
	__asm__ volatile("dmb osh" ::: "memory");
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Before a store that makes others visible: a device that READs it READs those, too.  The
 * store itself is a release, which is all that x86 needs. */
static inline void dma_store_fence(void)
{
#if defined(__aarch64__)
	__asm__ volatile("dmb oshst" ::: "memory");
#elif !defined(__x86_64__)
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

#endif

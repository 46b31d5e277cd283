/* SPDX-License-Identifier: BSD-2-Clause */
/* atomic.h -- remote atomics on memory of this host. */
#ifndef COMMON_SOFTVERBS_BASE_ATOMIC_H
#define COMMON_SOFTVERBS_BASE_ATOMIC_H

#include <stdint.h>

/*
 * The device executes an atomic of enum ibv_wr_opcode on an aligned word of 8 bytes; returns what was
 * there.  Any thread; atomic to the CPU's own atomics, unless the fault "noncoherent" is
 * on: then only to each other's of this device, as a NIC's that is not coherent with the CPU.
 */
uint64_t sv_atomic_execute(uint32_t device, void *word, uint32_t opcode, uint64_t compare_add,
			   uint64_t swap);

#endif

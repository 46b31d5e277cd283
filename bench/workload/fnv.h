/* SPDX-License-Identifier: BSD-2-Clause */
/* fnv.h -- the hash by which YCSB spreads record numbers. */
#ifndef BENCH_WORKLOAD_FNV_H
#define BENCH_WORKLOAD_FNV_H

#include <stdint.h>

#define FNV_BASIS 0xcbf29ce484222325ull
#define FNV_PRIME 0x100000001b3ull

static inline uint64_t fnv_bytes(uint64_t hash, uint64_t number, int bytes)
{
	for (int i = 0; i < bytes; i++) {
		hash = (hash ^ (number & 0xff)) * FNV_PRIME;
		number >>= 8;
	}
	return hash;
}

/* FNV-1a of the eight bytes of a number, low byte first, without its sign. */
static inline uint64_t fnv_hash(uint64_t number)
{
	uint64_t hash = fnv_bytes(FNV_BASIS, number, 4);

	/* Four zero bytes only multiply, which is one step instead of four. */
	if (number >> 32 == 0)
		hash *= FNV_PRIME * FNV_PRIME * FNV_PRIME * FNV_PRIME;
	else
		hash = fnv_bytes(hash, number >> 32, 4);
	return hash >> 63 ? -hash : hash;
}

#endif

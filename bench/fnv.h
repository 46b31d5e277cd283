/* SPDX-License-Identifier: BSD-2-Clause */
/* fnv.h -- the hash by which YCSB spreads record numbers. */
#ifndef BENCH_FNV_H
#define BENCH_FNV_H

#include <stdint.h>

/* FNV-1a of the eight bytes of a number, low byte first, without its sign. */
static inline uint64_t fnv_hash(uint64_t number)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (int i = 0; i < 8; i++) {
		hash = (hash ^ (number & 0xff)) * 0x100000001b3ull;
		number >>= 8;
	}
	return hash >> 63 ? -hash : hash;
}

#endif

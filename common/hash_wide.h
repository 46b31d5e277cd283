/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hash_wide.h -- inside hash.c: XXH3 by instructions that not every processor has.
 *
 * The same values as by others.  XXH3 uses vectors from 241 bytes on; below that there is
 * nothing to gain.
 */
#ifndef COMMON_HASH_WIDE_H
#define COMMON_HASH_WIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_WIDE_BYTES_MIN 241u

/* Whether this processor has them; the others may be called only then. */
static inline bool hash_is_wide(void)
{
#ifdef __x86_64__
	return __builtin_cpu_supports("avx2");
#else
	return false; /* what it has is used already */
#endif
}

uint64_t hash_wide(const void *data, size_t bytes);
/* `state` is an XXH3_state_t, which does not depend on the instructions. */
void hash_wide_add(void *state, const void *data, size_t bytes);

#endif

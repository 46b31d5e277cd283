/* SPDX-License-Identifier: BSD-2-Clause */
/* Compiled for AVX2 where the machine is an x86: see Makemodule.am. */
#include "common/hash_wide.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash_wide(const void *data, size_t bytes)
{
	return XXH3_64bits(data, bytes);
}

void hash_wide_add(void *state, const void *data, size_t bytes)
{
	XXH3_64bits_update((XXH3_state_t *)state, data, bytes);
}

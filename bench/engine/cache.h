/* SPDX-License-Identifier: BSD-2-Clause */
/* cache.h -- cases of enginebench: the hit ratio of a kvd with --evict that is empty. */
#ifndef BENCH_ENGINE_CACHE_H
#define BENCH_ENGINE_CACHE_H

#include "bench/engine/kit.h"

void engine_case_cache(struct engine *e);

#endif

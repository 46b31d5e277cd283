/* SPDX-License-Identifier: BSD-2-Clause */
/* memory.h -- cases of enginebench: what keys and connections take of kvd's memory. */
#ifndef BENCH_ENGINE_MEMORY_H
#define BENCH_ENGINE_MEMORY_H

#include "bench/engine/kit.h"

void engine_case_refill(struct engine *e);
void engine_case_changes(struct engine *e);
void engine_case_fill(struct engine *e);
void engine_case_idle(struct engine *e);

#endif

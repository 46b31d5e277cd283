/* SPDX-License-Identifier: BSD-2-Clause */
/* speed.h -- cases of enginebench: times of single calls, and rates of many. */
#ifndef BENCH_ENGINE_SPEED_H
#define BENCH_ENGINE_SPEED_H

#include "bench/engine/kit.h"

void engine_case_ratio(struct engine *e);
void engine_case_puts1(struct engine *e);
void engine_case_puts32(struct engine *e);
void engine_case_depth16(struct engine *e);
void engine_case_long(struct engine *e);

#endif

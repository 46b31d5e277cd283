/* SPDX-License-Identifier: BSD-2-Clause */
/* growth.h -- cases of enginebench: GETs while another process inserts and the index grows. */
#ifndef BENCH_ENGINE_GROWTH_H
#define BENCH_ENGINE_GROWTH_H

#include "bench/engine/kit.h"

void engine_case_growth(struct engine *e);

#endif

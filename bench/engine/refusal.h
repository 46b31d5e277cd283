/* SPDX-License-Identifier: BSD-2-Clause */
/* refusal.h -- cases of enginebench: calls that kvd refuses, and that may leave nothing behind. */
#ifndef BENCH_ENGINE_REFUSAL_H
#define BENCH_ENGINE_REFUSAL_H

#include "bench/engine/kit.h"

void engine_case_bad(struct engine *e);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* reads.h -- cases of enginebench: how many READs and round trips a GET takes. */
#ifndef BENCH_ENGINE_READS_H
#define BENCH_ENGINE_READS_H

#include "bench/engine/kit.h"

void engine_case_load(struct engine *e);
void engine_case_warm(struct engine *e);
void engine_case_cold(struct engine *e);
void engine_case_absent(struct engine *e);
void engine_case_mirror(struct engine *e);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* kvd.h -- kvd as a store, by libkvd. */
#ifndef BENCH_STORE_KVD_H
#define BENCH_STORE_KVD_H

#include "bench/store/store.h"

/* 0 or -1 with err. */
int store_kvd_open(const struct store_config *config, struct store **store, struct err *err);

#endif

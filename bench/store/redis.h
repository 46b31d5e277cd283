/* SPDX-License-Identifier: BSD-2-Clause */
/* redis.h -- Redis as a store, by hiredis; without that library an error says so. */
#ifndef BENCH_STORE_REDIS_H
#define BENCH_STORE_REDIS_H

#include "bench/store/store.h"

/* config->server is what stands behind "redis:".  0 or -1 with err. */
int store_redis_open(const struct store_config *config, struct store **store, struct err *err);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* memcached.h -- memcached as a store, by libmemcached; without that library an error says so. */
#ifndef BENCH_STORE_MEMCACHED_H
#define BENCH_STORE_MEMCACHED_H

#include "bench/store/store.h"

/* config->server is what stands behind "memcached:".  0 or -1 with err. */
int store_memcached_open(const struct store_config *config, struct store **store,
			 struct err *err);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* open.h -- opens a store by its name. */
#ifndef BENCH_STORE_OPEN_H
#define BENCH_STORE_OPEN_H

#include "bench/store/store.h"

/*
 * config->server: "noop:" for one that does nothing, at once; "redis:PATH" or
 * "redis:HOST:PORT"; "memcached:..." likewise; else a kvd.  0 or -1 with err.
 */
int store_open(const struct store_config *config, struct store **store, struct err *err);

#endif

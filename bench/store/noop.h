/* SPDX-License-Identifier: BSD-2-Clause */
/* noop.h -- a store that does nothing, at once: what kvbench itself costs. */
#ifndef BENCH_STORE_NOOP_H
#define BENCH_STORE_NOOP_H

#include "bench/store/store.h"

/* config->server is what stands behind "noop:".  0 or -1 with err. */
int store_noop_open(const struct store_config *config, struct store **store, struct err *err);

#endif

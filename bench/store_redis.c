/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/store.h"

int store_redis_open(const struct store_config *config, struct store **store, struct err *err)
{
	(void)config;
	(void)store;
	return err_set(err, -1, "this kvbench was built without hiredis");
}

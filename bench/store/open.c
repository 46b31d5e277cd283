/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/store/open.h"

#include <string.h>

#include "bench/store/kvd.h"
#include "bench/store/memcached.h"
#include "bench/store/noop.h"
#include "bench/store/redis.h"

static const struct {
	const char *scheme;
	int (*open)(const struct store_config *config, struct store **store, struct err *err);
} schemes[] = {
	{ "noop:", store_noop_open },
	{ "redis:", store_redis_open },
	{ "memcached:", store_memcached_open },
};

int store_open(const struct store_config *config, struct store **store, struct err *err)
{
	struct store_config rest = *config;

	for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
		size_t bytes = strlen(schemes[i].scheme);
		if (strncmp(config->server, schemes[i].scheme, bytes) != 0)
			continue;
		rest.server += bytes;
		return schemes[i].open(&rest, store, err);
	}
	return store_kvd_open(config, store, err);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* expect_health.h -- what metrics_healthy() says of a host. */
#ifndef TESTS_UNIT_SERVER_EXPECT_HEALTH_H
#define TESTS_UNIT_SERVER_EXPECT_HEALTH_H

#include <stdbool.h>

#include "server/metrics/metrics.h"

static inline void expect_health(struct host *of, bool well, const char *expected)
{
	char line[128];

	assert_int_equal(metrics_healthy(of, line, sizeof line), well);
	assert_string_equal(line, expected);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* raw.h -- verbs with nothing around them: the limit that GET and PUT are held
 * against. */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include <stdbool.h>
#include <stdint.h>

enum raw_op {
	RAW_READ,
	RAW_WRITE,
	RAW_WRITE_WITH_IMM,
	RAW_CAS,
	RAW_FADD,
	RAW_SEND,
	RAW_SEND_WITH_IMM,
	RAW_OPS
};

/* "READ", "WRITE", "WRITE_WITH_IMM", "CAS", ... */
extern const char *const raw_names[RAW_OPS];

struct raw_figure {
	bool measured;
	uint64_t bytes;
	double mean_us, p50_us, p99_us; /* of one at a time: a round trip */
	double per_second;              /* of many at a time */
};

struct raw_result {
	struct raw_figure op[RAW_OPS];
};

#endif

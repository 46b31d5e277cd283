/* SPDX-License-Identifier: BSD-2-Clause */
/* key.h -- the keys of YCSB: "user" and the record's number or its hash. */
#ifndef BENCH_WORKLOAD_KEY_H
#define BENCH_WORKLOAD_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_PADDING_MAX 1000
#define KEY_BYTES_MAX (4 + KEY_PADDING_MAX)

struct key_format {
	bool ordered; /* the number itself, not its hash */
	int padding;  /* at least so many digits, zeros in front */
};

/* Into `key` (KEY_BYTES_MAX bytes, no zero at the end); its length. */
size_t key_make(const struct key_format *format, uint64_t number, char *key);

#endif

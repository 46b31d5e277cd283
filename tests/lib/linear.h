/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * linear.h -- whether what clients saw of a store can be explained by a register
 * per key that changes at one instant between each operation's call and return.
 *
 * A key is absent at first, or holds a value; no two puts store the same value.
 * Versions, where they are known, grow with each put of a key.
 */
#ifndef TESTS_LIB_LINEAR_H
#define TESTS_LIB_LINEAR_H

#include <stddef.h>
#include <stdint.h>

enum linear_kind {
	LINEAR_GET,
	LINEAR_PUT,
	LINEAR_DEL,
};

enum linear_result {
	LINEAR_DONE,      /* GET: it had `value`; PUT: stored; DEL: it was there */
	LINEAR_NOT_FOUND, /* GET, DEL: it was absent */
	LINEAR_UNKNOWN,   /* of a change: it may take effect at any time after its call, or never */
	LINEAR_NOTHING,   /* it is known that nothing happened; a GET that failed */
};

#define LINEAR_OPEN UINT64_MAX

struct linear_op {
	uint64_t key;
	uint64_t value;   /* what was put or got; 0 is none */
	uint64_t version; /* of a DONE put or get, 0 if not known */
	uint64_t invoke_ns;
	uint64_t return_ns; /* LINEAR_OPEN for UNKNOWN */
	uint32_t client;
	uint8_t kind;
	uint8_t result;
};

enum linear_verdict {
	LINEAR_OK,
	LINEAR_VIOLATION,
	LINEAR_UNDECIDED, /* no memory, or too much at the same time */
};

struct linear_report {
	struct linear_op op; /* that can't be explained when it returned */
	char why[160];
};

/*
 * Checks a history; sorts `ops` (by key and time).  *report is set unless the
 * verdict is LINEAR_OK.  Takes about n log n; at most 64 clients may be at one key
 * at the same time, operations with an unknown result not counted.
 */
enum linear_verdict linear_check(struct linear_op *ops, size_t n, struct linear_report *report);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz.h -- a harness is one function that takes any bytes; it aborts on what must not
 * happen.  With clang's libFuzzer it is the fuzzer (configure --enable-fuzz); without,
 * driver.c replays the corpus and makes mutants of it.  See README.md.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* What must hold, whatever the input. */
#define FUZZ_CHECK(what)                                                                    \
	do {                                                                                \
		if (!(what)) {                                                              \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);  \
			abort();                                                            \
		}                                                                           \
	} while (0)

/* A bounded read of the input, zeros behind its end. */
struct fuzz_input {
	const uint8_t *at;
	size_t left;
};

static inline uint64_t fuzz_take(struct fuzz_input *in, unsigned bytes)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < bytes && in->left; i++, in->at++, in->left--)
		n |= (uint64_t)*in->at << 8 * i;
	return n;
}

/* The input as a file: its path, static; overwritten by the next. */
const char *fuzz_file(const uint8_t *data, size_t bytes);

#endif

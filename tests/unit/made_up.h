/* SPDX-License-Identifier: BSD-2-Clause */
/* made_up.h -- functions that a test has in the place of others: it is linked with --wrap=NAME. */
#ifndef TESTS_UNIT_MADE_UP_H
#define TESTS_UNIT_MADE_UP_H

#define MADE_UP(type, name, ...) \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

#endif

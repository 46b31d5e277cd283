/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * no_memory.h -- an allocation that fails, for one program that is linked with
 * --wrap=malloc,--wrap=calloc.
 */
#ifndef TESTS_UNIT_NO_MEMORY_H
#define TESTS_UNIT_NO_MEMORY_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

/* Of this thread: the allocation that fails, 1 the next one; 0: none does. */
static _Thread_local unsigned fails_at;
static _Thread_local bool and_all_behind;
static bool has_failed;

static bool is_out_of_memory(void)
{
	if (!fails_at || --fails_at)
		return false;
	has_failed = true;
	fails_at = and_all_behind;
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t bytes)
{
	return is_out_of_memory() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	return is_out_of_memory() ? NULL : __real_calloc(n, bytes);
}

#endif

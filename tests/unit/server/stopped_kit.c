/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/server/stopped_kit.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define TABLE_BYTES (32ull << 20)

struct fixture stopped_store;
struct shared *stopped_shared;
static uint64_t random_state;

uint64_t stopped_roll(uint64_t n)
{
	return fixture_random(&random_state) % n;
}

size_t stopped_key(unsigned i, char *key)
{
	return (size_t)sprintf(key, "key-%u", i);
}

pid_t stopped_start(void (*work)(unsigned n), unsigned n)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(77);
		raise(SIGSTOP);
		work(n);
		stopped_shared->end = true;
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		printf("skipped: tracing is not permitted here\n");
		exit(77);
	}
	assert_true(WIFSTOPPED(status));
	return child;
}

bool stopped_go_on(pid_t child, bool one_step)
{
	int status;

	if (ptrace(one_step ? PTRACE_SINGLESTEP : PTRACE_CONT, child, NULL, NULL))
		return false;
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFSTOPPED(status))
		return true;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	return false;
}

unsigned stopped_scaled(unsigned n)
{
	const char *scale = getenv("KVD_TEST_SCALE");
	unsigned m = n * (scale ? (unsigned)atoi(scale) : 100) / 100;

	return m ? m : 1;
}

void stopped_begin(uint64_t seed)
{
	random_state = seed;
	fixture_new(&stopped_store, TABLE_BYTES, 2);
	stopped_shared = mmap(NULL, sizeof *stopped_shared, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(stopped_shared != MAP_FAILED);
}

void stopped_end(void)
{
	munmap(stopped_shared, sizeof *stopped_shared);
	fixture_delete(&stopped_store);
}

void stopped_must_reach(const char *what, uint64_t n, uint64_t least)
{
	if (n < least)
		fail_msg("it proves nothing: %llu %s, and %llu are the least", (unsigned long long)n,
			 what, (unsigned long long)least);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* server/platform/hugepages.h: how much of the table is in huge pages, as the kernel's list has it. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "common/log.h"
#include "server/platform/hugepages.h"
#include "tests/unit/said.h"
#include "tests/unit/server/wrap_fopen.h"

#define MB 0x100000ull
#define LOW 0x40000000ull

static char maps[4096];
static size_t maps_bytes;

FILE *WRAP_FOPEN(const char *path, const char *mode)
{
	assert_string_equal(path, "/proc/self/smaps");
	(void)mode;
	return maps_bytes ? fmemopen(maps, maps_bytes, "r") : NULL;
}

static void add_mapping(uint64_t from, uint64_t to, unsigned huge_kib)
{
	maps_bytes += (size_t)snprintf(maps + maps_bytes, sizeof maps - maps_bytes,
				       "%08" PRIx64 "-%08" PRIx64 " rw-p 00000000 00:00 0 \n"
				       "Size: 99999 kB\nAnonymous: 77777 kB\nAnonHugePages: %u kB\n"
				       "ShmemPmdMapped: 0 kB\n", from, to, huge_kib);
}

static void expect(const char *text)
{
	said_begin();
	hugepages_tell((const void *)(uintptr_t)LOW, 16 * MB);
	said_end();
	assert_int_equal(said_lines(text), 1);
}

/* Of mappings that overlap it, and no others: neither those that end where it begins. */
static void test_overlaps(void **state)
{
	(void)state;
	add_mapping(LOW - 4 * MB, LOW, 4096);
	add_mapping(LOW + 16 * MB, LOW + 20 * MB, 4096);
	expect("none of the table's 16 MiB");
	add_mapping(LOW, LOW + 4 * MB, 2048);
	expect("2 MiB of the table's 16 MiB are in huge pages");
	add_mapping(LOW + 15 * MB, LOW + 17 * MB, 2048);
	add_mapping(LOW + 64 * MB, LOW + 68 * MB, 4096);
	expect("4 MiB of the table's 16 MiB are in huge pages");
	add_mapping(LOW - MB, LOW + MB, 1024);
	expect("5 MiB of the table's 16 MiB are in huge pages");
}

/* What of a mapping isn't the table's is not told. */
static void test_at_most_all(void **state)
{
	(void)state;
	add_mapping(LOW - 16 * MB, LOW + 32 * MB, 48 * 1024);
	expect("16 MiB of the table's 16 MiB are in huge pages");
}

static void test_no_list(void **state)
{
	(void)state;
	expect("none of the table's 16 MiB");
}

static int begin(void **state)
{
	(void)state;
	maps_bytes = 0;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_overlaps, begin),
		cmocka_unit_test_setup(test_at_most_all, begin),
		cmocka_unit_test_setup(test_no_list, begin),
	};

	log_open("hugepages_test", LOG_LEVEL_INFO);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

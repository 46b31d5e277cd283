/* SPDX-License-Identifier: BSD-2-Clause */
/* server/metrics/prometheus.h: several namespaces' figures as one text, family by family. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "server/host/namespace.h"
#include "server/metrics/prometheus.h"
#include "tests/unit/made_up.h"

#define KEYS "# HELP kvd_keys Keys.\n# TYPE kvd_keys gauge\n"
#define OPS "# HELP kvd_ops Requests.\n# TYPE kvd_ops counter\n"
#define TIMES "# HELP kvd_ops_s Times.\n# TYPE kvd_ops_s histogram\n"
#define HOST "# HELP process_fds Of all.\n# TYPE process_fds gauge\nprocess_fds 9\n"

static bool has_no_stream, has_no_end;

FILE *__real_open_memstream(char **text, size_t *bytes);
int __real_fclose(FILE *f);

MADE_UP(FILE *, open_memstream, char **text, size_t *bytes)
{
	return has_no_stream ? NULL : __real_open_memstream(text, bytes);
}

MADE_UP(int, fclose, FILE *f)
{
	int rc = __real_fclose(f);

	errno = ENOMEM;
	return has_no_end ? EOF : rc;
}

/* Of namespaces "a", "b", ... */
static void expect(const char *first, const char *const *others, unsigned count, const char *expected)
{
	static const char *const names[] = { "a", "b" };
	struct exposition_part part[2];
	size_t bytes = 0;

	for (unsigned i = 0; i < count; i++)
		part[i] = (struct exposition_part){ names[i], (char *)(uintptr_t)others[i] };
	char *text = exposition_merge(first, part, count, &bytes);
	assert_non_null(text);
	assert_string_equal(text, expected);
	assert_int_equal(bytes, strlen(expected));
	free(text);
}

/* Each family has the samples of all, with the head once; the first one's have no label. */
static void test_families(void **state)
{
	static const char *const others[] = { KEYS "kvd_keys 2\n" OPS "kvd_ops 20\n",
					      KEYS "kvd_keys 3\n" OPS "kvd_ops 30\n" };

	(void)state;
	expect(KEYS "kvd_keys 1\n" OPS "kvd_ops 10\n", others, 2,
	       KEYS "kvd_keys 1\nkvd_keys{namespace=\"a\"} 2\nkvd_keys{namespace=\"b\"} 3\n"
	       OPS "kvd_ops 10\nkvd_ops{namespace=\"a\"} 20\nkvd_ops{namespace=\"b\"} 30\n");
}

/* Where there are labels the namespace stands in front of them. */
static void test_labels(void **state)
{
	static const char *const others[] = { OPS "kvd_ops{op=\"get\"} 20\nkvd_ops{op=\"put "
			"it\",le=\"1\"} 21\n" };

	(void)state;
	expect(OPS "kvd_ops{op=\"get\"} 10\n", others, 1,
	       OPS "kvd_ops{op=\"get\"} 10\nkvd_ops{namespace=\"a\",op=\"get\"} 20\n"
	       "kvd_ops{namespace=\"a\",op=\"put it\",le=\"1\"} 21\n");
}

/* What only the first one has stays, wherever it stands; what it has not is left out, as is all behind. */
static void test_missing(void **state)
{
	static const char *const others[] = { KEYS "kvd_keys 2\n" OPS "kvd_ops 20\n" };
	static const char *const strange[] = { KEYS "kvd_keys 2\n" HOST OPS "kvd_ops 20\n" };

	(void)state;
	expect(HOST KEYS "kvd_keys 1\n" HOST OPS "kvd_ops 10\n" HOST, others, 1,
	       HOST KEYS "kvd_keys 1\nkvd_keys{namespace=\"a\"} 2\n" HOST
	       OPS "kvd_ops 10\nkvd_ops{namespace=\"a\"} 20\n" HOST);
	expect(KEYS "kvd_keys 1\n" OPS "kvd_ops 10\n", strange, 1,
	       KEYS "kvd_keys 1\nkvd_keys{namespace=\"a\"} 2\n" OPS "kvd_ops 10\n");
}

/* A name that another one begins with is not the same, whichever is longer. */
static void test_names(void **state)
{
	static const char *const longer[] = { TIMES "kvd_ops_s 2\n" },
			*const shorter[] = { OPS "kvd_ops 2\n" };

	(void)state;
	expect(OPS "kvd_ops 1\n" TIMES "kvd_ops_s 1\n", longer, 1,
	       OPS "kvd_ops 1\n" TIMES "kvd_ops_s 1\nkvd_ops_s{namespace=\"a\"} 2\n");
	expect(TIMES "kvd_ops_s 1\n" OPS "kvd_ops 1\n", shorter, 1,
	       TIMES "kvd_ops_s 1\n" OPS "kvd_ops 1\nkvd_ops{namespace=\"a\"} 2\n");
}

/* No samples of a family, no line end at the end, no text. */
static void test_little(void **state)
{
	static const char *const none[] = { KEYS OPS "kvd_ops 20\n" }, *const open[] = { KEYS "kvd_keys 2" };
	static const char *const empty[] = { "", KEYS "kvd_keys 3\n" };

	(void)state;
	expect(KEYS OPS, none, 1, KEYS OPS "kvd_ops{namespace=\"a\"} 20\n");
	expect(KEYS "kvd_keys 1\n", open, 1, KEYS "kvd_keys 1\nkvd_keys{namespace=\"a\"} 2");
	expect(KEYS "kvd_keys 1\n", empty, 2, KEYS "kvd_keys 1\nkvd_keys{namespace=\"b\"} 3\n");
	expect(KEYS "kvd_keys 1\n", NULL, 0, KEYS "kvd_keys 1\n");
	expect("", empty, 1, "");
}

static void test_no_memory(void **state)
{
	size_t bytes;

	(void)state;
	has_no_stream = true;
	assert_null(exposition_merge(HOST, NULL, 0, &bytes));
	has_no_stream = false;
	has_no_end = true;
	assert_null(exposition_merge(HOST, NULL, 0, &bytes));
	has_no_end = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_families),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_little),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

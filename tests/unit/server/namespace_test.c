/* SPDX-License-Identifier: BSD-2-Clause */
/* server/host/namespace.h: what --namespace may say, and what is told of what it may not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "common/opt.h"
#include "server/host/namespace.h"
#include "tests/unit/made_up.h"

#define MB (1ull << 20)
#define SETTINGS_BYTES_MAX 4095u
#define MEMORY "memory=64M"

static struct opt_list list;
/* One more than there may be: whoever writes behind the last place is seen. */
static struct namespace_options options[NAMESPACES_MAX + 1];
static unsigned count;
static struct err err;
static const char *twin; /* has the number of "first"; NULL: nobody has another's */

uint64_t __real_space_number(const char *name);

MADE_UP(uint64_t, space_number, const char *name)
{
	return __real_space_number(twin && !strcmp(name, twin) ? "first" : name);
}

static int begin(void **state)
{
	(void)state;
	list.count = 0;
	twin = NULL;
	memset(options, 0x5a, sizeof options);
	count = 77;
	return 0;
}

static int forget(void **state)
{
	(void)state;
	opt_forget_strings();
	return 0;
}

static int parse(const char *text)
{
	list.text[0] = text;
	list.count = 1;
	return namespaces_parse(&list, options, &count, &err);
}

static void expect(const struct namespace_options *o, const char *name, uint64_t memory_bytes,
		   const char *users, int workers, int connections)
{
	assert_string_equal(o->name, name);
	assert_int_equal(o->memory_bytes, memory_bytes);
	if (users)
		assert_string_equal(o->users, users);
	else
		assert_null(o->users);
	assert_int_equal(o->workers, workers);
	assert_int_equal(o->connections, connections);
}

static void takes(const char *text, uint64_t memory_bytes, const char *users, int workers, int connections)
{
	assert_int_equal(parse(text), 0);
	assert_int_equal(count, 1);
	expect(&options[0], "a", memory_bytes, users, workers, connections);
}

static void refuses(const char *text, const char *why)
{
	assert_int_equal(parse(text), -1);
	assert_string_equal(err.text, why);
}

/* In any order, and what is not said is as it is without. */
static void test_settings(void **state)
{
	(void)state;
	takes("a:" MEMORY, 64 * MB, NULL, 0, 0);
	takes("a:users=/etc/a=b:c,workers=3,connections=7," MEMORY, 64 * MB, "/etc/a=b:c", 3, 7);
	takes("a:" MEMORY ",memory=32M,workers=2,workers=1", 32 * MB, NULL, 1, 0);
}

static void test_none(void **state)
{
	(void)state;
	assert_int_equal(namespaces_parse(&list, options, &count, &err), 0);
	assert_int_equal(count, 0);
}

/* The least and the most that each may be, and what lies beyond. */
static void test_bounds(void **state)
{
	static const char prefix[] = "--namespace a:memory=";
	char why[256];

	(void)state;
	takes("a:memory=16M", 16 * MB, NULL, 0, 0);
	takes("a:memory=1024G", 1ull << 40, NULL, 0, 0);
	snprintf(why, sizeof why, "%s16777215: --memory: '16777215' is not a size from 16 MiB to 1 "
			"TiB", prefix);
	refuses("a:memory=16777215", why);
	snprintf(why, sizeof why, "%s1025G: --memory: '1025G' is not a size from 16 MiB to 1 TiB", prefix);
	refuses("a:memory=1025G", why);
	takes("a:" MEMORY ",workers=1,connections=1", 64 * MB, NULL, 1, 1);
	takes("a:" MEMORY ",workers=64,connections=100000", 64 * MB, NULL, 64, 100000);
	refuses("a:workers=0", "--namespace a:workers=0: --workers: '0' is not a whole number from 1 to 64");
	refuses("a:workers=65", "--namespace a:workers=65: --workers: '65' is not a whole number from 1 "
			"to 64");
	refuses("a:connections=0",
		"--namespace a:connections=0: --connections: '0' is not a whole number from 1 to 100000");
	refuses("a:connections=100001", "--namespace a:connections=100001: --connections: '100001' is not "
		"a whole number from 1 to 100000");
}

/* A setting that has no value, that there is not, or that is missing. */
static void test_wrong_settings(void **state)
{
	(void)state;
	refuses("a:memory", "--namespace a:memory: 'memory' is not of the form NAME=VALUE");
	refuses("a:", "--namespace a:: '' is not of the form NAME=VALUE");
	refuses("a:" MEMORY ",", "--namespace a:" MEMORY ",: '' is not of the form NAME=VALUE");
	refuses("a:workers", "--namespace a:workers: 'workers' is not of the form NAME=VALUE");
	refuses("a:size=64M", "--namespace a:size=64M: unknown option --size; --help lists them");
	refuses("a:worker=1", "--namespace a:worker=1: unknown option --worker; did you mean --workers?");
	refuses("a:workers=2", "--namespace a:workers=2: say how much memory it gets: memory=SIZE");
}

static void test_names(void **state)
{
	static const char *const bad[] = { "a", "", ":" MEMORY, "-a:" MEMORY, "a b:" MEMORY, "a/b:" MEMORY };
	static const char longest[] = "abcdefghijklmnopqrstuvwxyz012345"; /* 32 of them */
	char text[128], why[256];

	(void)state;
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		snprintf(why, sizeof why, "--namespace %s: it begins with a name of 1 to 32 letters, "
			 "digits, '.', '_' and '-', and ':'", bad[i]);
		refuses(bad[i], why);
	}
	snprintf(text, sizeof text, "%s:" MEMORY, longest);
	assert_int_equal(parse(text), 0);
	assert_string_equal(options[0].name, longest);
	snprintf(text, sizeof text, "x%s:" MEMORY, longest);
	assert_int_equal(parse(text), -1);
	assert_non_null(strstr(err.text, "it begins with a name of 1 to 32 letters"));
}

/* As long as a text may be nothing of it is lost; a longer one is not cut. */
static void test_long(void **state)
{
	static char text[SETTINGS_BYTES_MAX + 4];
	static const char begin[] = MEMORY ",users=";
	size_t path_bytes = SETTINGS_BYTES_MAX - (sizeof begin - 1);

	(void)state;
	memset(text, 'p', sizeof text);
	memcpy(text, "a:", 2);
	memcpy(text + 2, begin, sizeof begin - 1);
	text[2 + SETTINGS_BYTES_MAX] = '\0';
	assert_int_equal(parse(text), 0);
	assert_int_equal(strlen(options[0].users), path_bytes);
	text[2 + SETTINGS_BYTES_MAX] = 'p';
	text[3 + SETTINGS_BYTES_MAX] = '\0';
	assert_int_equal(parse(text), -1);
	assert_non_null(strstr(err.text, "...: it is too long"));
	assert_int_equal(strncmp(err.text, "--namespace a:" MEMORY, sizeof "--namespace a:" MEMORY - 1), 0);
}

/* A later one takes the place of an earlier one with all that it says; the others stay where they are. */
static void test_replaces(void **state)
{
	(void)state;
	list.text[0] = "first:memory=32M,users=u,workers=2,connections=3";
	list.text[1] = "second:" MEMORY;
	list.text[2] = "first:memory=16M";
	list.count = 3;
	assert_int_equal(namespaces_parse(&list, options, &count, &err), 0);
	assert_int_equal(count, 2);
	expect(&options[0], "first", 16 * MB, NULL, 0, 0);
	expect(&options[1], "second", 64 * MB, NULL, 0, 0);
}

/* So many names there may be; one that is there already may come again. */
static void test_most(void **state)
{
	static char texts[NAMESPACES_MAX + 2][32];
	const unsigned char *behind = (const unsigned char *)&options[NAMESPACES_MAX];

	(void)state;
	for (unsigned i = 0; i < NAMESPACES_MAX; i++)
		snprintf(texts[i], sizeof texts[i], "n%u:" MEMORY, i);
	strcpy(texts[NAMESPACES_MAX], "n3:memory=16M");
	strcpy(texts[NAMESPACES_MAX + 1], "late:" MEMORY);
	for (unsigned i = 0; i < NAMESPACES_MAX + 2; i++)
		list.text[i] = texts[i];
	list.count = NAMESPACES_MAX + 1;
	assert_int_equal(namespaces_parse(&list, options, &count, &err), 0);
	assert_int_equal(count, NAMESPACES_MAX);
	expect(&options[3], "n3", 16 * MB, NULL, 0, 0);
	expect(&options[NAMESPACES_MAX - 1], "n15", 64 * MB, NULL, 0, 0);
	list.count++;
	assert_int_equal(namespaces_parse(&list, options, &count, &err), -1);
	assert_string_equal(err.text, "--namespace late: there may be 16 of them");
	for (size_t i = 0; i < sizeof options[0]; i++)
		assert_int_equal(behind[i], 0x5a);
}

/* Clients know a namespace by its number: two of the same are refused, wherever they stand. */
static void test_twins(void **state)
{
	(void)state;
	list.text[0] = "other:" MEMORY;
	list.text[1] = "first:" MEMORY;
	list.text[2] = "third:" MEMORY;
	list.text[3] = "last:" MEMORY;
	list.count = 4;
	twin = "last";
	assert_int_equal(namespaces_parse(&list, options, &count, &err), -1);
	assert_string_equal(err.text, "--namespace: the names last and first have the same number on "
			"the wire: "
			    "choose another");
	twin = "other";
	assert_int_equal(namespaces_parse(&list, options, &count, &err), -1);
	assert_string_equal(err.text, "--namespace: the names first and other have the same number on "
			"the wire: "
			    "choose another");
	twin = "nobody";
	assert_int_equal(namespaces_parse(&list, options, &count, &err), 0);
}

/* What is wrong with a later one is told of that one. */
static void test_second_is_wrong(void **state)
{
	(void)state;
	list.text[0] = "a:" MEMORY;
	list.text[1] = "b:memory=much";
	list.count = 2;
	assert_int_equal(namespaces_parse(&list, options, &count, &err), -1);
	assert_string_equal(err.text, "--namespace b:memory=much: --memory: 'much' is not a size such "
			"as 512M "
			    "or 1.5GiB");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_settings, begin, forget),
		cmocka_unit_test_setup_teardown(test_none, begin, forget),
		cmocka_unit_test_setup_teardown(test_bounds, begin, forget),
		cmocka_unit_test_setup_teardown(test_wrong_settings, begin, forget),
		cmocka_unit_test_setup_teardown(test_names, begin, forget),
		cmocka_unit_test_setup_teardown(test_long, begin, forget),
		cmocka_unit_test_setup_teardown(test_replaces, begin, forget),
		cmocka_unit_test_setup_teardown(test_most, begin, forget),
		cmocka_unit_test_setup_teardown(test_twins, begin, forget),
		cmocka_unit_test_setup_teardown(test_second_is_wrong, begin, forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

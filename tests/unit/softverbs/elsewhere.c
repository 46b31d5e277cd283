/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elsewhere.c -- fabrics: which one a process is in, and which other one listens at a port, as is told to
 * somebody whose connection is refused.
 * The kernel's list of sockets is made up.
 *
 * The program is linked with --wrap of fopen().
 */
#include "tests/unit/descriptors.h"
#include "tests/unit/server/wrap_fopen.h"
#include "tests/unit/softverbs/kit.h"
#include "common/softverbs/base/proc.h"

#define PORT 7000
#define SOCKETS 4

static const char *sockets[SOCKETS + 1];
static bool readable;
static struct sv_proc proc = { .fabric = "ours" };

FILE *WRAP_FOPEN(const char *path, const char *mode)
{
	FILE *file;

	if (strcmp(path, "/proc/net/unix"))
		return REAL_FOPEN(path, mode);
	errno = EACCES;
	if (!readable)
		return NULL;
	file = tmpfile();
	assert_non_null(file);
	fputs("Num       RefCount Protocol Flags    Type St Inode Path\n", file);
	for (int i = 0; sockets[i]; i++)
		fprintf(file, "0000000000000000: 00000002 00000000 00010000 0005 01 %5d %s\n", i, sockets[i]);
	rewind(file);
	return file;
}

static int begin(void **state)
{
	(void)state;
	memset(sockets, 0, sizeof(sockets));
	readable = true;
	sv_proc = &proc;
	return 0;
}

/* NULL: there is none. */
static void finds(const char *fabric)
{
	int before = count_descriptors();
	char name[8] = "";

	assert_int_equal(sv_listens_elsewhere(PORT, name, sizeof(name)), fabric != NULL);
	assert_string_equal(name, fabric ? fabric : "");
	assert_int_equal(count_descriptors(), before);
}

/* It is told by its name, whichever address it listens at; the first, if there are several. */
static void test_found(void **state)
{
	static const char *const at[] = {
		"@softverbs/1000/cm/127.0.0.1/7000", "@softverbs/1000/cm/0.0.0.0/7000",
		"@softverbs/1000/cm/::1/7000",	     "@softverbs/1000/cm/::!/7000",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		sockets[0] = at[i];
		finds("1000");
	}
	sockets[0] = "/run/other";
	sockets[1] = "@softverbs/A-z_0.9/cm/127.0.0.1/7000";
	sockets[2] = "@softverbs/1001/cm/127.0.0.1/7000";
	sockets[3] = "@softverbs/1002/cm/127.0.0.1/7001";
	finds("A-z_0.9");
	sockets[1] = "@softverbs/longer-than-there-is-room/cm/127.0.0.1/7000";
	finds("longer-");
}

/* At another port, of datagrams, of this fabric, or something else: it is not what was looked for. */
static void test_not_found(void **state)
{
	static const char *const at[] = {
		"@softverbs/1000/cm/127.0.0.1/7001", "@softverbs/1000/cm/127.0.0.1/70000",
		"@softverbs/1000/cm/127.0.0.1/72536", "@softverbs/1000/cm/7000/1",
		"@softverbs/1000/cm/7000",	      "@softverbs/1000/cu/127.0.0.1/7000",
		"@softverbs/1000/p/7000",	      "@softverbs/ours/cm/127.0.0.1/7000",
		"@other/1000/cm/127.0.0.1/7000",
	};

	(void)state;
	finds(NULL);
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		sockets[0] = at[i];
		finds(NULL);
	}
	sockets[0] = "@softverbs/ours2/cm/127.0.0.1/7000";
	finds("ours2");
	readable = false;
	finds(NULL); /* nothing can be said */
}

/* A process that has not begun yet has no fabric: each is another one. */
static void test_before(void **state)
{
	(void)state;
	sv_proc = NULL;
	sockets[0] = "@softverbs/ours/cm/127.0.0.1/7000";
	finds("ours");
}

/* A name that could do harm where it is pasted is not told, nor an empty one; the next listener's is. */
static void test_odd_names(void **state)
{
	static const char *const at[] = {
		"@softverbs/$(reboot)/cm/127.0.0.1/7000", "@softverbs/a b/cm/127.0.0.1/7000",
		"@softverbs/a;/cm/127.0.0.1/7000",	  "@softverbs//cm/127.0.0.1/7000",
		"@softverbs/a/b/cm/127.0.0.1/7000",	  "@softverbs/\033[2J/cm/127.0.0.1/7000",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		sockets[0] = at[i];
		sockets[1] = NULL;
		finds(NULL);
		sockets[1] = "@softverbs/1000/cm/127.0.0.1/7000";
		finds("1000");
	}
}

/* ---- the process's own ---- */

static void expect_fabric(const char *asked, const char *name)
{
	struct rdma_event_channel *ch;

	if (asked)
		CHECK(!setenv("SOFTVERBS_FABRIC", asked, 1));
	else
		unsetenv("SOFTVERBS_FABRIC");
	sv_proc = NULL;
	CHECK((ch = sv_create_event_channel()) != NULL);
	CHECK(!strcmp(sv_proc->fabric, name));
	sv_destroy_event_channel(ch);
}

static const char *own;

static void asked_for(int sock)
{
	(void)sock;
	expect_fabric(own, own);
}

/* One of the user's, where none is asked for. */
static void of_the_user(int sock)
{
	char uid[16];

	(void)sock;
	snprintf(uid, sizeof(uid), "%u", (unsigned int)geteuid());
	expect_fabric(own, uid);
}

static void test_own(void **state)
{
	(void)state;
	own = NULL;
	kit_run(of_the_user, kit_nothing);
	own = "";
	kit_run(of_the_user, kit_nothing);
	own = "team-7";
	kit_run(asked_for, kit_nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_found, begin),
		cmocka_unit_test_setup(test_not_found, begin),
		cmocka_unit_test_setup(test_before, begin),
		cmocka_unit_test_setup(test_odd_names, begin),
		cmocka_unit_test_setup(test_own, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

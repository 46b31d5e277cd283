/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/platform/privileges.h: what root gives up to become a user, in which order, and that kvd does
 * not go on where something of it was not given up.  The test makes up the kernel.
 */
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/log.h"
#include "server/platform/privileges.h"
#include "tests/unit/made_up.h"
#include "tests/unit/said.h"

#define UID 1201u
#define GID 1202u
#define OTHER 1300u

/* What is called, each at its place in `calls`; one of them may fail. */
enum call { NONE, RLIMIT, SEAL, BOUND, GROUPS, SETGID, SETUID, AMBIENT, CAPSET, CALLS };

static struct {
	struct passwd pw;
	int no_user; /* errno of getpwnam(); -1: nobody has the name */
	uid_t euid, uid[3];
	gid_t gid[3];
	int last_capability;
	uint64_t bounding; /* a bit for each */
	int kept;	   /* the capability that can't be given up; -1: none */
	bool sealed, ambient_is_set;
	struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3];
	bool no_capget, no_ids, no_getrlimit;
	unsigned way_back; /* 1: setuid(), 2: seteuid(), 3: setgid() */
	struct rlimit limit;
	enum call fails;
	int error;
	enum call calls[CALLS];
	unsigned count;
} k;

static struct err err;

/* Notes the call, but for the same one again. */
static int call(enum call what)
{
	if (!k.count || k.calls[k.count - 1] != what) {
		assert_true(k.count < CALLS);
		k.calls[k.count++] = what;
	}
	if (what != k.fails)
		return 0;
	errno = k.error;
	return -1;
}

MADE_UP(struct passwd *, getpwnam, const char *name)
{
	if (k.no_user) {
		errno = k.no_user > 0 ? k.no_user : errno;
		return NULL;
	}
	assert_string_equal(name, "kvd");
	return &k.pw;
}

MADE_UP(uid_t, geteuid, void)
{
	return k.euid;
}

static int set_limit(unsigned long max, unsigned long cur)
{
	int rc = max == RLIM_INFINITY ? call(RLIMIT) : 0;

	if (!rc)
		k.limit = (struct rlimit){ cur, max };
	return rc;
}

MADE_UP(int, setrlimit, int what, const struct rlimit *lim)
{
	assert_int_equal(what, RLIMIT_MEMLOCK);
	return set_limit(lim->rlim_max, lim->rlim_cur);
}

MADE_UP(int, setrlimit64, int what, const struct rlimit64 *lim)
{
	assert_int_equal(what, RLIMIT_MEMLOCK);
	return set_limit(lim->rlim_max, lim->rlim_cur);
}

MADE_UP(int, getrlimit, int what, struct rlimit *lim)
{
	assert_int_equal(what, RLIMIT_MEMLOCK);
	*lim = k.limit;
	return k.no_getrlimit ? -1 : 0;
}

MADE_UP(int, getrlimit64, int what, struct rlimit64 *lim)
{
	assert_int_equal(what, RLIMIT_MEMLOCK);
	*lim = (struct rlimit64){ k.limit.rlim_cur, k.limit.rlim_max };
	return k.no_getrlimit ? -1 : 0;
}

static int drop_bound(unsigned long cap)
{
	assert_in_range(cap, 0, k.last_capability);
	assert_true(k.bounding >> cap & 1);
	if ((int)cap == k.kept) {
		k.fails = BOUND;
		k.error = EPERM;
	}
	if (call(BOUND))
		return -1;
	k.bounding &= ~(1ull << cap);
	return 0;
}

MADE_UP(int, prctl, int what, ...)
{
	va_list args;

	va_start(args, what);
	unsigned long a = what == PR_CAPBSET_READ || what == PR_CAPBSET_DROP ? (unsigned)va_arg(args, int)
									      : 0;
	if (what == PR_CAP_AMBIENT)
		assert_int_equal(va_arg(args, int), PR_CAP_AMBIENT_CLEAR_ALL);
	if (what == PR_SET_NO_NEW_PRIVS)
		assert_int_equal(va_arg(args, int), 1);
	va_end(args);
	switch (what) {
	case PR_CAPBSET_READ:
		errno = EINVAL;
		return (int)a > k.last_capability ? -1 : (int)(k.bounding >> a & 1);
	case PR_CAPBSET_DROP:
		return drop_bound(a);
	case PR_CAP_AMBIENT:
		k.ambient_is_set = false;
		return call(AMBIENT);
	case PR_SET_NO_NEW_PRIVS:
		k.sealed = !call(SEAL);
		return k.sealed ? 0 : -1;
	case PR_GET_NO_NEW_PRIVS:
		return k.sealed;
	}
	fail_msg("prctl(%d) is not made up", what);
	return -1;
}

MADE_UP(int, initgroups, const char *name, gid_t gid)
{
	assert_string_equal(name, "kvd");
	assert_int_equal(gid, GID);
	return call(GROUPS);
}

MADE_UP(int, setresgid, gid_t a, gid_t b, gid_t c)
{
	assert_true(a == GID && b == GID && c == GID);
	return call(SETGID);
}

MADE_UP(int, setresuid, uid_t a, uid_t b, uid_t c)
{
	assert_true(a == UID && b == UID && c == UID);
	return call(SETUID);
}

MADE_UP(long, syscall, long number, ...)
{
	va_list args;

	va_start(args, number);
	const struct __user_cap_header_struct *head = va_arg(args, struct __user_cap_header_struct *);
	struct __user_cap_data_struct *data = va_arg(args, struct __user_cap_data_struct *);
	va_end(args);
	assert_true(number == SYS_capset || number == SYS_capget);
	assert_int_equal(head->version, _LINUX_CAPABILITY_VERSION_3);
	assert_int_equal(head->pid, 0);
	if (number == SYS_capget) {
		memcpy(data, k.has, sizeof k.has);
		return k.no_capget ? -1 : 0;
	}
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		assert_true(!data[i].effective && !data[i].permitted && !data[i].inheritable);
	return call(CAPSET);
}

MADE_UP(int, getresuid, uid_t *a, uid_t *b, uid_t *c)
{
	*a = k.uid[0];
	*b = k.uid[1];
	*c = k.uid[2];
	errno = EFAULT;
	return k.no_ids ? -1 : 0;
}

MADE_UP(int, getresgid, gid_t *a, gid_t *b, gid_t *c)
{
	*a = k.gid[0];
	*b = k.gid[1];
	*c = k.gid[2];
	return 0;
}

MADE_UP(int, setuid, uid_t to)
{
	assert_int_equal(to, 0);
	return k.way_back == 1 ? 0 : -1;
}

MADE_UP(int, seteuid, uid_t to)
{
	assert_int_equal(to, 0);
	return k.way_back == 2 ? 0 : -1;
}

MADE_UP(int, setgid, gid_t to)
{
	assert_int_equal(to, 0);
	return k.way_back == 3 ? 0 : -1;
}

/* Root, with all capabilities that the kernel knows, and the ids that it would have afterwards. */
static int begin(void **state)
{
	static char name[] = "kvd";

	(void)state;
	memset(&k, 0, sizeof k);
	k.pw = (struct passwd){ .pw_name = name, .pw_uid = UID, .pw_gid = GID };
	for (unsigned i = 0; i < 3; i++) {
		k.uid[i] = UID;
		k.gid[i] = GID;
	}
	k.last_capability = 40;
	k.bounding = (1ull << 41) - 1;
	k.kept = -1;
	k.ambient_is_set = true;
	k.limit = (struct rlimit){ 65536, 8 << 20 };
	return 0;
}

static void refuses(const char *why)
{
	assert_int_equal(privileges_shed("kvd", &err), -1);
	assert_string_equal(err.text, why);
}

/* The groups while it is root still, the user last, and no capability survives. */
static void test_all(void **state)
{
	static const enum call order[] = { RLIMIT, SEAL, BOUND, GROUPS, SETGID, SETUID, AMBIENT, CAPSET };

	(void)state;
	said_begin();
	assert_int_equal(privileges_shed("kvd", &err), 0);
	assert_string_equal(said_end(), "");
	assert_int_equal(k.count, sizeof order / sizeof order[0]);
	assert_memory_equal(k.calls, order, sizeof order);
	assert_int_equal(k.bounding, 0);
	assert_true(k.sealed && !k.ambient_is_set);
	assert_true(k.limit.rlim_cur == RLIM_INFINITY && k.limit.rlim_max == RLIM_INFINITY);
}

/* Of a kernel with as many capabilities as there can be, and of one where some are gone already. */
static void test_capabilities(void **state)
{
	(void)state;
	k.last_capability = 63;
	k.bounding = UINT64_MAX;
	assert_int_equal(privileges_shed("kvd", &err), 0);
	assert_int_equal(k.bounding, 0);
	k.count = 0;
	k.last_capability = 5;
	k.bounding = 0x21;
	assert_int_equal(privileges_shed("kvd", &err), 0);
	assert_int_equal(k.bounding, 0);
}

/* Nothing is given up for a user who is not there, or is root, nor by who is not. */
static void test_who(void **state)
{
	(void)state;
	k.no_user = -1;
	errno = EIO; /* of an earlier call */
	refuses("--user: there is no user kvd");
	k.no_user = ENOMEM;
	refuses("--user: there is no user kvd: Cannot allocate memory");
	k.no_user = 0;
	k.pw.pw_uid = 0;
	refuses("--user: kvd is root, or of root's group: name somebody who is not");
	k.pw.pw_uid = UID;
	k.pw.pw_gid = 0;
	refuses("--user: kvd is root, or of root's group: name somebody who is not");
	k.pw.pw_gid = GID;
	k.euid = UID;
	refuses("--user: only root can become kvd: start kvd as root, or as kvd without --user");
	assert_int_equal(k.count, 0);
}

static void fails_at_call(enum call what, const char *why)
{
	begin(NULL);
	k.fails = what;
	k.error = EPERM;
	refuses(why);
	assert_int_equal(k.calls[k.count - 1], what);
}

/* What fails is told, and nothing is done after it. */
static void test_fails(void **state)
{
	(void)state;
	fails_at_call(GROUPS, "--user: can't become kvd: Operation not permitted");
	fails_at_call(SETGID, "--user: can't become kvd: Operation not permitted");
	fails_at_call(SETUID, "--user: can't become kvd: Operation not permitted");
	fails_at_call(AMBIENT, "--user: can't give up ambient capabilities: Operation not permitted");
	fails_at_call(CAPSET, "--user: can't give up capabilities: Operation not permitted");
	begin(NULL);
	k.kept = 7;
	refuses("--user: can't give up capability 7: Operation not permitted");
	assert_int_equal(k.calls[k.count - 1], BOUND);
	assert_int_equal(k.bounding, ((1ull << 41) - 1) & ~0x7full);
	/* A kernel that has no ambient ones. */
	begin(NULL);
	k.fails = AMBIENT;
	k.error = EINVAL;
	assert_int_equal(privileges_shed("kvd", &err), 0);
}

/* Each of its ids is looked at. */
static void test_ids(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		begin(NULL);
		k.uid[i] = OTHER;
		refuses("--user: this is not kvd all through");
		begin(NULL);
		k.gid[i] = OTHER;
		refuses("--user: this is not kvd all through");
	}
	begin(NULL);
	k.no_ids = true;
	refuses("--user: can't tell who this is: Bad address");
}

static void test_way_back(void **state)
{
	(void)state;
	for (unsigned i = 1; i <= 3; i++) {
		begin(NULL);
		k.way_back = i;
		refuses("--user: there is a way back to root");
	}
	begin(NULL);
	k.fails = SEAL;
	refuses("--user: a program could be executed with more privileges");
}

/* In each of the sets, the last capability as well as the first; and where nobody can tell. */
static void test_left(void **state)
{
	static const char left[] = "--user: there are capabilities left";

	(void)state;
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		begin(NULL);
		k.has[i].effective = 1;
		refuses(left);
		begin(NULL);
		k.has[i].permitted = 1u << 31;
		refuses(left);
		begin(NULL);
		k.has[i].inheritable = 1;
		refuses(left);
	}
	begin(NULL);
	k.no_capget = true;
	refuses(left);
}

/* Where the limit can't be raised it is what it may be, which is told; kvd goes on. */
static void test_locked_memory(void **state)
{
	(void)state;
	k.fails = RLIMIT;
	k.error = EPERM;
	said_begin();
	assert_int_equal(privileges_shed("kvd", &err), 0);
	said_end();
	assert_int_equal(said_lines("the limit of locked memory can't be raised (Operation not "
			"permitted): it is "
				    "8 MiB"), 1);
	assert_int_equal(k.limit.rlim_cur, 8 << 20);
	assert_int_equal(k.limit.rlim_max, 8 << 20);
	begin(NULL);
	k.fails = RLIMIT;
	k.limit.rlim_max = RLIM_INFINITY;
	said_begin();
	assert_int_equal(privileges_shed("kvd", &err), 0);
	assert_string_equal(said_end(), "");
	begin(NULL);
	k.fails = RLIMIT;
	k.no_getrlimit = true;
	said_begin();
	assert_int_equal(privileges_shed("kvd", &err), 0);
	assert_string_equal(said_end(), "");
}

static void test_seal(void **state)
{
	(void)state;
	privileges_seal();
	assert_true(k.sealed);
	assert_int_equal(k.count, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_all, begin),
		cmocka_unit_test_setup(test_capabilities, begin),
		cmocka_unit_test_setup(test_who, begin),	 cmocka_unit_test_setup(test_fails, begin),
		cmocka_unit_test_setup(test_ids, begin),	 cmocka_unit_test_setup(test_way_back, begin),
		cmocka_unit_test_setup(test_left, begin),
		cmocka_unit_test_setup(test_locked_memory, begin),
		cmocka_unit_test_setup(test_seal, begin),
	};

	log_open("privileges_test", LOG_LEVEL_INFO);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

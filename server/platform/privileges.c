/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/platform/privileges.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/log.h"
#include "common/opt.h"

#define CAPABILITIES_MAX 63

/* Registered memory counts as locked.  A process that is not root any more has this limit. */
static void raise_locked_memory(void)
{
	struct rlimit lim = { RLIM_INFINITY, RLIM_INFINITY };
	char size[32];

	if (!setrlimit(RLIMIT_MEMLOCK, &lim))
		return;
	int e = errno;
	if (getrlimit(RLIMIT_MEMLOCK, &lim) || lim.rlim_max == RLIM_INFINITY)
		return;
	lim.rlim_cur = lim.rlim_max;
	setrlimit(RLIMIT_MEMLOCK, &lim);
	log_warn("the limit of locked memory can't be raised (%s): it is %s", strerror(e),
		 opt_format_size(lim.rlim_max, size, sizeof size));
}

/* While it is root: what it could ever get back. */
static int empty_bounding_set(struct err *err)
{
	for (int cap = 0; cap <= CAPABILITIES_MAX; cap++) {
		int has = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
		if (has < 0)
			break; /* the kernel knows no more of them */
		if (has && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0))
			return err_set_errno(err, -1, errno, "--user: can't give up capability %d", cap);
	}
	return 0;
}

static int become(const struct passwd *pw, struct err *err)
{
	if (initgroups(pw->pw_name, pw->pw_gid) ||
	    setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) ||
	    setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid))
		return err_set_errno(err, -1, errno, "--user: can't become %s", pw->pw_name);
	return 0;
}

static int drop_capabilities(struct err *err)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	/* Kernels before 4.3 have no ambient ones. */
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) && errno != EINVAL)
		return err_set_errno(err, -1, errno, "--user: can't give up ambient capabilities");
	if (syscall(SYS_capset, &head, none))
		return err_set_errno(err, -1, errno, "--user: can't give up capabilities");
	return 0;
}

static bool has_capabilities(void)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &head, has))
		return true;
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		if (has[i].effective || has[i].permitted || has[i].inheritable)
			return true;
	return false;
}

/* Nothing is believed: it looks at what it is now, and tries to go back. */
static int look(const struct passwd *pw, struct err *err)
{
	uid_t u[3];
	gid_t g[3];

	if (getresuid(&u[0], &u[1], &u[2]) || getresgid(&g[0], &g[1], &g[2]))
		return err_set_errno(err, -1, errno, "--user: can't tell who this is");
	for (unsigned i = 0; i < 3; i++)
		if (u[i] != pw->pw_uid || g[i] != pw->pw_gid)
			return err_set(err, -1, "--user: this is not %s all through", pw->pw_name);
	if (!setuid(0) || !seteuid(0) || !setgid(0))
		return err_set(err, -1, "--user: there is a way back to root");
	if (has_capabilities())
		return err_set(err, -1, "--user: there are capabilities left");
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return err_set(err, -1, "--user: a program could be executed with more privileges");
	return 0;
}

void privileges_seal(void)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

int privileges_shed(const char *user, struct err *err)
{
	errno = 0;
	const struct passwd *pw = getpwnam(user);

	if (!pw)
		return err_set(err, -1, "--user: there is no user %.100s%s%s", user, errno ? ": " : "",
			       errno ? strerror(errno) : "");
	if (!pw->pw_uid || !pw->pw_gid)
		return err_set(err, -1, "--user: %s is root, or of root's group: name somebody who is "
			       "not", user);
	if (geteuid())
		return err_set(err, -1, "--user: only root can become %s: start kvd as root, or as %s "
			       "without --user", user, user);
	raise_locked_memory();
	privileges_seal();
	return empty_bounding_set(err) || become(pw, err) || drop_capabilities(err) || look(pw, err)
		       ? -1
		       : 0;
}

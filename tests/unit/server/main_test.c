/* SPDX-License-Identifier: BSD-2-Clause */
/* server/main.c: what the device is told before kvd listens there.  Then the start ends here.  And kvd init,
 * which starts nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/host/host.h"
#include "server/host/loop.h"
#include "server/worker/context.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/made_up.h"
#include "tests/unit/said.h"

int kvd_main(int argc, char **argv);

static struct device_tuning tuning;
static unsigned starts;

MADE_UP(int, listen_start, struct host *h, struct err *err)
{
	starts++;
	tuning = h->servers->device.tuning;
	return err_set(err, -1, "not in this test");
}

/* 4.096 us times two to the power of what is returned. */
static int timeout_at(const char *addresses, const char *device)
{
	const char *argv[] = { "kvd", "--device", device, "--listen", addresses, "--memory", "32M", "--workers",
			       "1", NULL };

	starts = 0;
	said_begin();
	int status = kvd_main(9, (char **)argv);
	const char *text = said_end();
	if (status != 1 || starts != 1 || said_lines("not in this test") != 1)
		fail_msg("kvd ended with %d after %u starts: %s", status, starts, text);
	return tuning.ack_timeout;
}

#define ONE "127.0.0.1:0"

/* With another way to go to, it is known soon that one is cut, unless the user has said how soon. */
static void test_timeout_of_the_device(void **state)
{
	(void)state;
	assert_int_equal(timeout_at(ONE, "soft"), DEVICE_UNSET);
	assert_int_equal(timeout_at(ONE ",127.0.0.2:0", "soft"), 13);
	assert_int_equal(timeout_at(ONE ",127.0.0.2:0,127.0.0.3:0", "soft"), 13);
	assert_int_equal(timeout_at(ONE ",127.0.0.2:0", "soft,ack-timeout=20"), 20);
	assert_int_equal(timeout_at(ONE, "soft,ack-timeout=20"), 20);
	/* Nothing else is. */
	timeout_at(ONE ",127.0.0.2:0", "soft,retries=3");
	assert_int_equal(tuning.ack_timeout, 13);
	assert_int_equal(tuning.retries, 3);
	assert_int_equal(tuning.service_level, DEVICE_UNSET);
	assert_int_equal(tuning.traffic_class, DEVICE_UNSET);
}

/* kvd init ends with that status and that line, and leaves no descriptor. */
static void init(const char *users, const char *output, int status, const char *line)
{
	const char *argv[] = { "kvd", "init", "--users", users, "--output", output, NULL };
	int before = count_descriptors();

	said_begin();
	int rc = kvd_main(6, (char **)argv);
	const char *text = said_end();
	if (rc != status || said_lines(line) != 1)
		fail_msg("kvd init ended with %d: %s", rc, text);
	assert_int_equal(count_descriptors(), before);
}

static bool is_there(const char *path)
{
	struct stat st;

	return !stat(path, &st) && st.st_size > 0;
}

/* Both files or none: credentials that can't be handed out are of no use. */
static void test_init(void **state)
{
	char dir[] = "/tmp/kvd-init-XXXXXX", users[64], again[64], output[64], other[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(users, sizeof users, "%s/users", dir);
	snprintf(again, sizeof again, "%s/users-2", dir);
	snprintf(output, sizeof output, "%s/admin", dir);
	snprintf(other, sizeof other, "%s/admin-2", dir);
	init(users, output, 0, "kvd init: made ");
	assert_true(is_there(users) && is_there(output));
	/* That file of credentials is somebody's. */
	init(again, output, 1, "is there already: it stays as it is");
	assert_true(is_there(output));
	assert_int_not_equal(access(again, F_OK), 0);
	/* So is that file of users. */
	init(users, other, 1, users);
	assert_int_not_equal(access(other, F_OK), 0);
	unlink(users);
	unlink(output);
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_timeout_of_the_device),
		cmocka_unit_test(test_init),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* server/main.c: what the device is told before kvd listens there.  Then the start ends here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/host/host.h"
#include "server/host/loop.h"
#include "server/worker/context.h"
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_timeout_of_the_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Every asynchronous event has words; what ruins the device ends kvd, nothing else does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "server/host/device_event.h"

static void every_event_is_judged(void **state)
{
	const char *words, *unknown;

	(void)state;
	assert_int_equal(event_judge((enum ibv_event_type)1000, &unknown), EVENT_TELL);
	for (int type = 0; type <= (int)IBV_EVENT_WQ_FATAL; type++) {
		event_judge((enum ibv_event_type)type, &words);
		if (words == unknown)
			fail_msg("%s has no words", ibv_event_type_str((enum ibv_event_type)type));
	}
}

static void ruin_ends_kvd(void **state)
{
	const char *words;

	(void)state;
	for (int type = 0; type <= (int)IBV_EVENT_WQ_FATAL; type++) {
		enum event_action action = event_judge((enum ibv_event_type)type, &words);
		int ruin = type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_CQ_ERR ||
			   type == IBV_EVENT_SRQ_ERR || type == IBV_EVENT_WQ_FATAL;
		assert_int_equal(action == EVENT_STOP, ruin);
	}
	/* Waited for at the end of a connection: never a reason to end another. */
	assert_int_equal(event_judge(IBV_EVENT_QP_LAST_WQE_REACHED, &words), EVENT_DRAIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_event_is_judged),
		cmocka_unit_test(ruin_ends_kvd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

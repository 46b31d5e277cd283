/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * idle.c -- a device with nothing to do uses next to no CPU: connected, with a
 * request that waits for its receive, and with a thread that waits for an event.
 */
#include <pthread.h>
#include "tests/unit/softverbs/kit.h"

#define LOOK_MS 500
#define MOST_MS 50 /* instrumented builds need 10 */

static uint64_t used_ms(void)
{
	struct timespec ts;

	CHECK(!clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts));
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* What is measured is this half of a second. */
static void look(void)
{
	uint64_t before = used_ms();

	poll(NULL, 0, LOOK_MS);
	if (used_ms() - before > MOST_MS)
		fprintf(stderr, "%lu ms of %d\n", (unsigned long)(used_ms() - before), LOOK_MS);
	CHECK(used_ms() - before <= MOST_MS);
}

static void *await_event(void *arg)
{
	struct kit *k = arg;
	struct ibv_cq *cq;
	void *context;

	CHECK(!sv_get_cq_event(k->chan, &cq, &context));
	CHECK(cq == k->scq);
	sv_ack_cq_events(cq, 1);
	return NULL;
}

static void send_late(int sock)
{
	struct kit_opts opts = kit_defaults;
	pthread_t thread;
	struct kit k;

	opts.events = true;
	kit_open(&k, &opts, sock);
	kit_connect(&k);
	look();
	CHECK(!ibv_req_notify_cq(k.scq, 0));
	CHECK(!pthread_create(&thread, NULL, await_event, &k));
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, 1, IBV_SEND_SIGNALED));
	look();
	kit_meet(&k);
	CHECK(!pthread_join(thread, NULL));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	kit_meet(&k);
	kit_close(&k);
}

static void receive_late(int sock)
{
	struct kit k;

	kit_open(&k, &kit_defaults, sock);
	kit_connect(&k);
	look();
	look();
	kit_meet(&k);
	CHECK(!kit_post_recv(&k, 0, 8, 2));
	kit_expect(k.rcq, 2, IBV_WC_SUCCESS);
	kit_meet(&k);
	kit_close(&k);
}

static void test_idle(void **state)
{
	(void)state;
	kit_run(send_late, receive_late);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_idle) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* server/worker/rx.h: how many receives are posted, of which buffers, and how queues end. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/verbs/verbs.h"
#include "server/worker/rx.h"
#include "tests/unit/no_memory.h"

#define COUNT 128u
#define SPARE (COUNT / 4)
#define CHAIN 32u
#define LKEY 0x4711u

static uint8_t memory[1]; /* nothing is written to it */
static struct rx rx;
static bool is_posted[COUNT];
static unsigned posts, longest; /* calls, and the longest chain of them */
static unsigned posts_left;	/* that succeed */
static char ended[8];		/* in order: 's'rq, 'a'cknowledged, 'c'q, 'h' the channel */
static unsigned acknowledged;

static int post(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	unsigned n = 0;

	assert_ptr_equal(srq, rx.srq);
	*bad = wr;
	if (!posts_left)
		return ENOMEM;
	posts_left--;
	posts++;
	for (; wr; wr = wr->next, n++) {
		assert_in_range(wr->wr_id, 1, COUNT - 1);
		assert_false(is_posted[wr->wr_id]);
		is_posted[wr->wr_id] = true;
		assert_int_equal(wr->num_sge, 1);
		assert_int_equal(wr->sg_list->addr, (uintptr_t)memory + wr->wr_id * BUFFER_STRIDE_BYTES);
		assert_int_equal(wr->sg_list->length, WIRE_MESSAGE_BYTES_MAX);
		assert_int_equal(wr->sg_list->lkey, LKEY);
	}
	longest = n > longest ? n : longest;
	return 0;
}

static struct ibv_context context = { .ops = { .post_srq_recv = post } };
static struct ibv_srq srq = { .context = &context };
static struct ibv_cq cq;
static struct ibv_comp_channel channel;

static int begin(void **state)
{
	(void)state;
	memset(is_posted, 0, sizeof is_posted);
	posts = longest = 0;
	posts_left = UINT32_MAX;
	fails_at = 0;
	return rx_init(&rx, &srq, COUNT, memory, LKEY);
}

static int end(void **state)
{
	(void)state;
	rx_fini(&rx);
	return 0;
}

/* Receives that are posted now, by what the queue was given. */
static unsigned count_posted(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < COUNT; i++)
		n += is_posted[i];
	assert_int_equal(n, rx.posted);
	return n;
}

/* A message came into a buffer, which is done with or is kept. */
static void take(unsigned buffer, bool is_done)
{
	assert_true(is_posted[buffer]);
	is_posted[buffer] = false;
	rx.posted--;
	if (is_done)
		rx_release(&rx, buffer);
}

static unsigned any_posted(void)
{
	for (unsigned i = 0; i < COUNT; i++)
		if (is_posted[i])
			return i;
	fail();
	return 0;
}

/* As many as the connections may use and a quarter of all, in chains; none where they are there. */
static void test_as_many_as_wanted(void **state)
{
	(void)state;
	assert_int_equal(rx_refill(&rx, 0), 0);
	assert_int_equal(count_posted(), SPARE);
	assert_int_equal(posts, 1);
	assert_int_equal(rx_refill(&rx, 0), 0);
	assert_int_equal(posts, 1);
	assert_int_equal(rx_refill(&rx, 40), 0);
	assert_int_equal(count_posted(), SPARE + 40);
	assert_int_equal(posts, 3);
	assert_int_equal(longest, CHAIN);
	/* Fewer are wanted than there are: they stay. */
	assert_int_equal(rx_refill(&rx, 7), 0);
	assert_int_equal(count_posted(), SPARE + 40);
	assert_int_equal(posts, 3);
	take(any_posted(), true);
	assert_int_equal(rx_refill(&rx, 40), 0);
	assert_int_equal(count_posted(), SPARE + 40);
	assert_int_equal(posts, 4);
}

/* All but the buffer that is never used; one that is still read is not posted. */
static void test_all(void **state)
{
	(void)state;
	assert_int_equal(rx_refill(&rx, 100000), 0);
	assert_int_equal(count_posted(), COUNT - 1);
	assert_int_equal(rx.free_count, 0);
	unsigned kept = any_posted();
	take(kept, false);
	assert_int_equal(rx_refill(&rx, 100000), 0);
	assert_int_equal(count_posted(), COUNT - 2);
	rx_release(&rx, kept);
	assert_int_equal(rx_refill(&rx, 100000), 0);
	assert_true(is_posted[kept]);
	assert_int_equal(count_posted(), COUNT - 1);
}

/* What the device says is told; those before count. */
static void test_refused(void **state)
{
	(void)state;
	posts_left = 1;
	assert_int_equal(rx_refill(&rx, 40), ENOMEM);
	assert_int_equal(count_posted(), CHAIN);
}

static void test_no_memory(void **state)
{
	struct rx none;

	(void)state;
	fails_at = 1;
	assert_int_equal(rx_init(&none, &srq, COUNT, memory, LKEY), ENOMEM);
	rx_fini(&none);
}

/* ---------------------------------------------------------------------- queues */

static void note(char what)
{
	size_t n = strlen(ended);

	assert_true(n + 1 < sizeof ended);
	ended[n] = what;
}

static int destroy_srq(struct ibv_srq *it)
{
	assert_ptr_equal(it, &srq);
	note('s');
	return 0;
}

static void acknowledge(struct ibv_cq *it, unsigned n)
{
	assert_ptr_equal(it, &cq);
	acknowledged = n;
	note('a');
}

static int destroy_cq(struct ibv_cq *it)
{
	assert_ptr_equal(it, &cq);
	note('c');
	return 0;
}

static int destroy_channel(struct ibv_comp_channel *it)
{
	assert_ptr_equal(it, &channel);
	note('h');
	return 0;
}

/* In the order in which they hang on each other, also what was made of them; a queue whose events were
 * not acknowledged would not end. */
static void test_delete(void **state)
{
	static const struct verbs v = { .destroy_srq = destroy_srq, .ack_cq_events = acknowledge,
					.destroy_cq = destroy_cq, .destroy_comp_channel = destroy_channel };
	struct worker_queues q = { .channel = &channel, .cq = &cq, .srq = &srq };

	(void)state;
	queues_delete(&q, &v, 5);
	assert_string_equal(ended, "sach");
	assert_int_equal(acknowledged, 5);
	memset(ended, 0, sizeof ended);
	q.srq = NULL;
	queues_delete(&q, &v, 0);
	assert_string_equal(ended, "ach");
	memset(ended, 0, sizeof ended);
	q.cq = NULL;
	queues_delete(&q, &v, 0);
	assert_string_equal(ended, "h");
	memset(ended, 0, sizeof ended);
	q.channel = NULL;
	queues_delete(&q, &v, 0);
	assert_string_equal(ended, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_as_many_as_wanted, begin, end),
		cmocka_unit_test_setup_teardown(test_all, begin, end),
		cmocka_unit_test_setup_teardown(test_refused, begin, end),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_delete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

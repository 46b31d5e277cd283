/* SPDX-License-Identifier: BSD-2-Clause */
/* client/session: what becomes of operations whose connection is broken. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "client/get/get.h"
#include "client/op/lockword.h"
#include "client/op/operation.h"
#include "client/op/request.h"
#include "client/session/connect.h"
#include "client/session/event.h"
#include "client/again/ready.h"
#include "client/session/wait.h"
#include "tests/lib/end.h"

#define KEY "key"
#define TOKEN 99u

static struct end *end;
static struct engine *e;

static int set_up(void **state)
{
	(void)state;
	end = end_new();
	e = end->engine;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	end_delete(end);
	return 0;
}

static struct op *new_get(void *value, size_t bytes)
{
	struct op *op = op_new(e, &get_class, KEY, strlen(KEY));

	assert_int_equal(get_start(op, GET_PLAIN, &(struct iovec){ value, bytes }, 1), 0);
	return op;
}

static void test_run_ends_with_the_connection(void **state)
{
	const struct outcome *out;
	uint8_t value[10];

	(void)state;
	end->status = IBV_WC_RETRY_EXC_ERR;
	assert_int_equal(session_run(&end->session, new_get(value, sizeof value), &out),
			 KVD_ECONNECT);
	assert_null(e->qp); /* nothing touches the callers' memory after this */
	assert_int_equal(e->in_flight, 0);
	assert_null(e->done);
}

static uint32_t (*another_id)(uint32_t id);

static uint32_t earlier_id(uint32_t id) { return id - OPS_MAX; }
static uint32_t id_of_an_idle_one(uint32_t id) { return id ^ 1; }
static uint32_t id_of_no_place(uint32_t id) { return id | END_DEPTH; }

static void answer_another(struct end *to, const struct wire_request *request)
{
	to->asked.request_id = another_id(request->request_id);
	end_reply(to, (struct wire_reply){ .bucket = ~0ull }, NULL, 0);
}

/* What is no answer to it ends no request, and nobody believes the connection any more. */
static void test_reply_to_another_request(void **state)
{
	static const struct {
		uint32_t (*id)(uint32_t id);
		const char *says;
	} cases[] = {
		{ earlier_id, "answered a request that nobody made" },
		{ id_of_an_idle_one, "answered a request that nobody made" },
		{ id_of_no_place, "sent a malformed reply" },
	};

	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		another_id = cases[i].id;
		end->answer = answer_another;
		assert_int_equal(end_run(end, end_change(end, KEY, NULL))->result, KVD_EPROTOCOL);
		assert_non_null(strstr(e->health.err.text, cases[i].says));
		tear_down(state);
		set_up(state);
	}
}

static void answer_twice(struct end *to, const struct wire_request *request)
{
	(void)request;
	end_reply(to, (struct wire_reply){ .bucket = ~0ull }, NULL, 0);
	end_reply(to, (struct wire_reply){ .bucket = ~0ull }, NULL, 0);
}

static void test_second_reply(void **state)
{
	(void)state;
	end->answer = answer_twice;
	assert_int_equal(end_run(end, end_change(end, KEY, NULL))->result, KVD_OK);
	assert_non_null(strstr(e->health.err.text, "answered a request that nobody made"));
}

/* Who sleeps on the session's descriptor is woken by a completion, and by the connection. */
static void test_what_wakes_a_loop(void **state)
{
	struct epoll_event event;
	uint64_t one = 1;

	(void)state;
	e->comp->fd = eventfd(0, EFD_CLOEXEC);
	e->channel->fd = eventfd(0, EFD_CLOEXEC);
	const int fds[] = { e->comp->fd, e->channel->fd };
	int fd = event_fd_of(e);
	assert_true(fd >= 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(epoll_wait(fd, &event, 1, 0), 0);
		assert_int_equal(write(fds[i], &one, sizeof one), sizeof one);
		assert_int_equal(epoll_wait(fd, &event, 1, 0), 1);
		assert_int_equal(read(fds[i], &one, sizeof one), sizeof one);
	}
	close(fds[0]);
	close(fds[1]);
	event_delete(e);
}

static void test_poll_gives_what_a_broken_connection_ended(void **state)
{
	struct kvd_completion done;
	char tag;

	(void)state;
	end_change(end, KEY, &tag);
	health_fail(&e->health, KVD_EPROTOCOL, "nonsense");
	assert_int_equal(session_poll_for(&end->session, 0), 0);
	assert_true(ops_take_done(e, &done));
	assert_ptr_equal(done.tag, &tag);
	assert_int_equal(done.result, KVD_EPROTOCOL);
	assert_false(ops_take_done(e, &done));
}

/* An event loop is told at once what ended with the connection, before it sleeps. */
static void must_end_as_it_arms(int with, const char *why)
{
	struct kvd_completion done;

	assert_int_equal(kvd_arm(&end->session), 1);
	assert_non_null(strstr(e->health.err.text, why));
	assert_int_equal(kvd_poll(&end->session, &done, 1, 0), 1);
	assert_int_equal(done.result, with);
	assert_null(e->qp);
}

static void test_loop_arms_on_a_failed_completion(void **state)
{
	uint8_t value[10];

	(void)state;
	end->status = IBV_WC_RETRY_EXC_ERR;
	new_get(value, sizeof value);
	must_end_as_it_arms(KVD_ECONNECT, "the connection to here broke");
}

static void test_loop_that_cannot_be_woken(void **state)
{
	(void)state;
	end->notify_error = EIO;
	end_change(end, KEY, NULL);
	must_end_as_it_arms(KVD_EUNKNOWN, "arming the completion queue failed: Input/output error");
}

/* An unlock that is out when its connection is found broken would break the next one, when
 * its deadline comes; and a change would never be answered. */
static void test_nothing_is_left_in_flight_for_the_next_connection(void **state)
{
	struct kvd_completion done;
	char tag;

	(void)state;
	end->delay = 10;
	e->table.welcome.lock_rkey = 1;
	stripe_release(e, 3, TOKEN);
	end_change(end, KEY, &tag);
	assert_int_equal(e->in_flight, 2);
	health_fail(&e->health, KVD_ECONNECT, "gone");
	assert_int_equal(session_ready(&end->session), KVD_EDEVICE); /* there is none */
	assert_true(ops_take_done(e, &done));
	assert_ptr_equal(done.tag, &tag);
	assert_int_equal(done.result, KVD_EUNKNOWN);
	assert_int_equal(e->in_flight, 0);
}

static void test_alone(void **state)
{
	struct kvd_completion done;
	uint8_t value[10];

	(void)state;
	end->words[3] = TOKEN;
	end->delay = 1;
	e->table.welcome.lock_rkey = 1;
	stripe_release(e, 3, TOKEN); /* nobody waits for it */
	assert_int_equal(session_alone(&end->session), 0);
	assert_int_equal(end->words[3], 0);
	new_get(value, sizeof value);
	assert_int_equal(session_alone(&end->session), KVD_EINVAL);
	assert_int_equal(session_settle(&end->session), 1);
	assert_int_equal(session_poll(&end->session, UINT64_MAX), 0);
	assert_true(ops_take_done(e, &done));
	assert_int_equal(done.result, KVD_NOT_FOUND);
	assert_int_equal(session_begin(&end->session, KEY, 0), KVD_EINVAL);
	assert_int_equal(session_begin(&end->session, KEY, strlen(KEY)), 0);
	assert_int_equal(e->in_flight, 0);
}

/* kvd has no room for an answer now; `busy` times. */
static unsigned busy;

static void answer_busy(struct end *to, const struct wire_request *request)
{
	static const struct wire_key head = { .key_bytes = 3, .value_bytes = 5 };
	uint8_t page[sizeof head + 3];

	(void)request;
	memcpy(page, &head, sizeof head);
	memcpy(page + sizeof head, KEY, 3);
	if (busy) {
		busy--;
		end_reply(to, (struct wire_reply){ .status = WIRE_EBUSY }, NULL, 0);
	} else {
		end_reply(to, (struct wire_reply){ .value_bytes = sizeof page }, page, sizeof page);
	}
}

static int count_key(void *arg, const void *k, size_t key_bytes, uint64_t value_bytes)
{
	assert_memory_equal(k, KEY, key_bytes);
	assert_int_equal(value_bytes, 5);
	++*(unsigned *)arg;
	return 0;
}

/* A list of keys is whole, or its caller is told that it is not. */
static void test_busy_is_no_answer(void **state)
{
	unsigned keys = 0;
	uint64_t cursor = 0;
	char *json = NULL;

	(void)state;
	end->answer = answer_busy;
	busy = 3;
	assert_int_equal(kvd_keys(&end->session, NULL, 0, count_key, &keys), KVD_OK);
	assert_int_equal(keys, 1);
	assert_int_equal(busy, 0);
	e->time.limit_ns = 20000000;
	busy = UINT32_MAX;
	assert_int_equal(kvd_keys(&end->session, NULL, 0, count_key, &keys), KVD_EBUSY);
	assert_int_equal(keys, 1);
	assert_int_equal(kvd_stats(&end->session, &json), KVD_EBUSY);
	assert_int_equal(kvd_keys_page(&end->session, NULL, 0, &cursor, count_key, &keys),
			 KVD_EBUSY);
	busy = 0;
	assert_int_equal(kvd_keys_page(&end->session, NULL, 0, &cursor, count_key, &keys), KVD_OK);
	assert_int_equal(keys, 2);
	assert_int_equal(cursor, 0);
	assert_null(json);
}

static void refuse(struct end *to, const struct wire_request *request)
{
	(void)request;
	end_reply(to, (struct wire_reply){ .status = busy ? WIRE_EBUSY : WIRE_OK, .bucket = ~0ull,
					   .version = 7 }, NULL, 0);
	busy -= busy != 0;
}

/* A change that kvd was too busy for is sent again, as another request: waited for and
 * submitted. */
static void test_busy_change_is_sent_again(void **state)
{
	struct kvd_completion done = { 0 };
	struct kvd_receipt receipt;
	uint64_t version;
	char tag;

	(void)state;
	kvd_session_receipt(&end->session, &receipt);
	end->answer = refuse;
	busy = 3;
	assert_int_equal(kvd_put(&end->session, KEY, strlen(KEY), "value", 5, &version), KVD_OK);
	assert_int_equal(version, 7);
	assert_int_equal(end->messages, 4);
	assert_int_equal(end->asked.value_bytes, 5);
	assert_int_equal(receipt.request, end->asked.request_id);
	busy = 2;
	assert_int_equal(kvd_submit_put(&end->session, KEY, strlen(KEY), "value", 5, &tag), KVD_OK);
	assert_int_equal(kvd_poll(&end->session, &done, 1, -1), 1);
	assert_ptr_equal(done.tag, &tag);
	assert_int_equal(done.result, KVD_OK);
	assert_int_equal(end->messages, 7);
	assert_int_equal(e->in_flight, 0);
}

static uint8_t pulled[WIRE_MESSAGE_BYTES_MAX];
static bool changes;

static void misread(struct end *to, const struct wire_request *request)
{
	(void)request;
	pulled[busy % sizeof pulled] += changes;
	end_reply(to, (struct wire_reply){ .status = busy ? WIRE_EPULL : WIRE_OK, .bucket = ~0ull,
					   .version = 7 }, NULL, 0);
	busy -= busy != 0;
}

/* A value that kvd read wrongly is sent again; one that its owner changed meanwhile is their fault. */
static void test_misread_value_is_sent_again(void **state)
{
	uint64_t version;

	(void)state;
	end->answer = misread;
	busy = 2;
	changes = false;
	assert_int_equal(kvd_put(&end->session, KEY, strlen(KEY), pulled, sizeof pulled, &version), KVD_OK);
	assert_int_equal(end->messages, 3);
	busy = 2;
	changes = true;
	assert_int_equal(kvd_put(&end->session, KEY, strlen(KEY), pulled, sizeof pulled, &version),
			 KVD_EINVAL);
	assert_int_equal(end->messages, 4);
}

/* Until there is no time left for an answer; the connection stays.  The pauses grow. */
static void test_busy_change_ends_in_time(void **state)
{
	uint64_t begun = clock_ns();

	(void)state;
	end->answer = refuse;
	busy = UINT32_MAX;
	e->time.limit_ns = 200000000;
	assert_int_equal(kvd_del(&end->session, KEY, strlen(KEY)), KVD_EBUSY);
	assert_true(clock_ns() - begun >= 60000000);
	assert_in_range(end->messages, 4, 9);
	assert_true(health_is_good(&e->health));
}

/* It had no effect, and that is known, too, where the connection breaks meanwhile. */
static void test_busy_change_and_a_broken_connection(void **state)
{
	struct kvd_completion done;
	char tag;

	(void)state;
	end->answer = refuse;
	busy = UINT32_MAX;
	end_change(end, KEY, &tag);
	assert_int_equal(session_poll_for(&end->session, 0), 0);
	assert_int_equal(end->messages, 1);
	assert_int_equal(e->in_flight, 1);
	health_fail(&e->health, KVD_ECONNECT, "gone");
	assert_int_equal(session_poll_for(&end->session, 0), 0);
	assert_true(ops_take_done(e, &done));
	assert_int_equal(done.result, KVD_ECONNECT);
	assert_int_equal(e->later_ns, 0);
}

/* Who sleeps on the session's descriptor is woken when the pause is over. */
static void test_busy_change_wakes_its_loop(void **state)
{
	struct epoll_event event;
	struct kvd_completion done;
	char tag;

	(void)state;
	e->comp->fd = eventfd(0, EFD_CLOEXEC);
	e->channel->fd = eventfd(0, EFD_CLOEXEC);
	int fd = event_fd_of(e);
	assert_true(fd >= 0);
	end->answer = refuse;
	busy = 5;
	end_change(end, KEY, &tag);
	for (unsigned sent = 1; busy; sent++) {
		assert_int_equal(kvd_poll(&end->session, &done, 1, 0), 0);
		assert_int_equal(kvd_arm(&end->session), 0);
		assert_int_equal(epoll_wait(fd, &event, 1, 5000), 1);
		assert_int_equal(end->messages, sent);
	}
	assert_int_equal(kvd_poll(&end->session, &done, 1, -1), 1);
	assert_int_equal(done.result, KVD_OK);
	assert_int_equal(kvd_arm(&end->session), 0);
	assert_int_equal(epoll_wait(fd, &event, 1, 0), 0);
	close(e->comp->fd);
	close(e->channel->fd);
	event_delete(e);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* Sessions of one client fail in two threads, and each asks why: TSan is the judge. */

static void *fail_and_ask(void *arg)
{
	static char unlike[] = "no sentence with the address";
	kvd_session *none;

	for (int i = 0; i < 20; i++) {
		int rc = kvd_session_new(arg, &none);

		if (rc >= 0 || !strstr(kvd_client_error(arg), "127.0.0.1"))
			return unlike;
	}
	return NULL;
}

static void test_two_threads_ask_why(void **state)
{
	struct kvd_options options = { .size = sizeof options, .timeout_ms = 1000 };
	kvd_client *client;
	pthread_t thread;
	void *said;

	(void)state;
	assert_int_equal(kvd_client_new("127.0.0.1:1", &options, &client), KVD_OK);
	assert_int_equal(pthread_create(&thread, NULL, fail_and_ask, client), 0);
	assert_null(fail_and_ask(client));
	assert_int_equal(pthread_join(thread, &said), 0);
	assert_null(said);
	kvd_client_delete(&client);
}

static atomic_bool is_connecting, is_over;

/* A session that connects first, to a kvd that does not answer. */
static void *connect_in_vain(void *arg)
{
	struct kvd_client *c = arg;
	uint64_t end_ns = clock_ns() + 5000000000ull;

	pthread_mutex_lock(&c->settling);
	atomic_store(&is_connecting, true);
	while (!atomic_load(&is_over) && clock_ns() < end_ns)
		sched_yield();
	pthread_mutex_unlock(&c->settling);
	return NULL;
}

/* Who comes meanwhile waits for its own time, and not for that one's and all others'. */
static void test_crowd_that_connects(void **state)
{
	pthread_t thread;

	(void)state;
	end->client.options.timeout_ms = 20;
	assert_int_equal(pthread_create(&thread, NULL, connect_in_vain, &end->client), 0);
	while (!atomic_load(&is_connecting))
		sched_yield();
	int rc = session_connect(&end->session);
	atomic_store(&is_over, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(rc, KVD_ECONNECT);
	assert_non_null(strstr(e->health.err.text, "another session"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_run_ends_with_the_connection),
		TEST(test_reply_to_another_request),
		TEST(test_second_reply),
		TEST(test_what_wakes_a_loop),
		TEST(test_poll_gives_what_a_broken_connection_ended),
		TEST(test_loop_arms_on_a_failed_completion),
		TEST(test_loop_that_cannot_be_woken),
		TEST(test_nothing_is_left_in_flight_for_the_next_connection),
		TEST(test_alone),
		TEST(test_busy_is_no_answer),
		TEST(test_busy_change_is_sent_again),
		TEST(test_misread_value_is_sent_again),
		TEST(test_busy_change_ends_in_time),
		TEST(test_busy_change_and_a_broken_connection),
		TEST(test_busy_change_wakes_its_loop),
		TEST(test_crowd_that_connects),
		cmocka_unit_test(test_two_threads_ask_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

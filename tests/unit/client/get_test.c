/* SPDX-License-Identifier: BSD-2-Clause */
/* client/get/get.h and fast.h: a whole GET, what it posts and how it ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "client/get/fast.h"
#include "client/get/get.h"
#include "client/get/lookup.h"
#include "client/op/hints.h"
#include "client/op/lockword.h"
#include "client/op/operation.h"
#include "client/op/poll.h"
#include "client/op/request.h"
#include "common/clock.h"
#include "tests/unit/client/two_groups.h"

#define TOKEN 99u

static const struct outcome *get(unsigned how, size_t room)
{
	struct op *op = op_new(e, &get_class, key, strlen(key));

	assert_int_equal(get_start(op, how, &(struct iovec){ value, room }, how != GET_ALLOCATES),
			 0);
	return end_run(end, op);
}

static void assert_value(const struct outcome *out, const void *at, size_t bytes)
{
	assert_int_equal(out->result, KVD_OK);
	assert_int_equal(out->bytes, bytes);
	assert_int_equal(out->version, ITEM_VERSION);
	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(((const uint8_t *)at)[i], "value"[i % 5]);
}

/* ---------------------------------------------------------------- one-sided */

static void test_cold_then_by_the_mirror(void **state)
{
	const struct bytes_item item = item_of(100);

	(void)state;
	store(&item);
	assert_value(get(GET_PLAIN, sizeof value), value, 100);
	assert_int_equal(end->reads, 2 + 2 + 1); /* directory, buckets, item */
	assert_value(get(GET_PLAIN, sizeof value), value, 100);
	assert_int_equal(end->reads, 5 + 1);
	assert_int_equal(e->counters.mirror_hits, 1);
	assert_int_equal(e->counters.gets, 2);
	assert_int_equal(e->counters.round_trips, 4);
	assert_int_equal(e->in_flight, 0);
}

static void test_absent(void **state)
{
	(void)state;
	assert_int_equal(get(GET_PLAIN, 100)->result, KVD_NOT_FOUND);
	assert_int_equal(end->messages, 0);
}

static void test_stale_hint(void **state)
{
	struct bytes_item item = item_of(100);

	(void)state;
	store(&item);
	get(GET_PLAIN, 100);
	item.kind = LAYOUT_DEAD;
	bytes_item(end->bytes, &item);
	item.kind = LAYOUT_LIVE;
	item.unit += 100;
	store(&item);
	assert_value(get(GET_PLAIN, 100), value, 100);
	assert_int_equal(e->counters.retries, 1);
}

static void test_buffer_too_short(void **state)
{
	const struct bytes_item item = item_of(100);

	(void)state;
	store(&item);
	const struct outcome *out = get(GET_PLAIN, 99);
	assert_int_equal(out->result, KVD_ESPACE);
	assert_int_equal(out->bytes, 100);
}

static void test_allocated(void **state)
{
	static const size_t lengths[] = { 0, 100, LONG_BYTES };

	(void)state;
	for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
		const struct bytes_item item = item_of(lengths[i]);
		store(&item);
		const struct outcome *out = get(GET_ALLOCATES, 0);
		assert_value(out, out->allocated, lengths[i]);
		assert_int_equal(out->allocated[lengths[i]], 0);
		free(out->allocated);
	}
}

static void test_long_value_in_several_reads(void **state)
{
	const struct bytes_item item = item_of(LONG_BYTES);

	(void)state;
	store(&item);
	assert_value(get(GET_PLAIN, LONG_BYTES), value, LONG_BYTES);
	assert_int_equal(end->reads, 4 + 3); /* of message_bytes_max */
	const struct outcome *out = get(GET_PLAIN, 1000);
	assert_int_equal(out->result, KVD_ESPACE);
	assert_int_equal(out->bytes, LONG_BYTES);
	e->message_bytes_max = 256; /* more of them than the send queue has room for */
	memset(value, 0, sizeof value);
	assert_value(get(GET_PLAIN, LONG_BYTES), value, LONG_BYTES);
}

static void test_value_into_a_registered_buffer(void **state)
{
	const struct bytes_item item = item_of(2000);

	(void)state;
	store(&item);
	assert_int_equal(buffers_add(e->registrar.buffers, e->registrar.verbs, (uintptr_t)value,
				     sizeof value), 0);
	assert_value(get(GET_PLAIN, sizeof value), value, 2000);
	assert_ptr_equal(end->read_to, value);
	struct iovec to = { value, sizeof value };
	struct got got;
	struct op *op;
	int rc;
	assert_int_equal(fast_get(e, key, strlen(key), &to, &got, &op, &rc), FAST_NOT);
	buffers_remove(e->registrar.buffers, e->registrar.verbs, (uintptr_t)value);
}

static void test_too_many_pieces(void **state)
{
	static const struct iovec iov[KVD_IOV_MAX + 1];
	struct op *op = op_new(e, &get_class, key, strlen(key));

	(void)state;
	assert_int_equal(get_start(op, GET_PLAIN, iov, KVD_IOV_MAX + 1), KVD_EINVAL);
	assert_int_equal(e->in_flight, 0);
}

/* ----------------------------------------------------------------- messages */

static struct wire_reply reply;
static size_t payload_bytes;

static void answer(struct end *to, const struct wire_request *request)
{
	static uint8_t payload[1000];

	for (size_t i = 0; i < payload_bytes; i++)
		payload[i] = (uint8_t) "value"[i % 5];
	(void)request;
	end_reply(to, reply, payload, payload_bytes);
}

static const struct outcome *ask(struct wire_reply with, size_t bytes, unsigned how, size_t room)
{
	e->get = KVD_GET_MESSAGE;
	end->answer = answer;
	reply = with;
	payload_bytes = bytes;
	return get(how, room);
}

static void test_kvd_answers(void **state)
{
	(void)state;
	assert_value(ask((struct wire_reply){ .version = ITEM_VERSION, .value_bytes = 100 }, 100,
			 GET_PLAIN, 100),
		     value, 100);
	const struct outcome *out =
		ask((struct wire_reply){ .version = ITEM_VERSION, .value_bytes = 50 }, 50,
		    GET_ALLOCATES, 0);
	assert_value(out, out->allocated, 50);
	free(out->allocated);
	assert_int_equal(end->messages, 2);
	assert_int_equal(end->reads, 0);
	assert_int_equal(
		ask((struct wire_reply){ .status = WIRE_NOT_FOUND }, 0, GET_PLAIN, 10)->result,
		KVD_NOT_FOUND);
	assert_int_equal(
		ask((struct wire_reply){ .status = WIRE_EDENIED }, 0, GET_PLAIN, 10)->result,
		KVD_EDENIED);
	assert_int_equal(ask((struct wire_reply){ .value_bytes = 100 }, 90, GET_PLAIN, 100)->result,
			 KVD_EPROTOCOL);
	assert_string_equal(e->health.err.text, "kvd answered with another length than it sent "
						"(key of 5 bytes, kvd at here)");
}

static void test_kvd_answers_with_the_head(void **state)
{
	(void)state;
	const struct outcome *out =
		ask((struct wire_reply){ .version = ITEM_VERSION, .value_bytes = 100 }, 0,
		    GET_PLAIN, 0);
	assert_int_equal(end->asked.flags, WIRE_HEAD);
	assert_int_equal(out->result, KVD_ESPACE);
	assert_int_equal(out->bytes, 100);
	assert_int_equal(
		ask((struct wire_reply){ .version = ITEM_VERSION }, 0, GET_PLAIN, 0)->result,
		KVD_OK);
}

static void test_kvd_pins_it(void **state)
{
	struct bytes_item item = item_of(LONG_BYTES);

	(void)state;
	item.kind = LAYOUT_DEAD; /* it was replaced since */
	uint64_t word = bytes_item(end->bytes, &item);
	assert_value(ask((struct wire_reply){ .flags = WIRE_PINNED, .version = ITEM_VERSION,
					      .word = word },
			 0, GET_PLAIN, LONG_BYTES),
		     value, LONG_BYTES);
	assert_int_equal(end->messages, 2);
	assert_int_equal(end->asked.op, WIRE_RELEASE);
	assert_int_equal(end->asked.version, ITEM_VERSION);
}

static unsigned lost; /* of the next items that kvd pins */

/* Its memory was used again before it was READ. */
static void answer_lost(struct end *to, const struct wire_request *request)
{
	struct bytes_item item = item_of(LONG_BYTES);
	struct wire_reply pinned = { .flags = WIRE_PINNED, .version = ITEM_VERSION };

	if (request->op != WIRE_GET)
		pinned = (struct wire_reply){ .status = WIRE_OK };
	else if (lost && lost--)
		item.version++;
	item.kind = LAYOUT_DEAD;
	pinned.word = bytes_item(to->bytes, &item);
	end_reply(to, pinned, NULL, 0);
}

static void test_pinned_item_that_is_lost(void **state)
{
	(void)state;
	e->get = KVD_GET_MESSAGE;
	end->answer = answer_lost;
	lost = 3;
	assert_value(get(GET_PLAIN, LONG_BYTES), value, LONG_BYTES);
	lost = ~0u; /* there is an end to it */
	assert_int_equal(get(GET_PLAIN, LONG_BYTES)->result, KVD_EBUSY);
	assert_non_null(strstr(e->health.err.text, "replaced each time before it is READ"));
}

static void test_item_of_a_worker_that_is_none(void **state)
{
	struct bytes_item item = item_of(100);

	(void)state;
	item.kind = LAYOUT_PREPARED;
	item.worker = BYTES_WORKERS;
	store(&item);
	end->answer = answer;
	reply = (struct wire_reply){ .status = WIRE_NOT_FOUND };
	payload_bytes = 0;
	assert_int_equal(get(GET_PLAIN, 100)->result, KVD_NOT_FOUND);
	assert_int_equal(end->asked.op, WIRE_GET); /* after many READs of it */
	assert_int_equal(e->counters.fallbacks, 1);
	assert_true(end->reads > 500);
}

static void test_entry_that_names_no_item(void **state)
{
	struct hash h = hash_key(e->table.welcome.hash_seed, key, strlen(key));
	const uint64_t fp = layout_fp(h.a, e->table.unit_mask);

	(void)state;
	end->answer = answer;
	reply = (struct wire_reply){ .status = WIRE_NOT_FOUND };
	payload_bytes = 0;
	bytes_enter(end->bytes, layout_bucket_of(h.a, 0), 3,
		    layout_word(UNIT, (1u << LAYOUT_LEN_BITS) - 1, fp)); /* longer than any */
	assert_int_equal(get(GET_PLAIN, 100)->result, KVD_NOT_FOUND);
	assert_int_equal(end->asked.op, WIRE_GET);
}

/* The holder of a lock READs all the same: nobody else can change it. */
static void test_locked_is_one_sided(void **state)
{
	const struct bytes_item item = item_of(100);

	(void)state;
	store(&item);
	e->get = KVD_GET_MESSAGE;
	assert_value(get(GET_LOCKED, 100), value, 100);
	assert_int_equal(end->messages, 0);
}

static void test_hints(void **state)
{
	const struct bytes_item item = item_of(100);

	(void)state;
	e->table.welcome.hints_every = 1;
	e->table.welcome.connection_id = 5;
	hints_begin(e);
	end->answer = answer;
	reply = (struct wire_reply){ .status = WIRE_OK };
	payload_bytes = 0;
	store(&item);
	for (unsigned i = 0; i < 2 * WIRE_HINTS_MAX && !end->messages; i++)
		get(GET_PLAIN, 100);
	assert_int_equal(end->asked.op, WIRE_HINTS);
	assert_int_equal(end->asked.value_bytes, sizeof(uint32_t)); /* one place, told once */
	engine_take(e);
	assert_int_equal(e->in_flight, 0); /* its end freed it */
}

/* ------------------------------------------------------------------ failures */

static void test_broken_connection(void **state)
{
	const struct bytes_item item = item_of(100);

	(void)state;
	store(&item);
	end->status = IBV_WC_RETRY_EXC_ERR;
	assert_int_equal(get(GET_PLAIN, 100)->result, KVD_ECONNECT);
	assert_true(e->health.broken);
	assert_int_equal(e->in_flight, 0);
}

static void test_change_whose_answer_is_lost(void **state)
{
	struct op *op = op_new(e, &change_class, key, strlen(key));

	(void)state;
	request_start(op, &(struct wire_request){ .op = WIRE_DELETE }, NULL, 0);
	struct op *other = op_new(e, &get_class, key, strlen(key));
	end->status = IBV_WC_RETRY_EXC_ERR;
	get_start(other, GET_PLAIN, &(struct iovec){ value, 100 }, 1);
	assert_int_equal(end_run(end, op)->result, KVD_EUNKNOWN);
	assert_int_equal(op_outcome(other)->result, KVD_ECONNECT);
	assert_int_equal(e->counters.changes, 1);
}

/* Nobody waits for an unlock; the end of its connection is its own. */
static void test_unlock_on_a_broken_connection(void **state)
{
	(void)state;
	end->words[3] = TOKEN;
	end->delay = 1;
	e->table.welcome.lock_rkey = 1;
	stripe_release(e, 3, TOKEN);
	assert_int_equal(end->words[3], 0);
	assert_int_equal(ops_detached(e), 1);
	health_fail(&e->health, KVD_ECONNECT, "gone");
	ops_abort(e);
	assert_int_equal(e->in_flight, 0);
	assert_null(e->done);
}

/* -------------------------------------------------------------- the short way */

static enum fast fast(size_t room, struct got *got, struct op **op, int *rc)
{
	return fast_get(e, key, strlen(key), &(struct iovec){ value, room }, got, op, rc);
}

static void test_fast(void **state)
{
	const struct bytes_item item = item_of(100);
	struct got got;
	struct op *op;
	int rc;

	(void)state;
	store(&item);
	assert_int_equal(fast(100, &got, &op, &rc), FAST_NOT); /* the mirror knows nothing */
	get(GET_PLAIN, 100);
	memset(value, 0, sizeof value);
	assert_int_equal(fast(100, &got, &op, &rc), FAST_DONE);
	assert_int_equal(rc, KVD_OK);
	assert_int_equal(got.bytes, 100);
	assert_int_equal(got.version, ITEM_VERSION);
	assert_memory_equal(value, "valuevalue", 10);
	assert_int_equal(fast(99, &got, &op, &rc), FAST_DONE);
	assert_int_equal(rc, KVD_ESPACE);
	assert_int_equal(got.bytes, 100);
	end->client.options.poll = KVD_POLL_EVENT;
	assert_int_equal(fast(100, &got, &op, &rc), FAST_NOT);
	end->client.options.poll = 0;
	e->get = KVD_GET_MESSAGE;
	assert_int_equal(fast(100, &got, &op, &rc), FAST_NOT);
}

static void test_fast_goes_on_as_an_operation(void **state)
{
	struct bytes_item item = item_of(100);
	struct got got;
	struct op *op;
	int rc;

	(void)state;
	store(&item);
	get(GET_PLAIN, 100);
	end->delay = 300; /* longer than it waits */
	assert_int_equal(fast(100, &got, &op, &rc), FAST_BEGUN);
	assert_value(end_run(end, op), value, 100);
	item.kind = LAYOUT_DELETED; /* complete, but no live item */
	bytes_item(end->bytes, &item);
	assert_int_equal(fast(100, &got, &op, &rc), FAST_BEGUN);
	assert_int_equal(end_run(end, op)->result, KVD_NOT_FOUND);
	assert_int_equal(e->in_flight, 0);
}

/* What ends as it goes on is not given to kvd_poll(), too. */
static void test_fast_ends_as_it_goes_on(void **state)
{
	struct bytes_item item = item_of(100);
	struct kvd_completion c;
	struct got got;
	struct op *op;
	int rc;

	(void)state;
	store(&item);
	get(GET_PLAIN, 100);
	item.kind = LAYOUT_INSERTING;
	bytes_item(end->bytes, &item);
	assert_int_equal(fast(100, &got, &op, &rc), FAST_BEGUN);
	assert_int_equal(engine_await(e, op, NULL), 0);
	assert_int_equal(op_outcome(op)->result, KVD_NOT_FOUND);
	op_free(op);
	assert_false(ops_take_done(e, &c));
	assert_int_equal(e->in_flight, 0);
}

static void test_fast_with_an_expiry(void **state)
{
	struct bytes_item item = item_of(100);
	const uint64_t now_ms = clock_ns() / 1000000;
	struct got got;
	struct op *op;
	int rc;

	(void)state;
	item.expiry_ms = now_ms + 100000;
	store(&item);
	clock_learn(&e->table.clock, now_ms, clock_ns(), clock_ns());
	assert_value(get(GET_PLAIN, 100), value, 100);
	assert_int_equal(fast(100, &got, &op, &rc), FAST_DONE);
	e->table.clock.known = false; /* it can't be told: the ordinary way asks */
	assert_int_equal(fast(100, &got, &op, &rc), FAST_NOT);
}

static uint64_t *word; /* of the key's lock */

static enum fast fast_lock(struct fast_lock *f)
{
	const struct wire_welcome *w = &e->table.welcome;
	const struct hash hash = hash_key(w->hash_seed, key, strlen(key));

	word = &end->words[layout_stripe(hash.b, w->stripes)];
	return fast_lock_get(e, key, strlen(key), hash, TOKEN, &(struct iovec){ value, 100 }, f);
}

static void test_fast_behind_a_lock(void **state)
{
	struct bytes_item item = item_of(100);
	struct fast_lock f;

	(void)state;
	store(&item);
	assert_int_equal(fast_lock(&f), FAST_NOT);
	get(GET_PLAIN, 100);
	assert_int_equal(fast_lock(&f), FAST_DONE);
	assert_true(f.won && f.has_value);
	assert_int_equal(f.result, KVD_OK);
	assert_int_equal(f.got.bytes, 100);
	assert_int_equal(*word, TOKEN);
	assert_int_equal(fast_lock(&f), FAST_DONE); /* somebody has it now */
	assert_false(f.won || f.has_value);
	*word = 0;
	((struct layout_item *)(void *)(end->bytes->base + UNIT * LAYOUT_UNIT_BYTES))->state |=
		LAYOUT_PENDING;
	assert_int_equal(fast_lock(&f), FAST_DONE); /* a change is under way */
	assert_true(f.won);
	assert_false(f.has_value);
}

static void test_fast_behind_a_lock_goes_on(void **state)
{
	const struct bytes_item item = item_of(100);
	struct fast_lock f;

	(void)state;
	store(&item);
	get(GET_PLAIN, 100);
	end->delay = 300;
	assert_int_equal(fast_lock(&f), FAST_BEGUN);
	end->delay = 0; /* nothing wakes who sleeps */
	assert_int_equal(engine_await(e, f.cas, f.read), 0);
	assert_true(stripe_was_free(f.cas));
	assert_value(op_outcome(f.read), value, 100);
	op_free(f.cas);
	op_free(f.read);
	assert_int_equal(e->in_flight, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_cold_then_by_the_mirror),
		TEST(test_absent),
		TEST(test_stale_hint),
		TEST(test_buffer_too_short),
		TEST(test_allocated),
		TEST(test_long_value_in_several_reads),
		TEST(test_value_into_a_registered_buffer),
		TEST(test_too_many_pieces),
		TEST(test_item_of_a_worker_that_is_none),
		TEST(test_kvd_answers),
		TEST(test_kvd_answers_with_the_head),
		TEST(test_kvd_pins_it),
		TEST(test_pinned_item_that_is_lost),
		TEST(test_entry_that_names_no_item),
		TEST(test_locked_is_one_sided),
		TEST(test_hints),
		TEST(test_broken_connection),
		TEST(test_change_whose_answer_is_lost),
		TEST(test_unlock_on_a_broken_connection),
		TEST(test_fast),
		TEST(test_fast_goes_on_as_an_operation),
		TEST(test_fast_ends_as_it_goes_on),
		TEST(test_fast_with_an_expiry),
		TEST(test_fast_behind_a_lock),
		TEST(test_fast_behind_a_lock_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

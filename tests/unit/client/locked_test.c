/* SPDX-License-Identifier: BSD-2-Clause */
/* client/api/lock.c and locked.c: what is read and changed under a lock, and what becomes of both where the
 * connection is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "common/hash.h"
#include "tests/unit/client/dial.h"
#include "tests/unit/client/set_clock.h"

#define KEY "a"
#define OTHER 0x990000u

static struct kvd_session *s;
static struct engine *e;
static kvd_lock_t *lock;
static const struct kvd_key key = { KEY, 1 };

static struct wire_reply fate;
static bool breaks; /* the next change */
static bool breaks_behind; /* what is READ after the next lock */
static unsigned confirmed; /* what a primary says of whether a lock counts */
static unsigned changes, fates, locks;
static struct wire_request put, wait;

static bool has_broken(void)
{
	if (!breaks)
		return false;
	breaks = false;
	health_fail(&e->health, KVD_ECONNECT, "it broke");
	return true;
}

static void answer(struct end *end, const struct wire_request *q)
{
	switch (q->op) {
	case WIRE_FATE:
		fates++;
		end_reply(end, fate, NULL, 0);
		break;
	case WIRE_PUT:
		changes++;
		put = *q;
		if (!has_broken())
			end_reply(end, (struct wire_reply){ .bucket = ~0ull, .version = 31 }, NULL, 0);
		break;
	case WIRE_RELEASE:
		end_reply(end, (struct wire_reply){ .status = (uint8_t)confirmed, .bucket = ~0ull }, NULL, 0);
		break;
	case WIRE_LOCK:
		locks++;
		wait = *q;
		if (breaks_behind)
			end->status = IBV_WC_RETRY_EXC_ERR;
		end_reply(end, (struct wire_reply){ .bucket = ~0ull }, NULL, 0);
		break;
	default:
		end_reply(end, (struct wire_reply){ .bucket = ~0ull }, NULL, 0);
	}
}

/* A value is stored, or isn't. */
static void store(bool is_there)
{
	const struct bytes_item item = { .unit = 20000, .key = KEY, .value = "abc", .value_bytes = 3,
					 .kind = LAYOUT_LIVE, .version = 9 };
	const struct hash h = hash_key(1, KEY, 1);

	mirror_clear(e->table.mirror);
	bytes_enter(dial.end->bytes, layout_bucket_of(h.a, 0), 3,
		    is_there ? bytes_item(dial.end->bytes, &item) : 0);
}

static int set_up(void **state)
{
	(void)state;
	set_clock();
	s = dial_session();
	e = dial.end->engine;
	for (unsigned i = 0; i < DIAL_PLACES; i++)
		dial.place[i].welcome.lock_rkey = 1;
	dial_connect(answer);
	breaks = breaks_behind = false;
	changes = fates = locks = 0;
	confirmed = WIRE_OK;
	store(true);
	fate = (struct wire_reply){ .word = WIRE_OK, .version = 12 };
	lock = NULL;
	return 0;
}

static int tear_down(void **state)
{
	kvd_unlock(&lock);
	return dial_tear_down(state);
}

static uint64_t *word(void)
{
	return &dial.end->words[layout_stripe(hash_key(1, KEY, 1).b, BYTES_STRIPES)];
}

static void take(void)
{
	assert_int_equal(kvd_lock(s, &key, 1, 0, &lock), KVD_OK);
	assert_true(*word());
}

static void must_say(const char *text)
{
	assert_string_equal(kvd_session_error(s), text);
}

/* --------------------------------------------------------------------------- under a lock */

static void test_get(void **state)
{
	char value[3];
	size_t bytes = 0;
	uint64_t version = 0;

	(void)state;
	take();
	assert_int_equal(kvd_locked_get(lock, KEY, 1, value, 3, &bytes, &version), KVD_OK);
	assert_memory_equal(value, "abc", 3);
	assert_int_equal(bytes, 3);
	assert_int_equal(version, 9);
	assert_int_equal(kvd_locked_get(lock, KEY, 1, value, 3, &bytes, NULL), KVD_OK);
	bytes = 0;
	version = 5;
	assert_int_equal(kvd_locked_get(lock, KEY, 1, value, 2, &bytes, &version), KVD_ESPACE);
	assert_int_equal(bytes, 3);
	assert_int_equal(version, 5);
	store(false);
	bytes = 7;
	assert_int_equal(kvd_locked_get(lock, KEY, 1, value, 3, &bytes, &version), KVD_NOT_FOUND);
	assert_int_equal(bytes, 7);
	assert_int_equal(version, 5);
}

static void test_put(void **state)
{
	uint64_t version = 0;

	(void)state;
	take();
	assert_int_equal(kvd_locked_put(lock, KEY, 1, "v", 1, &version), KVD_OK);
	assert_int_equal(version, 31);
	assert_int_equal(put.token, *word());
	assert_int_equal(kvd_locked_put(lock, KEY, 1, "v", 1, NULL), KVD_OK);
	assert_int_equal(changes, 2);
	assert_int_equal(fates, 0);
	assert_int_equal(kvd_unlock(&lock), KVD_OK);
	assert_null(lock);
	assert_int_equal(*word(), 0);
}

/* ------------------------------------------------------------------------------- it is lost */

static void test_get_is_lost(void **state)
{
	char value[3];
	size_t bytes;

	(void)state;
	take();
	dial.end->status = IBV_WC_RETRY_EXC_ERR;
	assert_int_equal(kvd_locked_get(lock, KEY, 1, value, 3, &bytes, NULL), KVD_ELOST);
	assert_non_null(strstr(kvd_session_error(s), "the lock was lost with its connection, and nothing "
						     "was done: the connection to 127.0.0.1:7000 broke"));
	assert_int_equal(kvd_unlock(&lock), KVD_ELOST);
	assert_null(lock);
}

/* kvd says what became of the change. */
static void test_put_is_lost(void **state)
{
	static const struct {
		struct wire_reply fate;
		int result;
		const char *text;
	} cases[] = {
		{ { .word = WIRE_OK, .version = 12 }, KVD_OK, NULL },
		{ { .word = WIRE_CONDITION, .version = 13 }, KVD_CONDITION, NULL },
		{ { .status = WIRE_NOT_FOUND }, KVD_ELOST,
		  "the lock was lost with its connection, and nothing was done: it broke" },
		{ { .status = WIRE_EUNSUPPORTED }, KVD_EUNKNOWN, "it broke" },
	};

	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		uint64_t version = 0;

		take();
		breaks = true;
		fate = cases[i].fate;
		assert_int_equal(kvd_locked_put(lock, KEY, 1, "v", 1, &version), cases[i].result);
		assert_int_equal(version, cases[i].result ? 0 : 12);
		assert_int_equal(fates, 1);
		assert_int_equal(changes, 1);
		if (cases[i].text)
			must_say(cases[i].text);
		tear_down(state);
		set_up(state);
	}
}

/* ------------------------------------------------------------------------- taken and read */

static int take_and_get(int timeout_ms, size_t room, size_t *bytes, uint64_t *version)
{
	static char value[8];

	return kvd_lock_get(s, KEY, 1, timeout_ms, value, room, bytes, version, &lock);
}

static void test_lock_and_get(void **state)
{
	size_t bytes = 0;
	uint64_t version = 0;

	(void)state;
	assert_int_equal(take_and_get(0, 3, &bytes, &version), KVD_OK);
	assert_non_null(lock);
	assert_true(*word());
	assert_int_equal(bytes, 3);
	assert_int_equal(version, 9);
	kvd_unlock(&lock);
	bytes = 0;
	version = 5;
	assert_int_equal(take_and_get(0, 2, &bytes, &version), KVD_ESPACE);
	assert_non_null(lock);
	assert_int_equal(bytes, 3);
	assert_int_equal(version, 5);
	kvd_unlock(&lock);
	store(false);
	bytes = 7;
	assert_int_equal(take_and_get(0, 3, &bytes, &version), KVD_NOT_FOUND);
	assert_non_null(lock);
	assert_int_equal(bytes, 7);
	kvd_unlock(&lock);
}

/* Somebody holds it: kvd is asked, for as long as the caller waits; then it is READ. */
static void test_held_by_another(void **state)
{
	size_t bytes = 0;
	uint64_t version = 0;

	(void)state;
	*word() = OTHER;
	assert_int_equal(take_and_get(0, 3, &bytes, &version), KVD_EBUSY);
	must_say("somebody else holds the lock");
	assert_null(lock);
	assert_int_equal(locks, 0);
	assert_int_equal(e->held.page[0].token, 0);
	assert_int_equal(take_and_get(1234, 3, &bytes, &version), KVD_OK);
	assert_non_null(lock);
	assert_int_equal(locks, 1);
	assert_in_range(wait.ttl_ms, 1, 1234);
	assert_int_equal(wait.token, e->held.page[0].token);
	assert_int_equal(bytes, 3);
	assert_int_equal(version, 9);
	assert_int_equal(e->held.count, 1);
}

/* It is had, and the connection breaks as the value is READ: it is lost, and there is nothing to unlock. */
static void test_lost_as_it_is_had(void **state)
{
	size_t bytes = 7;

	(void)state;
	*word() = OTHER;
	breaks_behind = true;
	assert_int_equal(take_and_get(1234, 3, &bytes, NULL), KVD_ELOST);
	must_say("the lock was lost with its connection, and nothing was done: the connection to 127.0.0.1:7000 "
		 "broke: transport retry counter exceeded (vendor error 0x0)");
	assert_null(lock);
	assert_int_equal(locks, 1);
	assert_int_equal(bytes, 7);
}

/* ---------------------------------------------------------------------------------- many */

static uint64_t *word_of(const struct kvd_key *of)
{
	return &dial.end->words[layout_stripe(hash_key(1, of->data, of->bytes).b, BYTES_STRIPES)];
}

/* Whichever is named first, the lower stripe is taken first, and given back if the other one is not had. */
static void test_in_order(void **state)
{
	char other = 'b';
	struct kvd_key keys[2] = { key, { &other, 1 } };
	uint64_t ns;

	(void)state;
	while (word_of(&keys[1]) == word())
		other++;
	for (unsigned turned = 0; turned < 2; turned++) {
		const struct kvd_key named[2] = { keys[turned], keys[!turned] };
		uint64_t *low = word_of(&keys[0]), *high = word_of(&keys[1]);
		if (low > high) {
			low = word_of(&keys[1]);
			high = word_of(&keys[0]);
		}
		uint64_t swaps = e->counters.atomics;
		*low = OTHER;
		assert_int_equal(kvd_lock(s, named, 2, 0, &lock), KVD_EBUSY);
		assert_null(lock);
		assert_int_equal(e->counters.atomics, swaps + 1);
		*low = 0;
		*high = OTHER;
		assert_int_equal(kvd_lock(s, named, 2, 0, &lock), KVD_EBUSY);
		assert_null(lock);
		assert_int_equal(kvd_ping(s, &ns), KVD_OK);
		assert_int_equal(*low, 0);
		assert_int_equal(*high, OTHER);
		assert_int_equal(e->held.count, 0);
		assert_int_equal(e->held.page[0].token, 0);
		*high = 0;
	}
}

/* A session has as many locks as its page has room for. */
static void test_most(void **state)
{
	uint64_t ns;

	(void)state;
	for (unsigned i = 0; i < LAYOUT_HELD_MAX; i++)
		e->held.stripe[i] = BYTES_STRIPES + i;
	e->held.count = LAYOUT_HELD_MAX;
	assert_int_equal(kvd_lock(s, &key, 1, 0, &lock), KVD_EINVAL);
	must_say("this session holds the lock of one of the keys already (keys share locks), or 64 locks");
	assert_null(lock);
	assert_int_equal(*word(), 0);
	e->held.count--;
	take();
	assert_int_equal(e->held.count, LAYOUT_HELD_MAX);
	kvd_unlock(&lock);
	assert_int_equal(kvd_ping(s, &ns), KVD_OK);
	assert_int_equal(e->held.count, LAYOUT_HELD_MAX - 1);
	e->held.count = 0;
}

/* ------------------------------------------------------------------------------ a cluster */

static void be_in_a_cluster(void)
{
	dial_as_cluster();
	dial.hello.lease_ms = 1000;
	for (unsigned i = 0; i < DIAL_PLACES; i++) {
		dial.place[i].where = "127.0.0.1:7001\n127.0.0.1:7000\n";
		dial.place[i].welcome.reign = i == 1 ? 4 : 0;
	}
	health_fail(&e->health, KVD_ECONNECT, "gone");
	dial_forget();
}

/* The word was free, but the primary has no lease: it is given back, or nobody else had it again. */
static void test_does_not_count(void **state)
{
	size_t bytes;
	uint64_t ns;

	(void)state;
	e->reign = 3;
	grant_begin(&e->table.grant, 3);
	take();
	assert_int_equal(kvd_unlock(&lock), KVD_OK);
	for (unsigned gets = 0; gets < 2; gets++) {
		confirmed = WIRE_EBUSY;
		assert_int_equal(gets ? take_and_get(0, 3, &bytes, NULL) : kvd_lock(s, &key, 1, 0, &lock),
				 KVD_EBUSY);
		must_say("the primary at 127.0.0.1:7000 does not reach its backups: it gives no locks");
		assert_null(lock);
		assert_int_equal(locks, 0);
		assert_int_equal(kvd_ping(s, &ns), KVD_OK); /* what gives it back is through */
		assert_int_equal(*word(), 0);
		assert_int_equal(e->held.page[0].token, 0);
		assert_int_equal(e->held.count, 0);
		assert_int_equal(e->in_flight, 0);
	}
}

/* A member that does not serve gives no locks: the call goes on with the primary. */
static void test_goes_on(void **state)
{
	size_t bytes;

	(void)state;
	be_in_a_cluster();
	take();
	assert_int_equal(e->reign, 4);
	assert_int_equal(kvd_unlock(&lock), KVD_OK);
	tear_down(NULL);
	set_up(NULL);
	be_in_a_cluster();
	assert_int_equal(take_and_get(0, 3, &bytes, NULL), KVD_OK);
	assert_int_equal(e->reign, 4);
}

static struct rdma_event_channel *(*create_channel)(void);

static struct rdma_event_channel *create_and_mend(void)
{
	dial.end->status = IBV_WC_SUCCESS;
	*word() = 0; /* it went with the connection */
	breaks_behind = false;
	return create_channel();
}

/* A lock that is lost as its value is READ is taken again, of the primary. */
static void test_lost_and_had_again(void **state)
{
	size_t bytes = 0;

	(void)state;
	be_in_a_cluster();
	take();
	assert_int_equal(kvd_unlock(&lock), KVD_OK);
	create_channel = dial.verbs.create_event_channel;
	dial.verbs.create_event_channel = create_and_mend;
	*word() = OTHER;
	breaks_behind = true;
	assert_int_equal(take_and_get(1234, 3, &bytes, NULL), KVD_OK);
	assert_int_equal(locks, 1);
	assert_int_equal(bytes, 3);
	assert_non_null(lock);
	assert_true(*word());
}

/* Not for ever: as long as a call may take, or as the caller waits, if that is longer. */
static void must_give_up(int timeout_ms, uint64_t least_ms, uint64_t most_ms)
{
	dial.end->client.options.timeout_ms = 300;
	e->time.limit_ns = 300 * SET_MS;
	be_in_a_cluster();
	dial.place[1].welcome.reign = 0;
	uint64_t begun_ns = set_ns;
	assert_int_equal(kvd_lock(s, &key, 1, timeout_ms, &lock), KVD_ECONNECT);
	assert_null(lock);
	assert_in_range(set_ns - begun_ns, least_ms * SET_MS, most_ms * SET_MS);
	tear_down(NULL);
	set_up(NULL);
}

static void test_gives_up(void **state)
{
	(void)state;
	must_give_up(0, 300, 900);
	must_give_up(-1, 300, 900);
	must_give_up(2000, 2000, 2600);
	/* Of no cluster it ends with the connection. */
	dial.place[0].is_dead = true;
	e->time.limit_ns = 100 * SET_MS;
	health_fail(&e->health, KVD_ECONNECT, "gone");
	uint64_t begun_ns = set_ns;
	assert_int_equal(kvd_lock(s, &key, 1, 2000, &lock), KVD_ECONNECT);
	assert_in_range(set_ns - begun_ns, 20 * SET_MS, 110 * SET_MS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_get),
		TEST(test_put),
		TEST(test_get_is_lost),
		TEST(test_put_is_lost),
		TEST(test_lock_and_get),
		TEST(test_held_by_another),
		TEST(test_lost_as_it_is_had),
		TEST(test_in_order),
		TEST(test_most),
		TEST(test_does_not_count),
		TEST(test_goes_on),
		TEST(test_lost_and_had_again),
		TEST(test_gives_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

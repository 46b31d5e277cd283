/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli's window over a <kvd.h> that answers as a test says: what it asks for, what of the answers it tells,
 * and what it does where kvd is too busy, a value has no room or the session is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "client/cli/session/session.h"
#include "client/cli/session/window.h"
#include "client/kvd.h"

#define SLOTS 32
#define ROOM_MIN 4096u
#define ROOM_MAX (1u << 20)
#define PUTS_MAX (64u << 20)

struct kvd_client { char text[16]; };
struct kvd_session { char text[16]; };

static struct {
	struct kvd_completion answers[2 * SLOTS]; /* of the operations in their order */
	void *tags[4 * SLOTS];
	void *rooms[4 * SLOTS];                   /* of GETs */
	size_t room_bytes[4 * SLOTS];
	unsigned submitted, answered, in_flight;
	unsigned exists, sessions;
	int poll_rc, submit_rc, exists_rc, connect_rc; /* what fails, or is false */
	unsigned polls, poll_at;                       /* the one that poll_rc is of, from 1 on */
	unsigned busy;                                 /* times that kvd_submit_*() is refused */
	size_t key_bytes, exists_bytes;
	struct kvd_change change;
	const char *error;
} kvd;
static bool no_memory;
static int blocks; /* of memory that somebody has */

#define WRAPPED(type, name, ...) type __real_##name(__VA_ARGS__); type __wrap_##name(__VA_ARGS__)
WRAPPED(void *, malloc, size_t bytes);
WRAPPED(void *, calloc, size_t n, size_t bytes);
WRAPPED(void *, realloc, void *at, size_t bytes);
WRAPPED(char *, strdup, const char *text);
WRAPPED(void, free, void *at);

/* More than there ever is, AddressSanitizer would not take for a question. */
void *__wrap_malloc(size_t bytes)
{
	void *at = bytes > PTRDIFF_MAX / 2 ? NULL : __real_malloc(bytes);

	blocks += at != NULL;
	return at;
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	blocks++;
	return __real_calloc(n, bytes);
}

void *__wrap_realloc(void *at, size_t bytes)
{
	if (no_memory)
		return NULL;
	blocks += at == NULL;
	return __real_realloc(at, bytes);
}

char *__wrap_strdup(const char *text)
{
	blocks++;
	return __real_strdup(text);
}

void __wrap_free(void *at)
{
	blocks -= at != NULL;
	__real_free(at);
}

const char *kvd_strerror(int result)
{
	return result == KVD_ENOMEM ? "no memory" : result == KVD_ECONNECT ? "no connection" : "of this kind";
}

int kvd_client_new(const char *server, const struct kvd_options *options, kvd_client **client)
{
	(void)server, (void)options;
	*client = calloc(1, sizeof **client);
	strcpy((*client)->text, "nobody there");
	return kvd.connect_rc;
}

void kvd_client_delete(kvd_client **client)
{
	free(*client);
	*client = NULL;
}

const char *kvd_client_error(const kvd_client *client)
{
	return client->text;
}

int kvd_session_new(kvd_client *client, kvd_session **session)
{
	(void)client;
	*session = calloc(1, sizeof **session);
	kvd.sessions++;
	return KVD_OK;
}

/* What is in flight is gone with it. */
void kvd_session_delete(kvd_session **session)
{
	kvd.sessions -= *session != NULL;
	kvd.submitted -= *session ? kvd.in_flight : 0;
	kvd.in_flight = *session ? 0 : kvd.in_flight;
	free(*session);
	*session = NULL;
}

const char *kvd_session_error(const kvd_session *session)
{
	(void)session;
	return kvd.error;
}

int kvd_exists(kvd_session *session, const void *key, size_t key_bytes, size_t *value_bytes)
{
	(void)session, (void)key, (void)key_bytes;
	assert_int_equal(kvd.in_flight, 0);
	kvd.exists++;
	*value_bytes = kvd.exists_bytes;
	return kvd.exists_rc;
}

static int submit(size_t key_bytes, void *room, size_t room_bytes, void *tag)
{
	kvd.key_bytes = key_bytes;
	if (kvd.busy) {
		kvd.busy--;
		return KVD_EBUSY;
	}
	if (kvd.submit_rc)
		return kvd.submit_rc;
	assert_true(kvd.submitted < 4 * SLOTS);
	kvd.rooms[kvd.submitted] = room;
	kvd.room_bytes[kvd.submitted] = room_bytes;
	kvd.tags[kvd.submitted++] = tag;
	kvd.in_flight++;
	return KVD_OK;
}

int kvd_submit_get(kvd_session *session, const void *key, size_t key_bytes, void *value,
		   size_t value_bytes_max, void *tag)
{
	(void)session, (void)key;
	return submit(key_bytes, value, value_bytes_max, tag);
}

int kvd_submit_put_with(kvd_session *session, const void *key, size_t key_bytes, const void *value,
			size_t value_bytes, const struct kvd_change *change, void *tag)
{
	(void)session, (void)key, (void)value, (void)value_bytes;
	kvd.change = *change;
	return submit(key_bytes, NULL, 0, tag);
}

int kvd_submit_del(kvd_session *session, const void *key, size_t key_bytes, void *tag)
{
	(void)session, (void)key;
	return submit(key_bytes, NULL, 0, tag);
}

/* The oldest one; a value is its number's letter. */
int kvd_poll(kvd_session *session, struct kvd_completion *completions, int max, int timeout_ms)
{
	unsigned n = kvd.answered;

	(void)session, (void)max;
	assert_int_equal(timeout_ms, -1);
	assert_true(kvd.in_flight > 0 && n < 2 * SLOTS);
	if (++kvd.polls == kvd.poll_at)
		return kvd.poll_rc;
	*completions = kvd.answers[n];
	completions->tag = kvd.tags[n];
	if (!completions->result && kvd.rooms[n] && completions->value_bytes <= kvd.room_bytes[n])
		memset(kvd.rooms[n], 'a' + (int)(n % 26), completions->value_bytes);
	kvd.in_flight--;
	kvd.answered++;
	return 1;
}

/* ------------------------------------------------------------------ the window */

static struct cli cli;
static struct cli_window *window;
static struct cli_answer told[4 * SLOTS];
static char errors[4 * SLOTS][16], first_byte[4 * SLOTS];
static unsigned told_count;

static void tell(void *arg, const struct cli_answer *answer)
{
	(void)arg;
	assert_true(told_count < 4 * SLOTS);
	snprintf(errors[told_count], sizeof *errors, "%s", answer->error);
	first_byte[told_count] = answer->value && answer->value_bytes && !answer->result ?
					 *(const char *)answer->value : '-';
	told[told_count++] = *answer;
}

static int set_up(void **state)
{
	(void)state;
	memset(&kvd, 0, sizeof kvd);
	kvd.error = "of the session";
	told_count = 0;
	no_memory = false;
	cli = (struct cli){ .server = "made" };
	blocks = 0;
	window = cli_window_new(&cli, tell, NULL);
	return window == NULL;
}

/* Nothing is left behind. */
static int tear_down(void **state)
{
	(void)state;
	cli_window_delete(&window);
	cli_disconnect(&cli);
	return kvd.sessions || blocks;
}

static void get(const char *key)
{
	cli_window_get(window, key, strlen(key), NULL);
}

/* Of so many bytes; one is there. */
static void put(const char *key, size_t bytes)
{
	struct cli_value value = { malloc(1), bytes, 1 };

	*(char *)value.data = '!';
	cli_window_put(window, key, strlen(key), &value, NULL);
	assert_null(value.data);
}

static void get_all(unsigned count)
{
	char key[12];

	for (unsigned i = 0; i < count; i++) {
		snprintf(key, sizeof key, "k%u", i);
		cli_window_get(window, key, strlen(key), &told[i]);
	}
}

static void must_tell(unsigned i, int result, const char *error)
{
	assert_true(i < told_count);
	assert_int_equal(told[i].result, result);
	assert_string_equal(errors[i], error);
}

static void has_attributes(const struct cli_answer *answer, uint64_t from)
{
	assert_int_equal(answer->version, from);
	assert_int_equal(answer->ttl_ms, from ? from + 1 : 0);
	assert_int_equal(answer->flags, from ? from + 2 : 0);
	assert_int_equal(answer->signs, from ? from + 3 : 0);
}

static struct kvd_completion found(size_t bytes, unsigned from)
{
	return (struct kvd_completion){ .value_bytes = bytes, .version = from, .ttl_ms = from + 1,
					.flags = from + 2, .signs = (int)from + 3 };
}

/* What an answer has is told, and nothing of it of the next one that stands in the same place. */
static void test_what_is_told(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SLOTS; i++)
		kvd.answers[i] = found(i, 100 + i);
	get_all(SLOTS);
	cli_window_drain(window);
	for (unsigned i = 0; i < SLOTS; i++) {
		assert_int_equal(told[i].value_bytes, i);
		has_attributes(&told[i], 100 + i);
		assert_ptr_equal(told[i].tag, &told[i]);
		assert_int_equal(first_byte[i], i ? 'a' + (int)(i % 26) : '-');
	}
	kvd.submit_rc = KVD_EINVAL;
	get_all(SLOTS);
	cli_window_drain(window);
	for (unsigned i = SLOTS; i < 2 * SLOTS; i++) {
		must_tell(i, KVD_EINVAL, "of the session");
		assert_int_equal(told[i].value_bytes, 0);
		has_attributes(&told[i], 0);
	}
	/* Who has no text of its own is told by its kind. */
	kvd.submit_rc = 0;
	kvd.error = "";
	kvd.answers[SLOTS].result = KVD_EFULL;
	put("p", 7);
	put("q", 9);
	cli_window_drain(window);
	must_tell(2 * SLOTS, KVD_EFULL, "of this kind");
	assert_int_equal(told[2 * SLOTS + 1].value_bytes, 9);
	assert_int_equal(first_byte[2 * SLOTS + 1], '!');
}

/* Each error is told once, whoever had the place before. */
static void test_errors_of_one_place(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2 * SLOTS; i++)
		kvd.answers[i].result = i < SLOTS ? KVD_EINVAL : KVD_NOT_FOUND;
	get_all(SLOTS);
	cli_window_drain(window);
	get_all(SLOTS);
	cli_window_drain(window);
	for (unsigned i = 0; i < SLOTS; i++) {
		must_tell(i, KVD_EINVAL, "of the session");
		must_tell(SLOTS + i, KVD_NOT_FOUND, "of this kind");
	}
}

/* ------------------------------------------------------------------ how much at once */

static void test_as_many_as_there_are_places(void **state)
{
	(void)state;
	get_all(SLOTS);
	assert_int_equal(kvd.in_flight, SLOTS);
	get("one more");
	assert_int_equal(told_count, 1);
	assert_int_equal(kvd.in_flight, SLOTS);
	cli_window_drain(window);
	/* Keys are others by their length, too. */
	put("ab", 1);
	put("a", 1);
	assert_int_equal(kvd.in_flight, 2);
	put("ab", 1);
	assert_int_equal(told_count, SLOTS + 2);
	cli_window_drain(window);
}

/* Values of up to 64 MiB are on the way, and the one with which they are more. */
static void test_as_many_bytes_as_may_be(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		put("a", PUTS_MAX);
		put("b", 1);
		assert_int_equal(kvd.in_flight, 2);
		get("c");
		assert_int_equal(told_count, 3 * i + 1);
		assert_int_equal(kvd.in_flight, 2);
		cli_window_drain(window);
		assert_int_equal(told_count, 3 * i + 3);
	}
}

/* A key that is too long is refused by kvd: it is told so. */
static void test_keys_that_are_too_long(void **state)
{
	char key[KVD_KEY_BYTES_MAX + 100];

	(void)state;
	memset(key, 'k', sizeof key);
	for (size_t bytes = KVD_KEY_BYTES_MAX - 1; bytes <= KVD_KEY_BYTES_MAX + 100; bytes++) {
		cli_window_get(window, key, bytes, NULL);
		cli_window_drain(window);
		assert_int_equal(kvd.key_bytes, bytes > KVD_KEY_BYTES_MAX ? KVD_KEY_BYTES_MAX + 1 : bytes);
		kvd.answered = kvd.submitted = 0;
		told_count = 0;
	}
}

/* kvd takes no more: one of those in flight is waited for, and where there is none that is the answer. */
static void test_kvd_is_busy(void **state)
{
	(void)state;
	get("a");
	get("b");
	kvd.busy = 1;
	get("c");
	assert_int_equal(kvd.answered, 1);
	assert_int_equal(kvd.in_flight, 2);
	kvd.busy = 3;
	get("d");
	assert_int_equal(kvd.answered, 3);
	cli_window_drain(window);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(told[i].result, KVD_OK);
	must_tell(3, KVD_EBUSY, "of the session");
}

static void test_no_memory_for_a_value(void **state)
{
	(void)state;
	no_memory = true;
	kvd.error = "";
	get("a");
	no_memory = false;
	get("b");
	cli_window_drain(window);
	must_tell(0, KVD_ENOMEM, "no memory");
	assert_int_equal(told[1].result, KVD_OK);
}

/* ------------------------------------------------------------------ values without room */

/* It is asked for alone, until it fits; the others keep their answers. */
static void test_a_value_that_grows(void **state)
{
	(void)state;
	kvd.answers[0] = (struct kvd_completion){ .result = KVD_ESPACE, .value_bytes = ROOM_MIN + 1 };
	kvd.answers[1] = found(3, 20);
	kvd.answers[2] = (struct kvd_completion){ .result = KVD_ESPACE, .value_bytes = 6000 };
	kvd.answers[3] = found(5990, 30);
	get("a");
	get("b");
	cli_window_drain(window);
	assert_int_equal(kvd.exists, 0);
	assert_int_equal(kvd.room_bytes[0], ROOM_MIN);
	assert_int_equal(kvd.room_bytes[2], ROOM_MIN + 1);
	assert_int_equal(kvd.room_bytes[3], 6000);
	assert_int_equal(told[0].result, KVD_OK);
	assert_int_equal(told[0].value_bytes, 5990);
	assert_int_equal(first_byte[0], 'd');
	has_attributes(&told[0], 30);
	assert_int_equal(told[1].value_bytes, 3);
	assert_int_equal(first_byte[1], 'b');
	has_attributes(&told[1], 20);
	/* The next ones have room for such a value at once. */
	get("c");
	assert_int_equal(kvd.room_bytes[4], ROOM_MIN + 1);
	cli_window_drain(window);
}

/* So it goes up to 1 MiB, and never back. */
static void test_how_much_room_is_made(void **state)
{
	static const size_t bytes[][2] = { { ROOM_MAX + 1, ROOM_MIN }, { ROOM_MAX, ROOM_MAX },
					   { 9000, ROOM_MAX } };
	unsigned n = 0;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		kvd.answers[n] = (struct kvd_completion){ .result = KVD_ESPACE, .value_bytes = bytes[i][0] };
		kvd.answers[n + 1] = found(bytes[i][0], 1);
		get("a");
		cli_window_drain(window);
		assert_int_equal(kvd.room_bytes[n + 1], bytes[i][0]);
		get("b");
		assert_int_equal(kvd.room_bytes[n + 2], bytes[i][1]);
		cli_window_drain(window);
		n += 3;
	}
}

/* The second time it fails in another way.  No session has that memory after it. */
static void test_asking_again_fails(void **state)
{
	static const int rcs[][2] = { { KVD_ECONNECT, KVD_ECONNECT }, { 0, KVD_ETIMEDOUT } };

	(void)state;
	kvd.answers[0] = (struct kvd_completion){ .result = KVD_ESPACE, .value_bytes = PTRDIFF_MAX };
	kvd.error = "";
	get("a");
	cli_window_drain(window);
	must_tell(0, KVD_ENOMEM, "no memory");
	kvd.error = "of the session";
	kvd.answers[1] = (struct kvd_completion){ .result = KVD_ESPACE, .value_bytes = 10 };
	get("a");
	kvd.submit_rc = KVD_EINVAL;
	cli_window_drain(window);
	must_tell(1, KVD_EINVAL, "of the session");
	kvd.submit_rc = 0;
	for (unsigned i = 0; i < 2; i++) {
		kvd.answers[2 + i] = (struct kvd_completion){ .result = KVD_ESPACE, .value_bytes = 10 };
		kvd.poll_at = kvd.polls + 2;
		kvd.poll_rc = rcs[i][0];
		get("a");
		cli_window_drain(window);
		must_tell(2 + i, rcs[i][1], kvd_strerror(rcs[i][1]));
		assert_int_equal(kvd.sessions, 0);
	}
}

/* ------------------------------------------------------------------ lost sessions */

/* A change may have happened, unless there is no device. */
static void test_a_lost_session(void **state)
{
	static const int rcs[][3] = { { KVD_EDEVICE, KVD_EDEVICE, KVD_EDEVICE },
				      { KVD_EPROTOCOL, KVD_EUNKNOWN, KVD_EPROTOCOL },
				      { 0, KVD_EUNKNOWN, KVD_ETIMEDOUT } };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		kvd.poll_at = kvd.polls + 1;
		kvd.poll_rc = rcs[i][0];
		put("a", 1);
		get("b");
		cli_window_del(window, "c", 1, NULL);
		cli_window_drain(window);
		must_tell(3 * i, rcs[i][1], "of the session");
		must_tell(3 * i + 1, rcs[i][2], "of the session");
		must_tell(3 * i + 2, rcs[i][1], "of the session");
		assert_int_equal(kvd.sessions, 0);
	}
}

/* A GET is asked again with another connection: whether the key is there, and then for its value. */
static void test_a_get_that_lost_its_connection(void **state)
{
	(void)state;
	kvd.answers[0].result = kvd.answers[1].result = kvd.answers[3].result = KVD_ECONNECT;
	kvd.exists_rc = KVD_NOT_FOUND;
	get("a");
	cli_window_drain(window);
	must_tell(0, KVD_NOT_FOUND, "of this kind");
	assert_int_equal(kvd.submitted, 1);
	kvd.exists_rc = KVD_OK;
	kvd.exists_bytes = 50;
	kvd.answers[2] = found(40, 9);
	get("a");
	cli_window_drain(window);
	assert_int_equal(kvd.exists, 2);
	assert_int_equal(kvd.room_bytes[2], 50);
	assert_int_equal(told[1].value_bytes, 40);
	assert_int_equal(first_byte[1], 'c');
	/* Nobody is there any more. */
	get("a");
	kvd.connect_rc = KVD_ECONNECT;
	kvd.poll_at = kvd.polls + 1;
	kvd.poll_rc = KVD_ECONNECT;
	cli_window_drain(window);
	must_tell(2, KVD_ECONNECT, "nobody there");
}

/* A change that had no effect for want of a connection is told as that, and not as a GET's. */
static void test_a_change_is_not_asked_again(void **state)
{
	(void)state;
	kvd.answers[0].result = kvd.answers[1].result = KVD_ECONNECT;
	put("a", 1);
	cli_window_del(window, "b", 1, NULL);
	cli_window_drain(window);
	must_tell(0, KVD_ECONNECT, "of the session");
	must_tell(1, KVD_ECONNECT, "of the session");
	assert_int_equal(kvd.exists, 0);
	assert_int_equal(kvd.submitted, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_told),
		TEST(test_errors_of_one_place),
		TEST(test_as_many_as_there_are_places),
		TEST(test_as_many_bytes_as_may_be),
		TEST(test_keys_that_are_too_long),
		TEST(test_kvd_is_busy),
		TEST(test_no_memory_for_a_value),
		TEST(test_a_value_that_grows),
		TEST(test_how_much_room_is_made),
		TEST(test_asking_again_fails),
		TEST(test_a_lost_session),
		TEST(test_a_get_that_lost_its_connection),
		TEST(test_a_change_is_not_asked_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

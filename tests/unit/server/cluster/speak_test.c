/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/shard/speak.h: who is there, what is said to them and what is heard.  The connections,
 * the member and the replica are made up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/cluster/shard/lanes.h"
#include "server/cluster/shard/speak.h"
#include "tests/unit/said.h"

#define EPOCH 7u
#define QUESTION 5u
#define OWN 100u   /* incarnations */
#define OTHER 200u

/* In struct link_peer's place. */
struct fake {
	const char *name;
	bool is_asker, is_full;
	_Alignas(8) uint8_t memory[LINK_BYTES_MAX];
	uint32_t sent; /* bytes; 0: nothing */
	const char *closed;
};

static struct shard s;
static struct store store;
static struct fake bert = { .name = "bert" }, carl = { .name = "carl" };
static struct link_events events;
static char connected[16], lost[16], gone[16];
static unsigned lane_state; /* + 1; 0: not told */
static bool lanes_up, may_ask, may_answer;
static enum replica_answered answered;
static unsigned heard, acted, questions, answers;
static const struct link_reader *answered_to;
static struct member_message last;

static struct link_peer *of(struct fake *f)
{
	return (struct link_peer *)(void *)f;
}

/* ------------------------------------------------------------------ connections */

const char *__wrap_link_peer_name(const struct link_peer *p);
bool __wrap_link_peer_is_asker(const struct link_peer *p);
void *__wrap_link_peer_reserve(struct link_peer *p);
void __wrap_link_peer_send(struct link_peer *p, uint32_t bytes);
void __wrap_link_peer_close(struct link_peer *p, const char *reason, ...);
void __wrap_lanes_are(struct shard *shard, const struct link_peer *p, enum lane_state state);
bool __wrap_lanes_are_up(struct shard *shard, const char *name);

const char *__wrap_link_peer_name(const struct link_peer *p)
{
	return ((const struct fake *)(const void *)p)->name;
}

bool __wrap_link_peer_is_asker(const struct link_peer *p)
{
	return ((const struct fake *)(const void *)p)->is_asker;
}

void *__wrap_link_peer_reserve(struct link_peer *p)
{
	struct fake *f = (struct fake *)(void *)p;

	return f->is_full ? NULL : f->memory;
}

void __wrap_link_peer_send(struct link_peer *p, uint32_t bytes)
{
	((struct fake *)(void *)p)->sent = bytes;
}

void __wrap_link_peer_close(struct link_peer *p, const char *reason, ...)
{
	((struct fake *)(void *)p)->closed = reason;
}

void __wrap_lanes_are(struct shard *shard, const struct link_peer *p, enum lane_state state)
{
	assert_ptr_equal(shard, &s);
	assert_true(__wrap_link_peer_is_asker(p));
	lane_state = (unsigned)state + 1;
}

bool __wrap_lanes_are_up(struct shard *shard, const char *name)
{
	(void)shard;
	assert_string_equal(name, "bert");
	return lanes_up;
}

/* --------------------------------------------------------- the member, the replica */

void __wrap_member_connected(struct member *m, const char *name);
void __wrap_member_lost(struct member *m, const char *name);
void __wrap_member_gone(struct member *m, const char *name);
void __wrap_member_heard(struct member *m, uint64_t now_ns, const char *from, const struct member_message *message,
			 struct member_actions *actions);
bool __wrap_replica_ask(struct replica *replica, uint64_t number);
void __wrap_replica_put_question(struct replica *replica, struct link_writer *open);
enum replica_answered __wrap_replica_answered(struct replica *replica, struct link_reader *begin);
bool __wrap_replica_answer(struct replica *replica, struct link_reader *open, struct link_writer *begin);

void __wrap_member_connected(struct member *m, const char *name)
{
	assert_ptr_equal(m, &s.member);
	strcpy(connected, name);
}

void __wrap_member_lost(struct member *m, const char *name)
{
	(void)m;
	strcpy(lost, name);
}

void __wrap_member_gone(struct member *m, const char *name)
{
	(void)m;
	strcpy(gone, name);
}

static const struct member_action begin_to_bert;

void __wrap_member_heard(struct member *m, uint64_t now_ns, const char *from, const struct member_message *message,
			 struct member_actions *actions)
{
	assert_ptr_equal(m, &s.member);
	assert_true(now_ns > 0);
	assert_string_equal(from, "bert");
	assert_int_equal(actions->count, 0);
	last = *message;
	heard++;
	actions->of[actions->count++] = begin_to_bert;
}

bool __wrap_replica_ask(struct replica *replica, uint64_t number)
{
	assert_ptr_equal(replica, s.replica);
	assert_int_equal(number, QUESTION);
	return may_ask;
}

void __wrap_replica_put_question(struct replica *replica, struct link_writer *open)
{
	(void)replica;
	questions++;
	link_put_entry(open, &(struct link_entry){ .stripe = 9 });
}

enum replica_answered __wrap_replica_answered(struct replica *replica, struct link_reader *begin)
{
	(void)replica;
	assert_int_equal(begin->header->kind, LINK_BEGIN);
	answers++;
	return answered;
}

bool __wrap_replica_answer(struct replica *replica, struct link_reader *open, struct link_writer *begin)
{
	(void)replica;
	answered_to = open;
	link_put_entry(begin, &(struct link_entry){ .stripe = 8 });
	return may_answer;
}

static void act(struct shard *shard, const struct member_actions *actions)
{
	assert_ptr_equal(shard, &s);
	assert_int_equal(actions->count, 1);
	acted++;
	if (last.kind == MEMBER_OPEN)
		speak_send(&s, &actions->of[0]);
}

/* --------------------------------------------------------------------- to happen */

static const struct member_action begin_to_bert = {
	.kind = MEMBER_SEND, .peer = "bert",
	.message = { .kind = MEMBER_BEGIN, .epoch = EPOCH, .from = OWN, .to = OTHER, .number = QUESTION } };

static bool is_sent(struct fake *f)
{
	bool was = f->sent;

	f->sent = 0;
	return was;
}

static bool send_it(enum member_message_kind kind, uint64_t visible, uint64_t next)
{
	struct member_action a = begin_to_bert;

	a.message.kind = kind;
	a.message.visible = visible;
	a.message.next = next;
	speak_send(&s, &a);
	assert_int_equal(carl.sent, 0);
	return is_sent(&bert);
}

/* What was sent last. */
static struct link_reader sent(enum member_message_kind kind)
{
	struct link_reader r;
	const char *reason;
	const struct link_header *h = (const struct link_header *)(const void *)bert.memory;

	assert_int_equal(link_open(&r, bert.memory, sizeof *h + h->bytes, &reason), 0);
	assert_int_equal(h->kind, kind);
	assert_int_equal(h->epoch, EPOCH);
	assert_int_equal(h->from, OWN);
	assert_int_equal(h->to, OTHER);
	assert_int_equal(h->number, QUESTION);
	return r;
}

/* Bert says it; pulses: of the body. */
static void hear(unsigned kind, unsigned pulses, uint64_t next)
{
	static _Alignas(8) uint8_t memory[LINK_BYTES_MAX];
	struct link_writer w;
	struct link_reader r;
	const char *reason;

	link_begin(&w, memory, (enum link_kind)kind, EPOCH, OTHER, OWN, QUESTION);
	while (pulses--)
		link_put_pulse(&w, &(struct link_pulse){ 33, 44 });
	if (next)
		link_put_number(&w, next);
	assert_int_equal(link_open(&r, memory, link_length(&w), &reason), 0);
	bert.closed = NULL;
	events.message(&s, of(&bert), &r);
	assert_null(s.asked);
}

static void come(struct fake *f)
{
	said_begin();
	events.up(&s, of(f));
	said_end();
}

static void go(struct fake *f)
{
	said_begin();
	events.down(&s, of(f), "it is over");
	said_end();
	assert_int_equal(said_lines("it is over"), 1);
}

/* -------------------------------------------------------------------------- tests */

static void test_there(void **state)
{
	struct fake again = { .name = "bert", .is_asker = true }, nobody = { .name = "" };

	(void)state;
	assert_ptr_equal(events.arg, &s);
	come(&bert);
	assert_int_equal(said_lines("connected with member bert"), 1);
	assert_string_equal(connected, "bert");
	assert_int_equal(lane_state, 0);
	assert_ptr_equal(shard_peer(&s, "bert"), of(&bert));
	assert_null(shard_peer(&s, "carl"));
	come(&again);
	assert_int_equal(lane_state, LANE_UP + 1);
	come(&carl);
	assert_string_equal(connected, "carl");
	go(&again);
	assert_int_equal(lane_state, LANE_NONE + 1);
	assert_string_equal(lost, "bert"); /* the other one is there yet */
	assert_string_equal(gone, "");
	lane_state = 0;
	go(&bert);
	assert_string_equal(gone, "bert");
	assert_int_equal(lane_state, 0);
	assert_null(shard_peer(&s, "bert"));
	assert_ptr_equal(shard_peer(&s, "carl"), of(&carl));
	lost[0] = gone[0] = '\0';
	go(&nobody); /* it ended before it said who it is */
	assert_string_equal(lost, "");
	assert_string_equal(gone, "");
}

static void test_too_many(void **state)
{
	(void)state;
	for (unsigned i = 0; i < LINK_PEERS_MAX; i++) {
		come(&carl);
		assert_null(carl.closed);
	}
	come(&bert);
	assert_string_equal(bert.closed, "there are too many connections with other members");
	assert_string_equal(connected, "carl");
	bert.closed = NULL;
	s.peers[LINK_PEERS_MAX / 2] = NULL;
	come(&bert);
	assert_null(bert.closed);
	assert_ptr_equal(s.peers[LINK_PEERS_MAX / 2], of(&bert));
}

static void test_pulses(void **state)
{
	const struct link_pulse *pulse;
	struct link_reader r;

	(void)state;
	assert_false(send_it(MEMBER_HEARTBEAT, 33, 0)); /* nobody is there */
	come(&carl);
	come(&bert);
	assert_true(send_it(MEMBER_HEARTBEAT, 33, 0));
	r = sent(MEMBER_HEARTBEAT);
	pulse = link_next_pulse(&r);
	assert_int_equal(pulse->visible, 33);
	assert_true(pulse->clock_ms > 0);
	assert_int_equal(r.left, 0);
	assert_true(send_it(MEMBER_HEARTBEAT, 33, 55));
	r = sent(MEMBER_HEARTBEAT);
	assert_non_null(link_next_pulse(&r));
	assert_int_equal(*link_next_number(&r), 55);
	assert_true(send_it(MEMBER_PROMISE, 0, 55));
	r = sent(MEMBER_PROMISE);
	assert_non_null(link_next_pulse(&r));
	assert_int_equal(r.left, 0);
	assert_true(send_it(MEMBER_BEGUN, 0, 55));
	r = sent(MEMBER_BEGUN);
	assert_int_equal(r.left, 0);
	assert_int_equal(questions, 0);
	bert.is_full = true;
	assert_false(send_it(MEMBER_BEGUN, 0, 0));
	bert.is_full = false;
}

static void test_question(void **state)
{
	struct link_reader r;

	(void)state;
	come(&bert);
	assert_false(send_it(MEMBER_OPEN, 0, 0));
	may_ask = true;
	assert_true(send_it(MEMBER_OPEN, 0, 0));
	r = sent(MEMBER_OPEN);
	assert_int_equal(link_next_entry(&r)->stripe, 9);
	assert_int_equal(questions, 1);
}

/* Who joins is awaited at once: it has to be there with all its connections. */
static void test_join(void **state)
{
	(void)state;
	come(&bert);
	assert_false(send_it(MEMBER_JOIN, 0, 0));
	lanes_up = true;
	assert_true(send_it(MEMBER_JOIN, 0, 0));
	lanes_up = false;
	assert_true(send_it(MEMBER_JOINED, 0, 0));
}

static void test_answer(void **state)
{
	struct link_reader r;

	(void)state;
	come(&bert);
	assert_false(send_it(MEMBER_BEGIN, 0, 0)); /* nothing was asked */
	assert_non_null(bert.closed);
	hear(MEMBER_OPEN, 0, 0);
	assert_non_null(strstr(bert.closed, "it asked for what can't be"));
	assert_false(is_sent(&bert));
	may_answer = true;
	hear(MEMBER_OPEN, 0, 0);
	assert_null(bert.closed);
	assert_non_null(answered_to);
	assert_true(is_sent(&bert));
	r = sent(MEMBER_BEGIN);
	assert_int_equal(link_next_entry(&r)->stripe, 8);
	hear(MEMBER_HEARTBEAT, 1, 0);
	assert_int_equal(acted, 3);
	assert_false(send_it(MEMBER_BEGIN, 0, 0)); /* it was answered */
}

static void test_heard(void **state)
{
	(void)state;
	hear(MEMBER_HEARTBEAT, 1, 0);
	assert_int_equal(last.kind, MEMBER_HEARTBEAT);
	assert_int_equal(last.epoch, EPOCH);
	assert_int_equal(last.from, OTHER);
	assert_int_equal(last.to, OWN);
	assert_int_equal(last.number, QUESTION);
	assert_int_equal(last.visible, 33);
	assert_int_equal(last.next, 0);
	hear(MEMBER_HEARTBEAT, 1, 66);
	assert_int_equal(last.next, 66);
	hear(MEMBER_PROMISE, 1, 66);
	assert_int_equal(last.visible, 33);
	assert_int_equal(last.next, 0);
	hear(MEMBER_JOINED, 0, 0);
	assert_int_equal(last.kind, MEMBER_JOINED);
	assert_int_equal(last.visible, 0);
	assert_int_equal(heard, 4);
	assert_int_equal(acted, 4);
	static const unsigned wrong[][2] = { { LINK_RECORDS, 0 }, { LINK_ACKS, 0 }, { MEMBER_HEARTBEAT, 0 },
					     { MEMBER_PROMISE, 0 } };
	for (unsigned i = 0; i < 4; i++) {
		hear(wrong[i][0], wrong[i][1], 0);
		assert_string_equal(bert.closed, "it sent a shard's thread what is not for one");
	}
	assert_int_equal(heard, 4);
}

/* The primary's answer to what this one asked last, in parts. */
static void test_answered(void **state)
{
	(void)state;
	may_ask = true;
	come(&bert);
	s.member.known.epoch = EPOCH;
	s.member.asked = QUESTION;
	s.member.asked_ns = 0;
	answered = REPLICA_ANSWERED_PART;
	hear(MEMBER_BEGIN, 0, 0);
	assert_true(is_sent(&bert));
	struct link_reader r = sent(MEMBER_OPEN);
	assert_int_equal(link_next_entry(&r)->stripe, 9);
	assert_true(s.member.asked_ns > 0);
	assert_int_equal(heard, 0);
	bert.is_full = true;
	s.member.asked_ns = 0;
	hear(MEMBER_BEGIN, 0, 0);
	assert_false(is_sent(&bert));
	assert_int_equal(s.member.asked_ns, 0);
	bert.is_full = false;
	answered = REPLICA_ANSWERED_NOT;
	hear(MEMBER_BEGIN, 0, 0);
	assert_false(is_sent(&bert));
	assert_int_equal(heard, 0);
	answered = REPLICA_ANSWERED_WHOLE;
	hear(MEMBER_BEGIN, 0, 0);
	assert_int_equal(heard, 1);
	assert_int_equal(acted, 1);
	assert_int_equal(answers, 4);
	/* Others' are none of its. */
	answered = REPLICA_ANSWERED_NOT;
	s.member.asked = QUESTION + 1;
	hear(MEMBER_BEGIN, 0, 0);
	s.member.asked = QUESTION;
	s.member.known.epoch = EPOCH + 1;
	hear(MEMBER_BEGIN, 0, 0);
	s.member.known.epoch = EPOCH;
	hear(MEMBER_BEGUN, 0, 0);
	assert_int_equal(answers, 4);
	assert_int_equal(heard, 4);
}

static int set_up(void **state)
{
	(void)state;
	memset(&s, 0, sizeof s);
	s.options.store = &store;
	s.act = act;
	s.replica = (struct replica *)(void *)&store;
	bert.closed = carl.closed = NULL;
	bert.sent = carl.sent = 0;
	connected[0] = lost[0] = gone[0] = '\0';
	lane_state = heard = acted = questions = answers = 0;
	lanes_up = may_ask = may_answer = false;
	answered_to = NULL;
	last = (struct member_message){ 0 };
	events = speak_events(&s);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, set_up)
		TEST(test_there), TEST(test_too_many), TEST(test_pulses), TEST(test_question),
		TEST(test_join), TEST(test_answer), TEST(test_heard), TEST(test_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

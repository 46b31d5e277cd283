/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/shard/join.h: who is invited, how a copy is told of and given up, and how a joiner's table
 * and disk are emptied.  The member, the replica, the workers and the disk are made up, as is the time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/cluster/member/act.h"
#include "server/cluster/member/backup.h"
#include "server/cluster/member/join.h"
#include "server/cluster/shard/crew.h"
#include "server/cluster/shard/join.h"
#include "server/durable/durable.h"
#include "server/table/index.h"
#include "tests/unit/made_up.h"
#include "tests/unit/said.h"

#define MS 1000000ull
#define S (1000 * MS)
#define COPY 55u
#define ORDER 66u
#define JOINER 2

static struct shard s;
static struct store store;
static struct member_actions actions;
static uint64_t now_ns;

static char invited[CONFIG_NAME_BYTES], gone[CONFIG_NAME_BYTES];
static bool invites, copied, spoiled, is_made;
static unsigned orders, woken, copies;
static uint64_t emptied, lacking, lacking_bytes;
static struct replica_progress progress;
static struct durable_op *submitted;

MADE_UP(int, clock_gettime, clockid_t clock, struct timespec *ts)
{
	(void)clock;
	*ts = (struct timespec){ (time_t)(now_ns / S), (long)(now_ns % S) };
	return 0;
}

MADE_UP(uint64_t, index_keys, const struct index *index) { return index == store.index ? 1000 : 0; }
MADE_UP(uint64_t, member_number, struct member *m) { return m == &s.member ? ORDER : 0; }
MADE_UP(void, crew_wake, struct shard *of) { woken += of == &s; }
MADE_UP(void, durable_submit, struct durable *d, struct durable_op *op) { submitted = d == store.durable ? op : NULL; }
MADE_UP(bool, replica_is_copied, struct replica *r, uint64_t n) { return r == s.replica && n == COPY && copied; }
MADE_UP(bool, replica_is_spoiled, struct replica *r, uint64_t n) { return r == s.replica && n == COPY && spoiled; }

MADE_UP(void, crew_order, struct shard *of, struct replica_order *o, uint64_t number)
{
	assert_ptr_equal(of, &s);
	assert_int_equal(o->kind, REPLICA_EMPTY);
	assert_int_equal(number, ORDER);
	orders++;
}

MADE_UP(void, member_emptied, struct member *m, uint64_t incarnation, uint64_t at_ns, struct member_actions *a)
{
	assert_ptr_equal(m, &s.member);
	assert_int_equal(at_ns, now_ns);
	assert_ptr_equal(a, &actions);
	emptied = incarnation;
}

MADE_UP(bool, member_invite, struct member *m, const char *name, uint64_t at_ns)
{
	assert_ptr_equal(m, &s.member);
	assert_int_equal(at_ns, now_ns);
	strcpy(invited, name);
	return invites;
}

MADE_UP(void, member_gone, struct member *m, const char *name)
{
	assert_ptr_equal(m, &s.member);
	strcpy(gone, name);
}

MADE_UP(void, member_copied, struct member *m, uint64_t at_ns, struct member_actions *a)
{
	assert_ptr_equal(m, &s.member);
	assert_int_equal(at_ns, now_ns);
	assert_ptr_equal(a, &actions);
	copies++;
}

MADE_UP(uint64_t, replica_lacking, struct replica *r, uint32_t member, uint64_t *bytes)
{
	assert_ptr_equal(r, s.replica);
	assert_int_equal(member, 1u << s.member.joiner);
	*bytes = lacking_bytes;
	return lacking;
}

MADE_UP(bool, replica_progress, struct replica *r, struct replica_progress *p)
{
	assert_ptr_equal(r, s.replica);
	*p = progress;
	return is_made;
}

int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
MADE_UP(int, pthread_mutex_unlock, pthread_mutex_t *lock)
{
	assert_int_equal(__real_pthread_mutex_unlock(lock), 0); /* it was held */
	return 0;
}

/* -------------------------------------------------------------------------- joiner */

static void empty(void)
{
	said_begin();
	join_empty(&s);
	said_end();
}

static void test_emptied(void **state)
{
	(void)state;
	s.is_unfit = true;
	empty();
	assert_int_equal(said_lines("joining: anna copies the shard to this member, whose own 1000 keys go"), 1);
	assert_int_equal(orders, 1);
	assert_false(s.is_unfit);
	empty(); /* it is under way */
	assert_int_equal(orders, 1);
	assert_false(join_emptied(&s, ORDER + 1, &actions));
	assert_int_equal(emptied, 0);
	assert_true(join_emptied(&s, ORDER, &actions));
	assert_true(emptied != 0);
	assert_null(submitted);
	assert_false(join_emptied(&s, ORDER, &actions));
	assert_false(join_emptied(&s, 0, &actions));
	empty();
	assert_int_equal(orders, 2);
}

/* And its disk. */
static void test_wiped(void **state)
{
	(void)state;
	store.durable = (struct durable *)(void *)&now_ns;
	assert_false(join_wiped(&s, &actions));
	for (unsigned i = 0; i < 2; i++) {
		emptied = 0;
		empty();
		assert_true(join_emptied(&s, ORDER, &actions));
		assert_int_equal(emptied, 0);
		assert_non_null(submitted);
		assert_true(submitted->wipe != 0);
		uint64_t incarnation = submitted->wipe;
		durable_give_back(store.durable, submitted, i ? DURABLE_REFUSED : DURABLE_WRITTEN);
		eventfd_t value;
		assert_int_equal(eventfd_read(s.wake_fd, &value), 0);
		assert_true(join_wiped(&s, &actions));
		assert_int_equal(emptied, i ? 0 : incarnation);
		assert_int_equal(s.is_unfit, i);
		assert_int_equal(s.joining.emptying, 0);
		assert_false(join_wiped(&s, &actions));
	}
	assert_string_equal(s.why, "its disk can't be emptied for the copy");
}

static void test_drawn(void **state)
{
	uint64_t one = join_draw();

	(void)state;
	assert_true(one != 0);
	assert_true(one != join_draw());
}

/* ------------------------------------------------------------------------- invited */

static void be_primary(void)
{
	s.member.state = MEMBER_SERVING;
	s.member.known = (struct config){ .epoch = 3, .copies = 3, .count = 2,
					  .set = { { "anna", 1 }, { "bert", 2 }, { "carl", 3 } } }; /* carl was once */
	s.member.joiner = -1;
}

static void test_may_invite(void **state)
{
	(void)state;
	be_primary();
	assert_true(join_may_invite(&s, now_ns));
	s.member.state = MEMBER_TAKING;
	assert_false(join_may_invite(&s, now_ns));
	s.member.state = MEMBER_SERVING;
	s.member.known.count = 3;
	assert_false(join_may_invite(&s, now_ns));
	s.member.known.count = 4;
	assert_false(join_may_invite(&s, now_ns));
	s.member.known.count = 2;
	strcpy(s.member.wanted, "carl");
	assert_false(join_may_invite(&s, now_ns));
	s.member.wanted[0] = '\0';
	s.member.joiner = 0;
	assert_false(join_may_invite(&s, now_ns));
	s.member.joiner = -1;
	s.joining.pause_ns = now_ns + 1;
	assert_false(join_may_invite(&s, now_ns));
	assert_true(join_may_invite(&s, now_ns + 1));
	s.joining.invited_ns = now_ns;
	assert_false(join_may_invite(&s, now_ns + 300 * MS - 1));
	assert_true(join_may_invite(&s, now_ns + 300 * MS));
}

/* Each in turn of those who are not of the set. */
static void test_invited(void **state)
{
	static const struct config_member there[] = { { "anna", 1 }, { "carl", 3 }, { "bert", 2 }, { "dora", 4 },
							{ "eve", 5 } };
	static const char *const turns[] = { "carl", "dora", "eve", "carl", "dora" };

	(void)state;
	be_primary();
	invites = true;
	for (unsigned i = 0; i < 5; i++) {
		invited[0] = '\0';
		join_invite(&s, there, 5);
		assert_string_equal(invited, turns[i]);
		assert_int_equal(s.joining.invited_ns, now_ns);
		invited[0] = '\0';
		join_invite(&s, there, 5); /* not at once */
		assert_string_equal(invited, "");
		now_ns += 300 * MS;
	}
	join_invite(&s, there, 1);
	assert_string_equal(invited, "");
	now_ns += 300 * MS;
	join_invite(&s, there, 0);
	assert_string_equal(invited, "");
}

/* -------------------------------------------------------------------------- a copy */

static void tick(uint64_t later_ns)
{
	now_ns += later_ns;
	gone[0] = '\0';
	said_begin();
	join_tick(&s, now_ns, &actions);
	said_end();
}

static void begin_copy(void)
{
	be_primary();
	s.member.joiner = s.seen.joiner = JOINER;
	s.member.copy = COPY;
	strcpy(s.member.peers[JOINER].id.name, "carl");
	strcpy(s.seen.peers[JOINER].id.name, "carl");
	tick(0);
	assert_int_equal(said_lines("copying the shard to member carl: about 1000 keys"), 1);
}

static void test_told(void **state)
{
	char text[JOIN_STATUS_BYTES];

	(void)state;
	be_primary();
	tick(0);
	assert_int_equal(said_lines("copy"), 0);
	assert_int_equal(woken, 0);
	begin_copy();
	assert_int_equal(woken, 1);
	tick(5 * S);
	assert_int_equal(said_lines("cop"), 0); /* there is none yet */
	is_made = true;
	progress = (struct replica_progress){ .keys = 995, .bytes = 9, .of = 1000 };
	tick(0);
	assert_int_equal(said_lines("copying to member carl: 995 of about 1000 keys, 9 bytes, 99 %"), 1);
	tick(5 * S - 1);
	assert_int_equal(said_lines("cop"), 0);
	progress.keys = 1001;
	tick(1);
	assert_int_equal(said_lines("1001 of about 1000 keys, 9 bytes, 100 %"), 1);
	progress.keys = 1000;
	join_status(&s, text);
	assert_string_equal(text, "\"copy\":{\"to\":\"carl\",\"keys\":1000,\"of\":1000,\"bytes\":9,\"percent\":100},");
	s.seen.joiner = -1;
	join_status(&s, text);
	assert_string_equal(text, "");
	s.seen.joiner = 0;
	strcpy(s.seen.peers[0].id.name, "bert");
	join_status(&s, text);
	assert_non_null(strstr(text, "\"to\":\"bert\""));
	is_made = false;
	join_status(&s, text);
	assert_string_equal(text, "");
}

static void test_ended(void **state)
{
	(void)state;
	begin_copy();
	s.member.joiner = -1;
	s.member.known.count = 1;
	tick(S);
	assert_int_equal(said_lines("the copy to member carl is given up"), 1);
	assert_false(join_may_invite(&s, now_ns + 2 * S - 1));
	assert_true(join_may_invite(&s, now_ns + 2 * S));
	tick(S);
	assert_int_equal(said_lines("carl"), 0);
	begin_copy();
	now_ns += 1234 * MS;
	s.member.joiner = -1;
	s.member.known.set[2] = (struct config_member){ "carl", 3 };
	s.member.known.count = 3;
	s.joining.pause_ns = 0;
	tick(0);
	assert_int_equal(said_lines("member carl is of the set, 1234 ms after its copy was begun"), 1);
	assert_int_equal(s.joining.pause_ns, 0);
}

/* When it is whole the member is told. */
static void test_copied(void **state)
{
	(void)state;
	begin_copy();
	woken = 0;
	tick(MS);
	assert_int_equal(woken, 1);
	assert_int_equal(copies, 0);
	copied = true;
	tick(MS);
	assert_int_equal(copies, 1);
	assert_int_equal(woken, 1);
	s.member.is_copied = true;
	tick(MS);
	assert_int_equal(copies, 1);
	copied = false;
	tick(MS);
	assert_int_equal(woken, 1);
	assert_string_equal(gone, "");
}

/* A record that it does not take: for a second, and so much longer as it is long. */
static void test_lack(void **state)
{
	(void)state;
	for (lacking = 1; lacking <= 8; lacking += 7) { /* of one before it is not known */
		s.joining.is_told = false;
		s.joining.lacking = 8;
		begin_copy();
		assert_string_equal(gone, "");
	}
	lacking = 8;
	tick(S - 1);
	assert_string_equal(gone, "");
	tick(1);
	assert_string_equal(gone, "carl");
	assert_int_equal(said_lines("member carl takes nothing of the copy"), 1);
	lacking = 9; /* another one */
	tick(0);
	assert_string_equal(gone, "");
	tick(S - 1);
	lacking = 0; /* none */
	tick(1);
	tick(2 * S);
	assert_string_equal(gone, "");
	lacking = 10;
	lacking_bytes = 64u << 20;
	tick(0);
	tick(3 * S - 1);
	assert_string_equal(gone, "");
	tick(1);
	assert_string_equal(gone, "carl");
}

/* At the first place, too. */
static void test_first(void **state)
{
	(void)state;
	be_primary();
	s.member.joiner = 0;
	s.member.copy = COPY;
	strcpy(s.member.peers[0].id.name, "dora");
	tick(0);
	assert_int_equal(said_lines("copying the shard to member dora"), 1);
}

static void test_spoiled(void **state)
{
	(void)state;
	begin_copy();
	spoiled = true;
	tick(MS);
	assert_string_equal(gone, "carl");
	assert_int_equal(said_lines("the disk took no change that member carl has: its copy is given up"), 1);
}

/* -------------------------------------------------------------------------- group */

static int set_up(void **state)
{
	pthread_mutexattr_t checked;

	(void)state;
	memset(&s, 0, sizeof s);
	memset(&store, 0, sizeof store);
	pthread_mutexattr_init(&checked);
	pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&s.lock, &checked);
	pthread_mutexattr_destroy(&checked);
	s.options.store = &store;
	s.replica = (struct replica *)(void *)&store;
	s.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	strcpy(s.member.known.set[0].name, "anna");
	s.member.joiner = -1;
	join_init(&s);
	now_ns = 1000 * S;
	invites = copied = spoiled = is_made = false;
	orders = woken = copies = 0;
	emptied = lacking = lacking_bytes = 0;
	submitted = NULL;
	gone[0] = '\0';
	return s.wake_fd < 0;
}

static int tear_down(void **state)
{
	(void)state;
	pthread_mutex_destroy(&s.lock);
	return close(s.wake_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_emptied), TEST(test_wiped), TEST(test_drawn), TEST(test_may_invite),
		TEST(test_invited), TEST(test_told), TEST(test_ended), TEST(test_copied), TEST(test_lack),
		TEST(test_first), TEST(test_spoiled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the control thread does with each thing that another process asks: who is called, what the
 * answer says, which descriptors come with it, who loses the link, and who hears of that.
 */
#include "asked.h"
#include <sys/stat.h>

/* ---- greetings ---- */

static bool same_file(int a, int b)
{
	struct stat first, second;

	assert_true(!fstat(a, &first) && !fstat(b, &second));
	return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

static void test_greeting(void **state)
{
	struct sv_msg msg = hello(INCARNATION), answer;
	int fd = call(), fds[SV_MSG_FDS];

	(void)state;
	assert_false(bare_proc.guests->greeted);
	msg.slot = SV_SLOTS - 1;
	say(fd, &msg, 0);
	assert_int_equal(bare_turn(), 1);
	assert_int_equal(hear_fds(fd, &answer, fds), 3);
	assert_true(answer.type == SV_MSG_HELLO_OK && answer.abi == SV_ABI_VERSION);
	assert_true(answer.slot == BARE_SLOT && answer.incarnation == BARE_INCARNATION);
	assert_true(same_file(fds[0], bare_proc.ro_fd) && same_file(fds[1], bare_proc.rw_fd));
	sv_bell_ring(fds[2]);
	assert_true(bare_rang(bare_proc.kick_fd));
	for (int i = 0; i < 3; i++)
		sv_fd_close(fds[i]);
	assert_true(bare_proc.guests->greeted && bare_proc.guests->slot == SV_SLOTS - 1);
	assert_true(bare_proc.guests->incarnation == INCARNATION);
	assert_int_equal(bare_turn(), 0);
	close(fd);
}

/* Who can't be greeted, and who asks before: nobody hears of it. */
static void test_strangers(void **state)
{
	struct sv_msg msg = hello(INCARNATION);

	(void)state;
	msg.abi++;
	check_cut(call(), &msg, 0, "");
	msg.abi -= 2;
	check_cut(call(), &msg, 0, "");
	msg = hello(INCARNATION);
	msg.slot = SV_SLOTS;
	check_cut(call(), &msg, 0, "");
	for (uint32_t type = 0; type <= SV_MSG_PART + 1; type++) {
		msg = (struct sv_msg){ .type = type, .index = 1 };
		if (type != SV_MSG_HELLO)
			check_cut(call(), &msg, type == SV_MSG_STAGE, "");
	}
	msg = hello(INCARNATION);
	check_cut(greet(INCARNATION), &msg, 0, "gA"); /* twice */
}

static void test_no_asks(void **state)
{
	static const uint32_t types[] = { 0, SV_MSG_HELLO_OK, SV_MSG_CHAN_OK, SV_MSG_MAP_OK,
					  SV_MSG_ACCESS_OK, SV_MSG_GONE, SV_MSG_JOIN_OK,
					  SV_MSG_PART + 1 };

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		const struct sv_msg msg = { .type = types[i] };

		check_cut(greet(INCARNATION), &msg, SV_MSG_FDS, "gA");
	}
}

/* ---- channels, mappings, stages ---- */

static void test_channel(void **state)
{
	const struct sv_msg msg = { .type = SV_MSG_CHAN, .mem = 88, .serial = 1 };
	struct sv_msg answer;
	int fd = greet(INCARNATION);

	(void)state;
	for (int i = 0; i < 2; i++) {
		has_fd = i;
		assert_int_equal(ask(fd, &msg, &answer), i);
		check_calls("c");
		assert_true(answer.type == SV_MSG_CHAN_OK && answer.mem == 88);
		assert_int_equal(asked_last.mem, 88);
	}
	close(fd);
}

static void check_map(int fd, const struct sv_msg *msg, uint32_t status, bool write, const char *expected)
{
	bool given = has_fd && !status;
	struct sv_msg answer;

	assert_int_equal(ask(fd, msg, &answer), given);
	check_calls(expected);
	assert_true(answer.type == SV_MSG_MAP_OK && answer.mem == msg->mem);
	assert_true(answer.status == status && answer.write == write);
	assert_true(!given || (answer.bytes64 == sizeof(memory) && given_write == write));
	sv_guest_mem_gone(MEM); /* it is told if it was given that */
	assert_int_equal(hear(fd, &answer), given ? 0 : SILENT);
	assert_true(!given || (answer.type == SV_MSG_GONE && answer.mem == MEM));
}

static void test_mappings(void **state)
{
	static const struct {
		uint32_t opcode, write, status;
		bool written;
	} cases[] = {
		{ IBV_WR_RDMA_READ, 0, 0, false },	    { IBV_WR_RDMA_READ, 1, EACCES, true },
		{ IBV_WR_RDMA_WRITE, 0, 0, true },	    { IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, true },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, 1, 0, true }, { IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, true },
	};
	int fd = greet(INCARNATION);
	struct sv_msg msg;

	(void)state;
	has_fd = true;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		msg = question(SV_MSG_MAP, cases[i].opcode);
		msg.write = cases[i].write;
		check_map(fd, &msg, cases[i].status, cases[i].written, cases[i].status ? "" : "e");
	}
	msg = question(SV_MSG_MAP, IBV_WR_RDMA_READ);
	msg.bytes64 = sizeof(memory);
	check_map(fd, &msg, 0, false, "e");
	msg.bytes64++;
	check_map(fd, &msg, EACCES, false, "");
	msg = question(SV_MSG_MAP, IBV_WR_RDMA_READ);
	msg.mem++; /* not where the region is */
	check_map(fd, &msg, EACCES, false, "");
	msg.mem--;
	has_fd = false;
	check_map(fd, &msg, ENOTSUP, false, "e");
	close(fd);
}

static void test_stages(void **state)
{
	const struct sv_msg msg = { .type = SV_MSG_STAGE };
	int small = sv_memfd("softverbs-small", SV_STAGES * SV_STAGE_BYTES - 1);
	int fd = greet(INCARNATION);

	(void)state;
	check_cut(fd, &msg, 0, "gA");
	check_cut(greet(INCARNATION), &msg, 2, "gA");
	check_cut(greet_staged(), &msg, 1, "gA");
	fd = greet(INCARNATION);
	assert_int_equal(sv_msg_send(fd, &msg, &small, 1), 0);
	assert_int_equal(bare_turn(), 1);
	check_calls("gA");
	sv_fd_close(small);
	close(fd);
}

/* ---- XRC ---- */

static void test_joins(void **state)
{
	struct sv_msg msg = question(SV_MSG_JOIN, 0), answer, expected;
	int fd = greet(INCARNATION);

	(void)state;
	assert_int_equal(ask(fd, &msg, &answer), 0);
	check_calls("j");
	assert_memory_equal(&asked_last, &msg, sizeof(msg));
	expected = msg;
	expected.type = SV_MSG_JOIN_OK;
	expected.index = 31;
	expected.status = EBUSY;
	assert_memory_equal(&answer, &expected, sizeof(answer));
	msg = question(SV_MSG_PART, 0);
	assert_int_equal(ask(fd, &msg, &answer), SILENT);
	check_calls("p");
	assert_true(asked_last.src_qpn == THEIR_QPN && asked_last.index == INDEX);
	sv_serve_join_own(&qp);
	check_calls("o");
	close(fd);
}

/* One asks for its own queue pairs, and leaves what there is. */
static void test_joins_of_others(void **state)
{
	struct sv_msg msg = question(SV_MSG_JOIN, 0);

	(void)state;
	msg.src_qpn = sv_qpn(OTHER + 1, 12);
	check_cut(greet(INCARNATION), &msg, 0, "gA");
	msg.type = SV_MSG_PART;
	check_cut(greet(INCARNATION), &msg, 0, "gA");
	msg = question(SV_MSG_PART, 0);
	msg.index = 0;
	check_cut(greet(INCARNATION), &msg, 0, "gA");
}

/* ---- links that end ---- */

static void hang_up(int fd, const char *expected)
{
	close(fd);
	assert_int_equal(bare_turn(), 1);
	check_calls(expected);
	assert_int_equal(bare_free(), 1);
}

/* A process that has another link is still there. */
static void test_last(void **state)
{
	int unknown = call(), first = greet(INCARNATION), second = greet(INCARNATION);
	int another = greet(INCARNATION + 1);

	(void)state;
	hang_up(unknown, "");
	hang_up(second, "");
	hang_up(first, "gA");
	assert_true(bare_proc.guests && !bare_proc.guests->next);
	close(another);
}

/* What lies behind what cut the link is not looked at. */
static void test_over(void **state)
{
	struct sv_msg msg = question(SV_MSG_GONE, 0);
	int fd = greet(INCARNATION);

	(void)state;
	say(fd, &msg, 0);
	msg.type = SV_MSG_JOIN;
	check_cut(fd, &msg, 0, "gA");
}

/* It doesn't read its answers. */
static void test_deaf(void **state)
{
	const struct sv_msg msg = question(SV_MSG_PART, 0), chan = { .type = SV_MSG_CHAN };
	int fd = greet(INCARNATION);

	(void)state;
	for (int i = 0; bare_proc.guests && i < 100000; i++) {
		say(fd, &chan, 0);
		assert_int_equal(bare_turn(), 1);
		calls[0] = calls[0] == 'c' ? 0 : calls[0];
	}
	assert_null(bare_proc.guests);
	assert_int_equal(sv_msg_send(fd, &msg, NULL, 0), 0);
	assert_int_equal(bare_turn(), 0);
	close(fd);
}

/* ---- turns ---- */

static int hear_all(int fd)
{
	struct sv_msg answer;
	int n = 0;

	while (hear(fd, &answer) != SILENT)
		n++;
	return n;
}

/* So many of one link at a time. */
static void test_turns(void **state)
{
	const struct sv_msg msg = { .type = SV_MSG_CHAN };
	int fd = greet(INCARNATION);

	(void)state;
	for (int i = 0; i < 2 * ASKS_PER_WAKE + 3; i++)
		say(fd, &msg, 0);
	for (int i = 0; i < 3; i++) {
		memset(calls, 0, sizeof(calls));
		assert_int_equal(bare_turn(), 1);
		assert_int_equal(hear_all(fd), i < 2 ? ASKS_PER_WAKE : 3);
	}
	memset(calls, 0, sizeof(calls));
	assert_int_equal(bare_turn(), 0);
	close(fd);
}

static int count_guests(void)
{
	int n = 0;

	for (const struct sv_guest *guest = bare_proc.guests; guest; guest = guest->next)
		n++;
	return n;
}

/* And so many that call. */
static void test_callers(void **state)
{
	int fds[ACCEPTS_PER_WAKE + 3];

	(void)state;
	for (int i = 0; i < ACCEPTS_PER_WAKE + 3; i++)
		fds[i] = call_only();
	assert_int_equal(bare_turn(), 1);
	assert_int_equal(count_guests(), ACCEPTS_PER_WAKE);
	assert_int_equal(bare_turn(), 1);
	assert_int_equal(count_guests(), ACCEPTS_PER_WAKE + 3);
	assert_int_equal(bare_turn(), 0);
	for (int i = 0; i < ACCEPTS_PER_WAKE + 3; i++)
		close(fds[i]);
}

/* In a program that has closed its standard input descriptors have number 0, too. */
static void test_number_0(void **state)
{
	const struct sv_msg msg = { .type = SV_MSG_CHAN };
	struct sv_msg answer, map = question(SV_MSG_MAP, IBV_WR_RDMA_READ);
	int fd = greet(INCARNATION), another = call_only(), keep = dup(0);

	(void)state;
	close(0);
	assert_int_equal(bare_turn(), 1);
	assert_int_equal(bare_proc.guests->watch.fd, 0);
	hang_up(another, "");
	has_fd = true;
	assert_true(ask(fd, &msg, &answer) == 1 && given_fd == 0);
	check_calls("c");
	check_map(fd, &map, 0, false, "e");
	assert_int_equal(given_fd, 0);
	assert_int_equal(dup2(keep, 0), 0);
	close(keep);
	close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(greeting), TEST(strangers), TEST(no_asks), TEST(channel),	    TEST(mappings),
		TEST(stages),	TEST(joins),	 TEST(last),	TEST(joins_of_others), TEST(over),
		TEST(deaf),	TEST(turns),	 TEST(callers), TEST(number_0),
	};

	sv_accept_bounded(-1); /* it opens its reserve */
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common/softverbs/peer/guest.h: which memory a process is given before it asks, and when again;
 * what it is told of memory that is gone; who is the last of its process.
 */
#include "bare.h"
#include <sys/mman.h>
#include <infiniband/verbs.h>
#include "common/softverbs/base/mem.h"
#include "common/softverbs/peer/guest.h"
#include "common/softverbs/peer/msg.h"

#define THEIR_SLOT 9u
#define PD 4u
#define READ IBV_ACCESS_REMOTE_READ
#define WRITE IBV_ACCESS_REMOTE_WRITE
#define ATOMIC IBV_ACCESS_REMOTE_ATOMIC
#define ALL (READ | WRITE | ATOMIC)
#define MANY 70 /* more than are given at a time */
#define GIVEN_MAX 4096u

static int ready_calls;

static void ready(struct sv_watch *watch, uint32_t events)
{
	assert_ptr_equal(watch, &bare_proc.guests->watch);
	assert_true(events & EPOLLIN);
	ready_calls++;
}

/* A new guest; its process's end of the link. */
static int add_guest(void)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	sv_guest_add(ends[0], ready);
	assert_non_null(bare_proc.guests);
	assert_int_equal(bare_proc.guests->watch.fd, ends[0]);
	return ends[1];
}

static int add_greeted(void)
{
	int end = add_guest();

	sv_guest_greet(bare_proc.guests, THEIR_SLOT, 77);
	return end;
}

/* A queue pair of this process. */
static void set_qp(uint32_t index, uint32_t dest_slot, uint32_t pd, unsigned access)
{
	bare_ro.qp[index].dest_qpn = dest_slot ? sv_qpn(dest_slot, 12) : 0;
	bare_ro.qp[index].pd = pd;
	bare_ro.qp[index].access = access;
	bare_proc.seats[index / 64] |= 1ull << index % 64;
}

/* A region of a page of its own. */
struct region {
	struct sv_offer offer;
	void *mem;
};

static void make_region(struct region *region, uint32_t pd, unsigned access)
{
	struct sv_mem_view view;

	assert_int_equal(sv_mem_alloc(1, 0, &region->mem), 0);
	sv_mem_find(region->mem, 1, &view);
	region->offer = (struct sv_offer){ .mem = view.id, .pd = pd, .access = access };
	sv_guest_offer(&region->offer);
}

static void end_region(struct region *region)
{
	sv_guest_withdraw(&region->offer);
	assert_int_equal(sv_mem_free(region->mem), 0);
}

/* The next message, and whether its descriptor is the page that it says. */
static bool heard(int end, struct sv_msg *msg)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fds[SV_MSG_FDS], nfds;
	void *mem;

	if (sv_msg_recv(end, msg, fds, &nfds))
		return false;
	assert_int_equal(nfds, msg->type == SV_MSG_MAP_OK);
	if (!nfds)
		return true;
	assert_int_equal(msg->status, 0);
	assert_int_equal(msg->bytes64, page);
	assert_int_equal(msg->write, msg->write != 0);
	mem = mmap(NULL, page, msg->write ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fds[0], 0);
	assert_true(mem != MAP_FAILED);
	munmap(mem, page);
	sv_fd_close(fds[0]);
	return true;
}

static void check_given(int end, const struct region *region, bool write)
{
	struct sv_msg msg;

	assert_true(heard(end, &msg));
	assert_int_equal(msg.type, SV_MSG_MAP_OK);
	assert_int_equal(msg.mem, region->offer.mem);
	assert_int_equal(msg.write, write);
}

static void check_gone(int end, uint32_t mem)
{
	struct sv_msg msg;

	assert_true(heard(end, &msg));
	assert_int_equal(msg.type, SV_MSG_GONE);
	assert_int_equal(msg.mem, mem);
}

static void check_silent(int end)
{
	struct sv_msg msg;

	assert_false(heard(end, &msg));
}

static void drop_all(void)
{
	while (bare_proc.guests)
		sv_guest_drop(bare_proc.guests);
}

/* ---- coming and going ---- */

static void test_watched(void **state)
{
	int end = add_guest(), open_now = bare_open();
	const struct sv_msg msg = { .type = SV_MSG_HELLO };

	(void)state;
	ready_calls = 0;
	assert_int_equal(bare_turn(), 0);
	assert_int_equal(sv_msg_send(end, &msg, NULL, 0), 0);
	assert_int_equal(bare_turn(), 1);
	assert_int_equal(ready_calls, 1);
	sv_guest_drop(bare_proc.guests);
	assert_null(bare_proc.guests);
	assert_int_equal(bare_turn(), 0);
	assert_int_equal(bare_free(), 1);
	assert_int_equal(bare_open(), open_now - 1);
	close(end);
}

/* No socket, and one that can't be watched. */
static void test_refused(void **state)
{
	int epoll_fd = bare_proc.epoll_fd, ends[2];

	(void)state;
	sv_guest_add(open("/dev/null", O_RDONLY), ready);
	assert_true(!bare_proc.guests && !bare_proc.retired);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	bare_proc.epoll_fd = -1;
	sv_guest_add(ends[0], ready);
	bare_proc.epoll_fd = epoll_fd;
	assert_null(bare_proc.guests);
	assert_int_equal(bare_free(), 1);
	close(ends[1]);
}

/* Any of several; it is over at once, and gone, with its staging memory, later. */
static void test_dropped(void **state)
{
	int fd = sv_memfd("softverbs-stage", SV_STAGES * SV_STAGE_BYTES);
	struct sv_guest *first, *middle;
	int ends[3];

	(void)state;
	ends[0] = add_guest();
	first = bare_proc.guests;
	ends[1] = add_guest();
	middle = bare_proc.guests;
	ends[2] = add_guest();
	middle->stage = sv_map_received(fd, SV_STAGES * SV_STAGE_BYTES, true);
	sv_fd_close(fd);
	sv_guest_drop(middle);
	assert_true(middle->over && !first->over && !bare_proc.guests->over);
	assert_ptr_equal(bare_proc.guests->next, first);
	assert_null(first->next);
	assert_int_equal(bare_mapped("memfd:softverbs-stage"), SV_STAGES * SV_STAGE_BYTES);
	assert_int_equal(bare_free(), 1);
	assert_int_equal(bare_mapped("memfd:softverbs-stage"), 0);
	sv_guest_drop(first);
	assert_null(bare_proc.guests->next);
	drop_all();
	for (int i = 0; i < 3; i++)
		close(ends[i]);
}

/* Those that have said who they are, of the same process, count. */
static void test_last(void **state)
{
	int ends[] = { add_guest(), add_guest(), add_guest() };
	struct sv_guest *third = bare_proc.guests, *second = third->next, *first = second->next;

	(void)state;
	sv_guest_greet(second, THEIR_SLOT, 77);
	assert_true(second->greeted && second->slot == THEIR_SLOT && second->incarnation == 77);
	first->incarnation = 77; /* it has not greeted */
	sv_guest_greet(third, THEIR_SLOT, 78);
	assert_true(sv_guest_is_last(second));
	assert_true(sv_guest_is_last(third));
	sv_guest_greet(first, THEIR_SLOT, 77);
	assert_false(sv_guest_is_last(first));
	assert_false(sv_guest_is_last(second));
	assert_true(sv_guest_is_last(third));
	sv_guest_drop(second);
	assert_true(sv_guest_is_last(first));
	drop_all();
	for (int i = 0; i < 3; i++)
		close(ends[i]);
}

/* ---- what is given ---- */

/* What both the region and the queue pair allow. */
static void test_rights(void **state)
{
	static const struct {
		unsigned region, qp;
		bool given, write;
	} cases[] = {
		{ ALL, ALL, true, true },      { READ, ALL, true, false },
		{ ALL, READ, true, false },    { WRITE, ALL, true, true },
		{ ALL, ATOMIC, true, true },   { READ, WRITE, false, false },
		{ ALL, 0, false, false },      { READ | WRITE, READ | ATOMIC, true, false },
		{ IBV_ACCESS_LOCAL_WRITE, ALL | IBV_ACCESS_LOCAL_WRITE, false, false },
		{ IBV_ACCESS_MW_BIND, IBV_ACCESS_MW_BIND, false, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct region region;
		int end;

		set_qp(65, THEIR_SLOT, PD, cases[i].qp);
		make_region(&region, PD, cases[i].region);
		end = add_greeted();
		if (cases[i].given)
			check_given(end, &region, cases[i].write);
		check_silent(end);
		end_region(&region);
		drop_all();
		close(end);
	}
}

/* By queue pairs that are connected to it, of the region's domain. */
static void test_who(void **state)
{
	struct region ours, other;
	int end;

	(void)state;
	set_qp(1, 0, PD, ALL);
	set_qp(2, THEIR_SLOT + 1, PD, ALL);
	set_qp(64, THEIR_SLOT, PD + 1, ALL);
	set_qp(SV_QPS - 1, THEIR_SLOT, PD, READ);
	make_region(&ours, PD, ALL);
	make_region(&other, PD + 2, ALL);
	end = add_greeted();
	check_given(end, &ours, false);
	check_silent(end);
	set_qp(2, THEIR_SLOT, PD, READ);
	sv_guest_push(2);
	check_silent(end); /* it has it */
	set_qp(2, THEIR_SLOT, PD, ATOMIC);
	sv_guest_push(1);
	sv_guest_push(64);
	check_silent(end);
	sv_guest_push(2);
	check_given(end, &ours, true); /* and more rights now */
	set_qp(3, THEIR_SLOT, PD, READ);
	sv_guest_push(3);
	sv_guest_push(0);
	check_silent(end);
	drop_all();
	end_region(&ours);
	end_region(&other);
	close(end);
}

/* A new region goes to all who may use it; not to one that has said nothing yet. */
static void test_offered(void **state)
{
	struct region first, second, third;
	int before, mute = add_guest(), end = add_greeted(), another = add_greeted();

	(void)state;
	bare_proc.guests->slot = THEIR_SLOT + 1;
	set_qp(7, THEIR_SLOT, PD, ALL);
	set_qp(8, THEIR_SLOT, PD + 1, READ);
	set_qp(9, THEIR_SLOT + 1, PD, READ);
	before = bare_open();
	make_region(&first, PD, ALL);
	check_given(end, &first, true);
	check_given(another, &first, false);
	make_region(&second, PD + 1, ALL);
	check_given(end, &second, false);
	make_region(&third, PD, IBV_ACCESS_LOCAL_WRITE);
	check_silent(end);
	check_silent(another);
	check_silent(mute);

	sv_guest_withdraw(&second.offer); /* that between the others */
	sv_guest_mem_gone(second.offer.mem);
	check_gone(end, second.offer.mem);
	check_silent(another);
	sv_guest_mem_gone(first.offer.mem);
	check_gone(end, first.offer.mem);
	check_gone(another, first.offer.mem);
	sv_guest_mem_gone(first.offer.mem);
	sv_guest_push(0);
	check_given(end, &first, true);
	check_given(another, &first, false);
	check_silent(end);
	check_silent(another);
	check_silent(mute);
	assert_int_equal(sv_mem_free(second.mem), 0);
	end_region(&first);
	end_region(&third);
	assert_int_equal(bare_open(), before);
	drop_all();
	close(mute);
	close(end);
	close(another);
}

/* So many at a time, which fit into the socket; the next time the rest. */
static void test_many(void **state)
{
	static struct region regions[MANY];
	struct sv_msg msg;
	int end, n;

	(void)state;
	set_qp(1, THEIR_SLOT, PD, ALL);
	set_qp(2, THEIR_SLOT, PD, ALL);
	for (int i = 0; i < MANY; i++)
		make_region(&regions[i], PD, ALL);
	end = add_greeted();
	for (n = 0; heard(end, &msg); n++)
		assert_int_equal(msg.mem, regions[MANY - 1 - n].offer.mem);
	assert_int_equal(n, 64);
	sv_guest_push(2);
	while (heard(end, &msg))
		assert_int_equal(msg.mem, regions[MANY - 1 - n++].offer.mem);
	assert_int_equal(n, MANY);
	drop_all();
	for (int i = 0; i < MANY; i++)
		end_region(&regions[i]);
	close(end);
}

/* What finds no room in the socket is given the next time. */
static void test_no_room(void **state)
{
	const struct sv_msg filler = { .type = SV_MSG_JOIN_OK };
	struct region region, gone;
	struct sv_msg msg;
	int end, fd;

	(void)state;
	set_qp(1, THEIR_SLOT, PD, READ);
	end = add_greeted();
	fd = bare_proc.guests->watch.fd;
	while (!sv_msg_send(fd, &filler, NULL, 0))
		;
	make_region(&region, PD, READ);
	assert_int_equal(bare_proc.guests->ngiven, 0);
	while (heard(end, &msg))
		assert_int_equal(msg.type, SV_MSG_JOIN_OK);
	make_region(&gone, PD, 0);
	assert_int_equal(sv_mem_free(gone.mem), 0);
	gone.offer.access = READ; /* of memory that isn't there */
	sv_guest_push(1);
	check_given(end, &region, false);
	check_silent(end);
	sv_guest_withdraw(&gone.offer);
	end_region(&region);
	drop_all();
	close(end);
}

/* ---- what is remembered ---- */

static void test_remembered(void **state)
{
	int end = add_greeted();
	struct sv_guest *guest = bare_proc.guests;

	(void)state;
	sv_guest_remember(guest, 1, false);
	sv_guest_remember(guest, 1, false);
	sv_guest_remember(guest, 2, true);
	sv_guest_remember(guest, 2, false); /* is in it */
	assert_int_equal(guest->ngiven, 2);
	sv_guest_remember(guest, 1, true);
	sv_guest_remember(guest, 3, false);
	assert_int_equal(guest->ngiven, 4);
	sv_guest_mem_gone(1); /* both, told once */
	assert_int_equal(guest->ngiven, 2);
	check_gone(end, 1);
	check_silent(end);
	sv_guest_mem_gone(3);
	sv_guest_mem_gone(2);
	check_gone(end, 3);
	check_gone(end, 2);
	assert_int_equal(guest->ngiven, 0);
	drop_all();
	close(end);
}

/* It is not told of those beyond the most that are remembered. */
static void test_too_many(void **state)
{
	int end = add_greeted();
	struct sv_guest *guest = bare_proc.guests;

	(void)state;
	for (uint32_t mem = 1; mem <= GIVEN_MAX + 1; mem++)
		sv_guest_remember(guest, mem, false);
	assert_int_equal(guest->ngiven, GIVEN_MAX);
	sv_guest_mem_gone(GIVEN_MAX + 1);
	check_silent(end);
	sv_guest_mem_gone(GIVEN_MAX);
	check_gone(end, GIVEN_MAX);
	drop_all();
	close(end);
}

#define BARE(test) cmocka_unit_test_setup_teardown(test, bare_begin, bare_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BARE(test_watched), BARE(test_refused), BARE(test_dropped),    BARE(test_last),
		BARE(test_rights),  BARE(test_who),	BARE(test_offered),    BARE(test_many),
		BARE(test_no_room), BARE(test_remembered), BARE(test_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

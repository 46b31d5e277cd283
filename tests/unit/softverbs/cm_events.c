/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_events.c -- event channels of connection management: what is queued is told in order, each once; what
 * goes with an id, what moves to another channel, and what a forked child has of them.
 */
#include "tests/unit/softverbs/cm_lock.h"
#include "tests/unit/softverbs/events.h"
#include "common/softverbs/cm/conn.h"
#include "common/softverbs/cm/event.h"

static struct rdma_event_channel *new_channel(void)
{
	struct rdma_event_channel *ch = sv_create_event_channel();

	CHECK(ch && !fcntl(ch->fd, F_SETFL, O_NONBLOCK));
	return ch;
}

static struct rdma_cm_id *new_id(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id;

	CHECK(!sv_create_id(ch, &id, NULL, RDMA_PS_TCP));
	return id;
}

/* Told apart by their status. */
static void queue(struct rdma_cm_id *id, int status)
{
	pthread_mutex_lock(&sv_cm.lock);
	sv_cm_queue(sv_id_of(id), RDMA_CM_EVENT_ADDR_ERROR, status, NULL);
	pthread_mutex_unlock(&sv_cm.lock);
}

/* A request that nobody has taken. */
static struct rdma_cm_id *ask(struct rdma_cm_id *listener)
{
	static const struct sv_cm_msg req = { .type = SV_CM_REQ, .src.sin6_family = AF_INET, .dst.sin6_family = AF_INET };
	struct sv_id *id;

	pthread_mutex_lock(&sv_cm.lock);
	id = sv_cm_new_id(sv_id_of(listener));
	CHECK(id);
	sv_cm_on_request(id, sv_id_of(listener), &req);
	pthread_mutex_unlock(&sv_cm.lock);
	return &id->id;
}

static void expect_none(struct rdma_event_channel *ch)
{
	struct rdma_cm_event *ev = NULL;

	errno = 0;
	CHECK(sv_get_cm_event(ch, &ev) == -1 && errno == EAGAIN && !ev);
}

static void expect(struct rdma_event_channel *ch, struct rdma_cm_id *id, int status)
{
	struct rdma_cm_event *ev = next_event(ch);

	CHECK(ev->id == id && ev->status == status && !sv_ack_cm_event(ev));
}

/* ---- what goes with an id ---- */

static void order(int sock)
{
	struct rdma_event_channel *ch, *other;
	struct rdma_cm_id *ids[3];

	(void)sock;
	watch_lock();
	ch = new_channel();
	other = new_channel();
	for (int gone = 0; gone < 3; gone++) {
		int left[2] = { (gone + 1) % 3, (gone + 2) % 3 };

		for (int i = 0; i < 3; i++)
			ids[i] = new_id(ch);
		queue(ids[gone], 1);
		queue(ids[left[0]], 2);
		queue(ids[gone], 3);
		queue(ids[left[1]], 4);
		queue(ids[gone], 5);
		CHECK(!sv_destroy_id(ids[gone]));
		queue(ids[left[0]], 6);
		queue(ids[left[0]], 7);
		expect(ch, ids[left[0]], 2);
		expect(ch, ids[left[1]], 4);
		expect(ch, ids[left[0]], 6);
		queue(ids[left[1]], 8);
		expect(ch, ids[left[0]], 7);
		expect(ch, ids[left[1]], 8);
		expect_none(ch);
		queue(ids[left[0]], 9);
		CHECK(!sv_destroy_id(ids[left[0]])); /* its was the only one */
		queue(ids[left[1]], 10);
		expect(ch, ids[left[1]], 10);
		expect_none(ch);
		CHECK(!sv_destroy_id(ids[left[1]]));
	}
	expect_none(other);
	sv_destroy_event_channel(other);
	sv_destroy_event_channel(ch);
	CHECK(sv_get_cm_event(other, &(struct rdma_cm_event *){ NULL }) == -1 && errno == EBADF);
}

/* With a listener go the requests that nobody has taken, and what was told of them. */
static void unknown(int sock)
{
	struct rdma_event_channel *ch;
	struct rdma_cm_id *listener, *other, *taken;
	struct rdma_cm_event *ev;

	(void)sock;
	watch_lock();
	ch = new_channel();
	listener = new_id(ch);
	other = new_id(ch);
	taken = ask(listener);
	ev = next_event(ch);
	CHECK(ev->event == RDMA_CM_EVENT_CONNECT_REQUEST && ev->id == taken && !sv_ack_cm_event(ev));
	queue(taken, 1);
	queue(ask(listener), 2);
	queue(other, 3);
	queue(ask(listener), 4);
	CHECK(sv_id_of(listener)->nrequests == 3);
	CHECK(!sv_destroy_id(listener));
	expect(ch, taken, 1);
	expect(ch, other, 3);
	expect_none(ch);
	pthread_mutex_lock(&sv_cm.lock);
	CHECK(sv_cm.ids && sv_cm.ids->next && !sv_cm.ids->next->next); /* these two */
	pthread_mutex_unlock(&sv_cm.lock);
	CHECK(!sv_destroy_id(taken) && !sv_destroy_id(other));
	sv_destroy_event_channel(ch);
}

static void test_ends(void **state)
{
	(void)state;
	kit_run(order, unknown);
}

/* ---- what moves ---- */

static void moved(int sock)
{
	struct rdma_event_channel *from, *to;
	struct rdma_cm_id *id, *other, *request;
	struct rdma_cm_event *ev;

	(void)sock;
	watch_lock();
	from = new_channel();
	to = new_channel();
	id = new_id(from);
	other = new_id(from);
	queue(other, 1);
	queue(id, 2);
	request = ask(id);
	queue(other, 3);
	queue(id, 4);
	CHECK(!sv_migrate_id(id, to) && id->channel == to && request->channel == to && other->channel == from);
	queue(id, 5);
	queue(other, 6);
	queue(request, 7);
	expect(from, other, 1);
	expect(from, other, 3);
	expect(from, other, 6);
	expect_none(from);
	expect(to, id, 2);
	ev = next_event(to);
	CHECK(ev->event == RDMA_CM_EVENT_CONNECT_REQUEST && ev->id == request && ev->listen_id == id);
	CHECK(!sv_ack_cm_event(ev));
	expect(to, id, 4);
	expect(to, id, 5);
	expect(to, request, 7);
	expect_none(to);
	CHECK(!sv_destroy_id(id) && !sv_destroy_id(request) && !sv_destroy_id(other));
	sv_destroy_event_channel(from);
	sv_destroy_event_channel(to);
}

/* To a channel of its own, in which it waits for each of its calls, and away from there. */
static void synchronous(int sock)
{
	struct sockaddr_in local = loopback(htons(9));
	struct rdma_event_channel *ch, *own;
	struct rdma_cm_id *id;

	(void)sock;
	watch_lock();
	ch = new_channel();
	id = new_id(ch);
	CHECK(!sv_migrate_id(id, NULL));
	own = id->channel;
	CHECK(own && own != ch && !id->event);
	CHECK(!sv_resolve_addr(id, NULL, (struct sockaddr *)&local, 1000));
	CHECK(id->event && id->event->event == RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!sv_migrate_id(id, ch) && id->channel == ch && !id->event);
	errno = 0;
	CHECK(sv_get_cm_event(own, &(struct rdma_cm_event *){ NULL }) == -1 && errno == EBADF);
	CHECK(!sv_resolve_route(id, 1000) && !id->event);
	expect(ch, id, 0);
	expect_none(ch);
	CHECK(!sv_destroy_id(id));
	sv_destroy_event_channel(ch);
}

static void test_moves(void **state)
{
	(void)state;
	kit_run(moved, synchronous);
}

/* ---- a forked child ---- */

static void be_child(struct rdma_event_channel *ch, const struct rdma_cm_id *theirs)
{
	struct rdma_cm_event *ev = NULL;
	struct sockaddr_in any = loopback(0);
	struct rdma_event_channel *own;
	struct rdma_cm_id *id;

	alarm(KIT_LIMIT_S);
	errno = 0;
	CHECK(sv_get_cm_event(ch, &ev) == -1 && errno == EBADF && !ev);
	CHECK(!sv_cm.ids && !sv_cm.channels && atomic_load(&sv_cm.next_ns) == UINT64_MAX);
	own = new_channel();
	id = new_id(own);
	CHECK(sv_cm.ids == sv_id_of(id) && !sv_cm.ids->next);
	CHECK(!sv_bind_addr(id, (struct sockaddr *)&any) && !sv_listen(id, 1));
	CHECK(id->verbs && id->verbs != theirs->verbs && id->pd && id->pd != theirs->pd);
	CHECK(id->pd->context == id->verbs && fcntl(id->verbs->async_fd, F_GETFD) != -1);
	queue(id, 1);
	expect(own, id, 1);
	CHECK(!sv_destroy_id(id));
	sv_destroy_event_channel(own);
	_exit(0);
}

/* It has none of its parent's ids, channels and deadlines, and opens the device for itself; the parent has
 * all of them. */
static void forking(int sock)
{
	struct rdma_event_channel *ch = new_channel();
	struct sockaddr_in local = loopback(0);
	struct rdma_cm_id *id = new_id(ch);
	uint64_t due = kit_now_ns() + 3600000000000ull;
	int status;
	pid_t pid;

	(void)sock;
	CHECK(!sv_bind_addr(id, (struct sockaddr *)&local));
	queue(id, 1);
	pthread_mutex_lock(&sv_cm.lock);
	sv_id_of(id)->deadline_ns = due;
	atomic_store(&sv_cm.next_ns, due);
	pthread_mutex_unlock(&sv_cm.lock);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		be_child(ch, id);
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK(sv_cm.ids == sv_id_of(id));
	expect(ch, id, 1);
	CHECK(!sv_destroy_id(id));
	sv_destroy_event_channel(ch);
}

static void test_fork(void **state)
{
	(void)state;
	kit_skip_in_tsan();
	kit_run(forking, kit_nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_moves),
		cmocka_unit_test(test_fork),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

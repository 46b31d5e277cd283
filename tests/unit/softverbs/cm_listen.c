/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_listen.c -- connection management: whom a listener takes, and whom it hangs up on. */
#include "tests/unit/descriptors.h"
#include "tests/unit/softverbs/cm_far.h"

/* ---- whom a listener takes ---- */

/* What is next is the end of the id's time wait; the control thread has nothing to do then. */
static void expect_quiet(struct rdma_event_channel *ch)
{
	expect_event(ch, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	for (int looks = 0; looks < 100; looks++) {
		if (is_readable(sv_proc->epoll_fd, 0))
			looks = 0;
		CHECK(!is_readable(ch->fd, 0));
		sched_yield();
	}
}

static void taken(int sock)
{
	struct rdma_event_channel *ch = begin("4000");
	struct rdma_cm_id *listener = listen_local(ch, RDMA_PS_TCP, 4), *id;
	int far = far_dial("cm", sv_get_src_port(listener));
	struct rdma_conn_param param = some_param;
	struct sv_cm_msg msg;

	(void)sock;
	say(far, SV_CM_REQ);
	id = take_request(ch);
	CHECK(!sv_accept(id, &param));
	hear(far, SV_CM_REP, &msg);
	check_some(&msg, 14);
	CHECK(!is_readable(ch->fd, 0));
	say(far, SV_CM_RTU);
	expect_event(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	say(far, SV_CM_DREQ);
	hear(far, SV_CM_DREP, &msg);
	expect_event(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK(!sv_disconnect(id) && !sv_destroy_id(id));
	hear_end(far);
	/* Without parameters: what was asked for. */
	far = far_dial("cm", sv_get_src_port(listener));
	say(far, SV_CM_REQ);
	id = take_request(ch);
	CHECK(!sv_accept(id, NULL));
	hear(far, SV_CM_REP, &msg);
	CHECK(!msg.qpn && msg.responder_resources == 2 && msg.initiator_depth == 1);
	CHECK(is_zero(msg.data, sizeof(msg.data)));
	say(far, SV_CM_RTU);
	expect_event(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	close(far);
	expect_event(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_quiet(ch);
	CHECK(!sv_destroy_id(id));
	end(ch, listener);
}

/* Of datagrams: asked and answered, and nothing else. */
static void taken_datagrams(int sock)
{
	struct rdma_event_channel *ch = begin("4000");
	struct rdma_cm_id *listener = listen_local(ch, RDMA_PS_UDP, 4), *id;
	int far = far_dial("cu", sv_get_src_port(listener));
	struct rdma_conn_param param = some_param;
	struct sv_cm_msg msg;

	(void)sock;
	say(far, SV_CM_REQ);
	id = take_request(ch);
	CHECK(!sv_accept(id, &param));
	hear(far, SV_CM_REP, &msg);
	CHECK(msg.qpn == 0x123 && !memcmp(msg.data, "data", 4));
	hear_end(far);
	CHECK(!sv_destroy_id(id));
	end(ch, listener);
}

static void fails(int ret, int error)
{
	CHECK(ret == -1 && errno == error);
}

/* As much as an answer has room for, to the last byte, and none more. */
static void longest(int sock)
{
	struct rdma_event_channel *ch = begin("4000");
	struct rdma_cm_id *listener = listen_local(ch, RDMA_PS_TCP, 4), *id;
	int far = far_dial("cm", sv_get_src_port(listener));
	struct rdma_conn_param param = some_param;
	uint8_t data[SV_CM_REP_DATA + 1];
	struct sv_cm_msg msg;

	(void)sock;
	memset(data, 0x5a, sizeof(data));
	param.private_data = data;
	say(far, SV_CM_REQ);
	id = take_request(ch);
	param.private_data_len = 197;
	fails(sv_accept(id, &param), EINVAL);
	param.private_data_len = 196;
	CHECK(!sv_accept(id, &param));
	hear(far, SV_CM_REP, &msg);
	CHECK(!memcmp(msg.data, data, 196));
	fails(sv_reject(id, NULL, 0), EINVAL); /* it has its answer */
	CHECK(!sv_destroy_id(id));
	hear_end(far);
	far = far_dial("cm", sv_get_src_port(listener));
	say(far, SV_CM_REQ);
	id = take_request(ch);
	fails(sv_reject(id, data, 149), EINVAL);
	CHECK(!sv_reject(id, data, 148));
	hear(far, SV_CM_REJ, &msg);
	CHECK(!memcmp(msg.data, data, 148) && is_zero(msg.data + 148, sizeof(msg.data) - 148));
	hear_end(far);
	CHECK(!sv_destroy_id(id));
	end(ch, listener);
}

static void test_taken(void **state)
{
	(void)state;
	kit_run(taken, taken_datagrams);
	kit_run(longest, kit_nothing);
}

/* ---- whom it doesn't ---- */

static void misunderstood(int sock)
{
	static const uint32_t types[] = { 0, SV_CM_REP, SV_CM_RTU, SV_CM_REJ, SV_CM_DREQ, SV_CM_DREP, 99 };
	struct rdma_event_channel *ch = begin("4000");
	struct rdma_cm_id *listener = listen_local(ch, RDMA_PS_TCP, 0);
	uint16_t port = sv_get_src_port(listener);
	int far, left = count_descriptors();

	(void)sock;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		far = far_dial("cm", port);
		say(far, types[i]);
		hear_end(far);
	}
	for (int i = 0; i < 3; i++) {
		far = far_dial("cm", port);
		say_bytes(far, SV_CM_REQ, SV_ABI_VERSION - (i == 0), sizeof(struct sv_cm_msg) + (size_t)i % 2 - (i == 2));
		hear_end(far);
	}
	close(far_dial("cm", port)); /* without a word */
	far = far_dial("cm", port);
	say(far, SV_CM_REQ);
	CHECK(!sv_destroy_id(take_request(ch))); /* which was behind all of these */
	hear(far, SV_CM_REJ, &(struct sv_cm_msg){ 0 });
	hear_end(far);
	CHECK(count_descriptors() <= left + 1); /* one that is kept for when there are none */
	end(ch, listener);
}

/* One more than its backlog is refused, until one was answered. */
static void too_many(int sock)
{
	struct rdma_event_channel *ch = begin("60000");
	struct rdma_cm_id *listener = listen_local(ch, RDMA_PS_TCP, 2), *ids[3];
	uint16_t port = sv_get_src_port(listener);
	struct sv_cm_msg msg;
	int far[4];

	(void)sock;
	for (int i = 0; i < 3; i++) {
		far[i] = far_dial("cm", port);
		say(far[i], SV_CM_REQ);
		if (i < 2)
			ids[i] = take_request(ch);
	}
	hear(far[2], SV_CM_REJ, &msg);
	CHECK(msg.reason == SV_REJ_NO_RESOURCES && is_zero(msg.data, sizeof(msg.data)));
	hear_end(far[2]);
	CHECK(!sv_reject(ids[0], NULL, 0));
	hear(far[0], SV_CM_REJ, &msg);
	CHECK(msg.reason == SV_REJ_CONSUMER);
	hear_end(far[0]);
	far[2] = far_dial("cm", port);
	say(far[2], SV_CM_REQ);
	ids[2] = take_request(ch);
	CHECK(!sv_accept(ids[1], NULL));
	hear(far[1], SV_CM_REP, &msg);
	far[3] = far_dial("cm", port);
	say(far[3], SV_CM_REQ);
	CHECK(!sv_destroy_id(take_request(ch)));
	for (int i = 0; i < 3; i++)
		CHECK(!sv_destroy_id(ids[i]));
	for (int i = 1; i < 4; i++)
		close(far[i]);
	end(ch, listener);
}

/* How many may wait for an answer: as many as the owner says, or as the device has room for. */
static void backlogs(int sock)
{
	static const struct {
		int asked;
		unsigned int waiting;
	} all[] = { { -1, 1024 }, { 0, 1024 }, { 1, 1 }, { 1023, 1023 }, { 1024, 1024 }, { 1025, 1024 } };
	struct rdma_event_channel *ch = begin("4000");

	(void)sock;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct rdma_cm_id *listener = listen_local(ch, RDMA_PS_TCP, all[i].asked);

		CHECK(sv_id_of(listener)->backlog == all[i].waiting);
		CHECK(!sv_destroy_id(listener));
	}
	sv_destroy_event_channel(ch);
}

static void test_refused(void **state)
{
	(void)state;
	kit_run(misunderstood, too_many);
	kit_run(backlogs, kit_nothing);
}

/* ---- who calls and says nothing ---- */

#define MUTE 256

static void mute(int sock)
{
	struct rdma_event_channel *ch = begin("500");
	struct rdma_cm_id *listener = listen_local(ch, RDMA_PS_TCP, MUTE + 8);
	uint16_t port = sv_get_src_port(listener);
	uint64_t began = kit_now_ns();
	int far[MUTE];

	(void)sock;
	for (int i = 0; i < MUTE; i++)
		far[i] = far_dial("cm", port);
	hear_end(far_dial("cm", port)); /* one too many */
	say(far[1], SV_CM_REQ); /* who speaks is none of them any more */
	CHECK(!sv_destroy_id(take_request(ch)));
	close(far[1]);
	far[1] = far_dial("cm", port);
	hear_end(far_dial("cm", port));
	hear_end(far[0]); /* for as long as they are given */
	CHECK(kit_now_ns() - began >= 500000000u);
	for (int i = 1; i < MUTE; i++)
		hear_end(far[i]);
	CHECK(!setenv("SOFTVERBS_CM_TIMEOUT_MS", "60000", 1));
	for (int i = 0; i < 3; i++)
		far[i] = far_dial("cm", port);
	say(far[1], SV_CM_REQ);
	CHECK(!sv_destroy_id(take_request(ch)));
	close(far[1]);
	end(ch, listener);
	hear_end(far[0]);
	hear_end(far[2]);
}

/* With the listener those go who it has not heard of. */
static void orphans(int sock)
{
	struct rdma_event_channel *ch = begin("60000");
	struct rdma_cm_id *listener = listen_local(ch, RDMA_PS_TCP, 4);
	uint16_t port = sv_get_src_port(listener);
	int first = far_dial("cm", port), second = far_dial("cm", port), third = far_dial("cm", port);

	(void)sock;
	say(third, SV_CM_REQ);
	CHECK(is_readable(ch->fd, KIT_LIMIT_S * 1000));
	CHECK(!sv_destroy_id(listener));
	hear_end(first);
	hear_end(second);
	hear_end(third); /* nor has anybody heard of its request */
	CHECK(!is_readable(ch->fd, 0));
	sv_destroy_event_channel(ch);
}

static void test_mute(void **state)
{
	(void)state;
	kit_run(mute, orphans);
}

/* ---- others' processes ---- */

#define NOBODY 65534

/* Nobody, with a socket: of its own, or to the listener. */
static void be_nobody(int sock)
{
	struct rdma_event_channel *ch;
	char fabric[32];
	int fd;

	snprintf(fabric, sizeof(fabric), "wire-%d", (int)kit_hear(sock));
	ch = begin("4000");
	CHECK(ch && !setuid(NOBODY));
	snprintf(sv_proc->fabric, sizeof(sv_proc->fabric), "%s", fabric);
	hear_end(far_dial("cm", (uint16_t)kit_hear(sock)));
	fd = far_listen(1000);
	kit_say(sock, 1);
	kit_hear(sock);
	close(fd);
}

static void be_careful(int sock)
{
	struct rdma_event_channel *ch = begin("4000");
	struct rdma_cm_id *listener = listen_local(ch, RDMA_PS_TCP, 4), *id = ready_to_ask(ch);

	kit_say(sock, (uint64_t)getpid());
	kit_say(sock, sv_get_src_port(listener));
	CHECK(kit_hear(sock) == 1);
	CHECK(!sv_connect(id, NULL));
	expect_event(ch, RDMA_CM_EVENT_REJECTED, SV_REJ_NO_SERVICE);
	kit_say(sock, 1);
	CHECK(!sv_destroy_id(id));
	end(ch, listener);
}

static void test_others(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	kit_run(be_careful, be_nobody);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_taken),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_mute),
		cmocka_unit_test(test_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

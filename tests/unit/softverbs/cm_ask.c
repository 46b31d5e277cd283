/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_ask.c -- connection management: who asks a process that the test plays: each message, and what no answer does. */
#include "tests/unit/descriptors.h"
#include "tests/unit/softverbs/cm_far.h"

/* ---- who asks ---- */

static void check_request(const struct rdma_cm_id *id, const struct sv_cm_msg *req, uint8_t ack_timeout)
{
	check_some(req, ack_timeout);
	CHECK(!memcmp(&req->src, &id->route.addr.src_storage, sizeof(struct sockaddr_in)));
	CHECK(!memcmp(&req->dst, &id->route.addr.dst_storage, sizeof(struct sockaddr_in)));
}

/* Asks, with the other's end of the connection. */
static struct rdma_cm_id *asked(struct rdma_event_channel *ch, int listener, int *far)
{
	struct rdma_conn_param param = some_param;
	struct rdma_cm_id *id = ready_to_ask(ch);
	struct sv_cm_msg req;

	CHECK(!sv_connect(id, &param));
	*far = far_accept(listener);
	hear(*far, SV_CM_REQ, &req);
	check_request(id, &req, 14);
	return id;
}

static struct rdma_cm_id *responded(struct rdma_event_channel *ch, int listener, int *far)
{
	struct rdma_cm_id *id = asked(ch, listener, far);

	say(*far, SV_CM_REP);
	expect_event(ch, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	return id;
}

static void asker(int sock)
{
	struct rdma_event_channel *ch = begin("4000");
	struct rdma_conn_param param = some_param;
	int listener = far_listen(4), far;
	uint8_t ack_timeout = 31;
	struct rdma_cm_id *id;
	struct sv_cm_msg msg;

	(void)sock;
	id = responded(ch, listener, &far);
	CHECK(!sv_establish(id));
	hear(far, SV_CM_RTU, &msg);
	CHECK(is_zero(&msg.qpn, sizeof(msg) - offsetof(struct sv_cm_msg, qpn)));
	CHECK(!sv_disconnect(id));
	hear(far, SV_CM_DREQ, &msg);
	say(far, SV_CM_DREP);
	expect_event(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK(!sv_destroy_id(id));
	hear_end(far);
	id = ready_to_ask(ch);
	CHECK(!sv_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack_timeout, 1));
	close(STDIN_FILENO); /* its descriptor is a connection's, too */
	CHECK(!sv_connect(id, &param));
	CHECK(fcntl(STDIN_FILENO, F_GETFD) != -1);
	far = far_accept(listener);
	hear(far, SV_CM_REQ, &msg);
	check_request(id, &msg, 31);
	close(far);
	expect_event(ch, RDMA_CM_EVENT_UNREACHABLE, -ECONNRESET);
	close(listener);
	end(ch, id);
}

/* Who leaves says so to who waits for an answer. */
static void leaver(int sock)
{
	struct rdma_event_channel *ch = begin("4000");
	int listener = far_listen(4), far;
	struct rdma_cm_id *id;
	struct sv_cm_msg msg;

	(void)sock;
	for (int i = 0; i < 2; i++) {
		id = i ? responded(ch, listener, &far) : asked(ch, listener, &far);
		CHECK(!sv_destroy_id(id));
		hear(far, SV_CM_REJ, &msg);
		CHECK(msg.reason == 28 && is_zero(msg.data, sizeof(msg.data)));
		hear_end(far);
	}
	id = responded(ch, listener, &far);
	CHECK(!sv_reject(id, "no", 2));
	hear(far, SV_CM_REJ, &msg);
	CHECK(msg.reason == 28 && !memcmp(msg.data, "no", 2) && is_zero(msg.data + 2, sizeof(msg.data) - 2));
	hear_end(far);
	CHECK(!sv_destroy_id(id));
	id = responded(ch, listener, &far);
	CHECK(!sv_establish(id));
	hear(far, SV_CM_RTU, &msg);
	close(listener);
	end(ch, id);
	hear_end(far);
}

static void test_askers(void **state)
{
	(void)state;
	kit_run(asker, leaver);
}

/* ---- whoever is asked and doesn't answer ---- */

static void expect_after(struct rdma_event_channel *ch, enum rdma_cm_event_type type, int status, uint64_t since_ns,
			 unsigned least_ms)
{
	expect_event(ch, type, status);
	CHECK(kit_now_ns() - since_ns >= least_ms * 1000000ull);
}

static void silent(int sock)
{
	struct rdma_event_channel *ch = begin("50");
	struct rdma_cm_id *id = ready_to_ask(ch);
	uint64_t began = kit_now_ns();
	int listener, far;

	(void)sock;
	CHECK(!setenv("SOFTVERBS_CM_TIMEOUT_MS", "4000", 1));
	CHECK(!sv_connect(id, NULL)); /* there is nobody */
	expect_after(ch, RDMA_CM_EVENT_REJECTED, SV_REJ_NO_SERVICE, began, 100);
	CHECK(kit_now_ns() - began < 3900000000ull && !sv_destroy_id(id));
	CHECK(!setenv("SOFTVERBS_CM_TIMEOUT_MS", "50", 1));
	listener = far_listen(4);
	began = kit_now_ns();
	id = asked(ch, listener, &far);
	expect_after(ch, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, began, 50);
	hear_end(far);
	CHECK(!sv_destroy_id(id));
	/* What can't be understood ends it, too. */
	for (int i = 0; i < 3; i++) {
		id = asked(ch, listener, &far);
		say_bytes(far, SV_CM_REP, SV_ABI_VERSION + (i == 0), sizeof(struct sv_cm_msg) + (size_t)i % 2 - (i == 2));
		expect_event(ch, RDMA_CM_EVENT_UNREACHABLE, -ECONNRESET);
		hear_end(far);
		CHECK(!sv_destroy_id(id));
	}
	close(listener);
	sv_destroy_event_channel(ch);
}

/* A listener whose backlog is full is asked once there is room, and one that comes a moment later. */
static void busy(int sock)
{
	struct rdma_event_channel *ch = begin("60000");
	int listener = far_listen(0), before = far_dial("cm", htons(PORT)), far;
	struct rdma_conn_param param = some_param;
	struct rdma_cm_id *id = ready_to_ask(ch);
	struct sv_cm_msg msg;

	(void)sock;
	CHECK(!sv_connect(id, &param));
	CHECK(!is_readable(ch->fd, 20));
	close(far_accept(listener));
	far = far_accept(listener);
	hear(far, SV_CM_REQ, &msg);
	check_request(id, &msg, 14);
	say(far, SV_CM_REP);
	expect_event(ch, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	close(before);
	close(far);
	close(listener);
	expect_event(ch, RDMA_CM_EVENT_UNREACHABLE, -ECONNRESET);
	CHECK(!sv_destroy_id(id));
	id = ready_to_ask(ch);
	CHECK(!sv_connect(id, &param));
	listener = far_listen(1);
	far = far_accept(listener);
	hear(far, SV_CM_REQ, &msg);
	close(listener);
	end(ch, id);
	close(far);
}

static void test_no_answer(void **state)
{
	(void)state;
	kit_run(silent, busy);
}

/* ---- what is left of it ---- */

/* Nobody listens, or the port is another's: however often it was tried, nothing stays open. */
static void nobody(int sock)
{
	struct rdma_event_channel *ch = begin("4000");
	struct rdma_cm_id *id = ready_to_ask(ch), *other, *owner = listen_local(ch, RDMA_PS_TCP, 1);
	struct sockaddr_in addr = loopback(sv_get_src_port(owner));
	int left;

	(void)sock;
	CHECK(!sv_create_id(ch, &other, NULL, RDMA_PS_TCP));
	left = count_descriptors();
	CHECK(!sv_connect(id, NULL));
	expect_event(ch, RDMA_CM_EVENT_REJECTED, SV_REJ_NO_SERVICE);
	CHECK(count_descriptors() == left);
	for (int i = 0; i < 2; i++) {
		errno = 0;
		CHECK(sv_bind_addr(other, (struct sockaddr *)&addr) == -1 && errno == EADDRINUSE);
		CHECK(count_descriptors() == left);
	}
	CHECK(!sv_destroy_id(owner));
	CHECK(!sv_bind_addr(other, (struct sockaddr *)&addr)); /* it is free again */
	CHECK(!sv_destroy_id(id));
	end(ch, other);
}

/* Who asks from a port of its own holds it until it asks, and no longer than it lives. */
static void from_a_port(int sock)
{
	struct rdma_event_channel *ch = begin("4000");
	struct sockaddr_in source = loopback(0), addr = loopback(htons(PORT));
	int listener = far_listen(4), far, left;
	struct rdma_cm_id *id, *next;
	struct sv_cm_msg msg;

	(void)sock;
	CHECK(!sv_create_id(ch, &next, NULL, RDMA_PS_TCP));
	left = count_descriptors();
	CHECK(!sv_create_id(ch, &id, NULL, RDMA_PS_TCP));
	CHECK(!sv_bind_addr(id, (struct sockaddr *)&source));
	source.sin_port = sv_get_src_port(id);
	CHECK(sv_bind_addr(next, (struct sockaddr *)&source) == -1 && errno == EADDRINUSE);
	CHECK(!sv_resolve_addr(id, NULL, (struct sockaddr *)&addr, 1000));
	expect_event(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(!sv_resolve_route(id, 1000));
	expect_event(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	CHECK(!sv_connect(id, NULL));
	far = far_accept(listener);
	hear(far, SV_CM_REQ, &msg);
	CHECK(((struct sockaddr_in *)(void *)&msg.src)->sin_port == source.sin_port);
	CHECK(!sv_destroy_id(id));
	hear(far, SV_CM_REJ, &msg);
	hear_end(far);
	CHECK(count_descriptors() == left);
	CHECK(!sv_bind_addr(next, (struct sockaddr *)&source));
	close(listener);
	end(ch, next);
}

static void test_left(void **state)
{
	(void)state;
	kit_run(nobody, from_a_port);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_askers),
		cmocka_unit_test(test_no_answer),
		cmocka_unit_test(test_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

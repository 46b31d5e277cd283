/* SPDX-License-Identifier: BSD-2-Clause */
/* client/session/connect.c: a connection is made step by step; each may fail, and nothing is left of it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "client/session/connect.h"
#include "client/session/teardown.h"
#include "tests/unit/client/dial.h"

#define PEER "127.0.0.1:7000"

static struct kvd_session *s;
static struct engine *e;

static int set_up(void **state)
{
	(void)state;
	alarm(20); /* a lock that nobody gives back */
	dial_new(1);
	s = &dial.end->session;
	e = dial.end->engine;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	dial_delete();
	alarm(0);
	return 0;
}

static void must_fail(int code, const char *text)
{
	assert_int_equal(session_attempt(s, 4000), code);
	assert_string_equal(e->health.err.text, text);
	assert_false(e->health.connected);
	assert_int_equal(dial.open, 0);
	assert_int_equal(dial.greetings, 0);
	assert_null(e->qp);
	assert_null(e->channel);
}

static void must_work(void)
{
	int rc = session_attempt(s, 4000);

	if (rc)
		fail_msg("%d: %s", rc, e->health.err.text);
	assert_true(health_is_usable(&e->health));
}

/* -------------------------------------------------------------------- one that works */

static void test_what_is_asked_for(void **state)
{
	static const uint8_t no_nonce[WIRE_NONCE_BYTES];

	(void)state;
	dial.end->client.space = 0x1234567890ull;
	must_work();
	assert_int_equal(dial.space, RDMA_PS_TCP);
	assert_int_equal(dial.addr_ms, 4000);
	assert_int_equal(dial.route_ms, 4000);
	assert_int_equal(dial.acks, DIAL_EVENTS);
	assert_int_equal(dial.cqe, e->sq_depth + e->rx_count);
	assert_int_equal(dial.vector, 0);
	assert_ptr_equal(dial.memory.addr, s->memory);
	assert_int_equal(dial.memory.bytes, s->memory_bytes);
	assert_int_equal(dial.memory.access, IBV_ACCESS_LOCAL_WRITE);
	assert_ptr_equal(dial.page.addr, e->held.page);
	assert_int_equal(dial.page.bytes, 4096);
	assert_int_equal(dial.page.access, IBV_ACCESS_REMOTE_READ);
	assert_ptr_equal(dial.qp.send_cq, e->cq);
	assert_ptr_equal(dial.qp.recv_cq, e->cq);
	assert_int_equal(dial.qp.cap.max_send_wr, e->sq_depth);
	assert_int_equal(dial.qp.cap.max_recv_wr, e->rx_count);
	assert_int_equal(dial.qp.cap.max_send_sge, 16);
	assert_int_equal(dial.qp.cap.max_inline_data, 256);
	assert_int_equal(e->inline_bytes, 256);
	assert_int_equal(dial.receives, e->rx_count);
	for (unsigned i = IBV_QPS_INIT; i <= IBV_QPS_RTS; i++)
		assert_int_equal(dial.state[i].qp_access_flags, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(dial.param.qp_num, e->qp->qp_num);
	assert_int_equal(dial.said.magic, WIRE_MAGIC);
	assert_int_equal(dial.said.version, WIRE_VERSION);
	assert_int_equal(dial.said.depth, e->depth);
	assert_int_equal(dial.said.space, 0x1234567890ull);
	assert_memory_equal(dial.said.nonce, no_nonce, sizeof no_nonce);
	assert_int_equal(dial.established, 1);
	assert_int_equal(s->server_qpn, 4321);
	assert_int_equal(s->attempt_ms, 4000);
}

/* Nothing of the last connection is left in a new one. */
static void test_begins_anew(void **state)
{
	(void)state;
	e->health.broken = e->health.moved = e->health.silent = e->health.was_lost = true;
	e->health.notice = 2;
	strcpy(e->health.lost.text, "it broke");
	e->probes = true;
	e->tried_ns = 5;
	e->table.clock.known = true;
	e->table.clock.low_ns = INT64_MAX;
	e->table.grant.is_needed = true;
	e->sq_posted = 77;
	e->sq_done = 70;
	e->wr_count = 3;
	e->unsignaled = 9;
	e->home_ns = e->drains_ns = 9;
	e->is_homesick = true;
	e->held.page[3].token = 7;
	e->held.count = 1;
	must_work();
	assert_int_equal(e->connections, 1);
	assert_false(e->health.broken || e->health.moved || e->health.silent || e->health.was_lost);
	assert_int_equal(e->health.notice, 0);
	assert_int_equal(e->health.port, 1);
	assert_string_equal(e->health.lost.text, "");
	assert_false(e->probes);
	assert_int_equal(e->tried_ns, 0);
	assert_true(e->table.clock.low_ns < INT64_MAX);
	assert_false(e->table.grant.is_needed);
	assert_int_equal(e->sq_posted, 1); /* the hello */
	assert_int_equal(e->sq_done, 0);
	assert_int_equal(e->unsignaled, 1);
	assert_int_equal(e->wr_count, 0);
	assert_int_equal(e->held.page[3].token, 0);
	assert_int_equal(e->held.count, 0);
	assert_int_equal(e->home_ns, 0);
	assert_int_equal(e->drains_ns, 0);
	assert_false(e->is_homesick);
	assert_int_equal(s->others, 1);
	assert_int_equal(dial.end->client.route.instance, 100);
}

/* It is registered once, for all connections that are by the same device. */
static void test_registers_once(void **state)
{
	(void)state;
	must_work();
	session_disconnect(s);
	assert_int_equal(dial.open, 0);
	dial.memory = dial.page = (struct dial_mr){ 0 };
	must_work();
	assert_null(dial.memory.addr);
	assert_null(dial.page.addr);
	assert_int_equal(e->connections, 2);
}

static struct ibv_device_attr limits;

static int query_limits(struct ibv_context *of, struct ibv_device_attr *attr)
{
	(void)of;
	*attr = limits;
	return 0;
}

/* As much as both the device and the protocol have a use for. */
static void test_limits_of_the_device(void **state)
{
	static const struct {
		int sge, reads;
		unsigned sges, depth;
	} cases[] = { { 4, 3, 4, 3 }, { 15, 15, 15, 15 }, { 17, 17, 16, 16 }, { 30, 200, 16, 16 } };

	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		limits = (struct ibv_device_attr){ .max_sge = cases[i].sge,
						   .max_qp_rd_atom = cases[i].reads,
						   .max_qp_init_rd_atom = cases[i].reads };
		dial.verbs.query_device = query_limits;
		must_work();
		assert_int_equal(e->sge_max, cases[i].sges);
		assert_int_equal(dial.qp.cap.max_send_sge, cases[i].sges);
		assert_int_equal(e->message_bytes_max, 1u << 20);
		assert_int_equal(dial.param.initiator_depth, cases[i].depth);
		assert_int_equal(dial.param.responder_resources, cases[i].depth);
		assert_int_equal(dial.state[IBV_QPS_RTS].max_rd_atomic, cases[i].depth);
		assert_int_equal(dial.state[IBV_QPS_RTR].max_dest_rd_atomic, cases[i].depth);
		tear_down(state);
		set_up(state);
	}
}

static unsigned timeout_with(unsigned places, int ack_timeout)
{
	dial_delete();
	dial_new(places);
	s = &dial.end->session;
	e = dial.end->engine;
	dial.end->client.device.tuning.ack_timeout = ack_timeout;
	dial.end->client.route.deals = true;
	must_work();
	return dial.state[IBV_QPS_RTS].timeout;
}

/* Who has another way gives a cut one up sooner, unless the user has said how soon. */
static void test_timeout_of_the_device(void **state)
{
	(void)state;
	assert_int_equal(timeout_with(1, DEVICE_UNSET), 14);
	assert_int_equal(timeout_with(2, DEVICE_UNSET), 13);
	assert_true(e->probes);
	assert_int_equal(timeout_with(2, 20), 20);
	assert_int_equal(timeout_with(1, 20), 20);
}

/* ------------------------------------------------------------------------- that fail */

static void test_each_step_fails(void **state)
{
#define WHY ": No such device or address"
	static const struct {
		enum dial_step step;
		int code;
		const char *text;
	} cases[] = {
		{ DIAL_CHANNEL, KVD_EDEVICE,
		  "can't open an RDMA event channel (is the module rdma_ucm loaded?)" WHY },
		{ DIAL_ID, KVD_EDEVICE, "can't create an RDMA id" WHY },
		{ DIAL_ADDR, KVD_ECONNECT, "resolving the address " PEER WHY },
		{ DIAL_ROUTE, KVD_ECONNECT, "resolving the route to " PEER WHY },
		{ DIAL_DOMAIN, KVD_EDEVICE, "can't allocate a protection domain" WHY },
		{ DIAL_COMP, KVD_EDEVICE, "can't create a completion channel" WHY },
		{ DIAL_CQ, KVD_EDEVICE, "can't create a completion queue" WHY },
		{ DIAL_MEMORY, KVD_EDEVICE, "can't register 12 KiB of memory: the locked-memory limit "
					    "may be too low (see 'ulimit -l')" WHY },
		{ DIAL_PAGE, KVD_EDEVICE, "can't register a page of memory" WHY },
		{ DIAL_QP, KVD_EDEVICE, "can't create a queue pair (64 sends, 9 receives)" WHY },
		{ DIAL_INIT, KVD_EDEVICE, "can't bring the queue pair to INIT" WHY },
		{ DIAL_RECEIVE, KVD_EDEVICE, "posting a receive failed" WHY },
		{ DIAL_CONNECT, KVD_ECONNECT, "connecting to " PEER WHY },
		{ DIAL_GONE, KVD_ECONNECT, "the connection ended as it began: rdma_init_qp_attr for RTR" WHY },
		{ DIAL_RTR, KVD_EDEVICE, "can't bring the queue pair to RTR" WHY },
		{ DIAL_RTS, KVD_EDEVICE, "can't bring the queue pair to RTS" WHY },
		{ DIAL_ESTABLISH, KVD_ECONNECT, "establishing the connection to " PEER WHY },
	};

	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		dial.fails = cases[i].step;
		e->probes = true; /* of the last one */
		must_fail(cases[i].code, cases[i].text);
		assert_false(e->probes);
		assert_int_equal(s->attempt_ms, 4000);
		tear_down(state);
		set_up(state);
	}
	/* And then it works. */
	dial.fails = DIAL_RTS;
	assert_int_equal(session_attempt(s, 4000), KVD_EDEVICE);
	dial.fails = DIAL_NONE;
	must_work();
}

static void test_what_is_told_instead(void **state)
{
	static const struct {
		unsigned step;
		enum rdma_cm_event_type event;
		int status;
		const char *text;
	} cases[] = {
		{ 0, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV,
		  "resolving the address to " PEER ": no route to the address through an RDMA device "
		  "(RDMA_CM_EVENT_ADDR_ERROR, No such device)" },
		{ 1, RDMA_CM_EVENT_ROUTE_ERROR, -EHOSTUNREACH,
		  "resolving the route to " PEER ": the address has no RDMA route "
		  "(RDMA_CM_EVENT_ROUTE_ERROR, No route to host)" },
		{ 2, RDMA_CM_EVENT_CONNECT_ERROR, 1,
		  "connecting to " PEER ": the connection failed while it was made "
		  "(RDMA_CM_EVENT_CONNECT_ERROR, status 1)" },
		{ 2, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT,
		  "connecting to " PEER ": the host does not answer "
		  "(RDMA_CM_EVENT_UNREACHABLE, Connection timed out)" },
		{ 2, RDMA_CM_EVENT_REJECTED, 8,
		  "connecting to " PEER ": nothing listens on that port: is kvd running? "
		  "(RDMA_CM_EVENT_REJECTED, status 8)" },
	};

	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		dial.event[cases[i].step] = cases[i].event;
		dial.status[cases[i].step] = cases[i].status;
		dial.accept_bytes = 0;
		must_fail(KVD_ECONNECT, cases[i].text);
		assert_int_equal(dial.acks, cases[i].step + 1);
		assert_false(e->health.device_lost || e->health.was_lost);
		tear_down(state);
		set_up(state);
	}
}

static void test_device_is_taken_away(void **state)
{
	(void)state;
	dial.event[2] = RDMA_CM_EVENT_DEVICE_REMOVAL;
	must_fail(KVD_ECONNECT, "connecting to " PEER ": the RDMA device was taken away "
				"(RDMA_CM_EVENT_DEVICE_REMOVAL, status 0)");
	assert_true(e->health.was_lost);
	assert_int_equal(dial.registered, 0);
}

static void test_refusals(void **state)
{
	static const struct {
		unsigned refusal;
		int code;
		const char *why;
	} cases[] = {
		{ WIRE_ACCEPTED, KVD_ECONNECT, "it did not say why" },
		{ WIRE_REFUSED_MAGIC, KVD_ECONNECT, "it does not know this protocol" },
		{ WIRE_REFUSED_VERSION, KVD_EPROTOCOL, "it speaks another version of the protocol" },
		{ WIRE_REFUSED_CONNECTIONS, KVD_ECONNECT,
		  "it has as many connections as it may have, see --connections" },
		{ WIRE_REFUSED_RESOURCES, KVD_ECONNECT,
		  "it has no resources for a connection (see its log)" },
		{ WIRE_REFUSED_STOPPING, KVD_ECONNECT, "it is stopping" },
		{ WIRE_REFUSED_RATE, KVD_ECONNECT,
		  "too many connections from here in a short time, see --handshakes" },
		{ WIRE_REFUSED_SPACE, KVD_ECONNECT, "it has no such namespace, see --namespace" },
		{ WIRE_REFUSALS, KVD_ECONNECT, "?" },
		{ WIRE_REFUSALS + 1, KVD_ECONNECT, "?" },
	};

	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char text[256];

		snprintf(text, sizeof text, "kvd at " PEER " refused the connection: %s (its protocol "
			 "is 11, ours %u)", cases[i].why, WIRE_VERSION);
		dial.event[2] = RDMA_CM_EVENT_REJECTED;
		dial.status[2] = 28;
		dial.accept.refusal = (uint16_t)cases[i].refusal;
		dial.accept.version = 11;
		must_fail(cases[i].code, text);
		tear_down(state);
		set_up(state);
	}
}

/* Who refuses without kvd's words is no kvd, whatever one said before. */
static void test_refused_by_another(void **state)
{
	static const char text[] = "connecting to " PEER ": the peer refused it "
				   "(RDMA_CM_EVENT_REJECTED, status 28)";

	(void)state;
	must_work();
	session_disconnect(s);
	dial_forget();
	dial.event[2] = RDMA_CM_EVENT_REJECTED;
	dial.status[2] = 28;
	dial.accept_bytes = 0;
	must_fail(KVD_ECONNECT, text);
	dial.accept_bytes = sizeof dial.accept - 1;
	must_fail(KVD_ECONNECT, text);
	dial.accept_bytes = sizeof dial.accept;
	dial.accept.magic++;
	must_fail(KVD_ECONNECT, text);
}

static void test_accepted_by_another(void **state)
{
	static const char text[] = "what listens at " PEER " is not kvd, or of another version";

	(void)state;
	dial.accept.magic++;
	must_fail(KVD_EPROTOCOL, text);
	dial.accept.magic--;
	dial.accept.version++;
	must_fail(KVD_EPROTOCOL, text);
	dial.accept.version--;
	dial.accept_bytes--;
	must_fail(KVD_EPROTOCOL, text);
	dial.accept_bytes = 56; /* rdma_cm fills it up */
	must_work();
}

static void test_no_answer(void **state)
{
	(void)state;
	dial.is_hushed = true;
	uint64_t begun = clock_ns();
	assert_int_equal(session_attempt(s, 30), KVD_ECONNECT);
	assert_in_range(clock_ns() - begun, 30000000, 3000000000);
	assert_string_equal(e->health.err.text,
			    "resolving the address to " PEER ": no answer within 5000 ms: is kvd "
			    "running there, and is the port right?");
	assert_int_equal(dial.open, 0);
	assert_in_range(dial.looks, 2, 20); /* it slept meanwhile */
}

static void test_looks_that_fail(void **state)
{
	(void)state;
	dial.event_failures = 3;
	dial.event_errno = EINTR;
	must_work();
	session_disconnect(s);
	dial.event_failures = 3;
	dial.event_errno = EAGAIN;
	must_work();
	session_disconnect(s);
	dial_forget();
	dial.event_failures = 1;
	dial.event_errno = EIO;
	must_fail(KVD_ECONNECT, "resolving the address to " PEER ": Input/output error");
	assert_int_equal(dial.looks, 1);
}

/* ----------------------------------------------------------- who else is there, and where */

static const char *fabric;
static uint16_t looked_for;

static bool listens_elsewhere(uint16_t port, char *name, size_t bytes)
{
	looked_for = port;
	snprintf(name, bytes, "%s", fabric ? fabric : "");
	return fabric;
}

static void refuse_at(const char *address, const char *of)
{
	struct addr addr;
	struct err err;

	assert_int_equal(addr_parse(&addr, address, &err), 0);
	dial.end->client.route.of[0] = addr;
	fabric = of;
	looked_for = 0;
	dial.event[2] = RDMA_CM_EVENT_REJECTED;
	dial.status[2] = 8;
	dial.accept_bytes = 0;
	dial.verbs.listens_elsewhere = listens_elsewhere;
}

static void test_kvd_of_another_user(void **state)
{
	(void)state;
	refuse_at(PEER, "1000");
	must_fail(KVD_ECONNECT,
		  "connecting to " PEER ": on that port there is a kvd of user 1000, and the software "
		  "device serves one user only: be that user (sudo -u '#1000' ...), or give kvd an RDMA "
		  "device (see 'kvcli doctor')");
	assert_int_equal(looked_for, 7000);
	dial.end->client.route.at = 0;
	refuse_at("[::1]:7001", "team7");
	must_fail(KVD_ECONNECT,
		  "connecting to [::1]:7001: on that port kvd is in another fabric of the software "
		  "device: set SOFTVERBS_FABRIC=team7");
	assert_int_equal(looked_for, 7001);
	refuse_at(PEER, NULL);
	must_fail(KVD_ECONNECT, "connecting to " PEER ": nothing listens on that port: is kvd running? "
				"(RDMA_CM_EVENT_REJECTED, status 8)");
	assert_int_equal(looked_for, 7000);
	/* Who does not answer may be another one, too; who failed is not. */
	refuse_at(PEER, "1000");
	dial.event[2] = RDMA_CM_EVENT_UNREACHABLE;
	assert_int_equal(session_attempt(s, 4000), KVD_ECONNECT);
	assert_non_null(strstr(e->health.err.text, "a kvd of user 1000"));
	dial.event[2] = RDMA_CM_EVENT_CONNECT_ERROR;
	must_fail(KVD_ECONNECT, "connecting to " PEER ": the connection failed while it was made "
				"(RDMA_CM_EVENT_CONNECT_ERROR, status 8)");
}

/* The line is written under the client's lock. */
static int query_port_locked(struct ibv_context *of, uint8_t port, struct ibv_port_attr *attr)
{
	(void)of, (void)port;
	attr->max_msg_sz = 1u << 20;
	assert_int_not_equal(pthread_mutex_trylock(&dial.end->client.lock), 0);
	return 0;
}

static int (*plain_create_id)(struct rdma_event_channel *, struct rdma_cm_id **, void *,
			      enum rdma_port_space);

static int create_id_of_port(struct rdma_event_channel *on, struct rdma_cm_id **new, void *of,
			     enum rdma_port_space space)
{
	int rc = plain_create_id(on, new, of, space);

	if (!rc)
		(*new)->port_num = 2;
	return rc;
}

/* A device of the system: it has to be the one that was asked for, and what it counts is noted. */
static void test_device_of_the_system(void **state)
{
	struct device *d = &dial.end->client.device;

	(void)state;
	plain_create_id = dial.verbs.create_id;
	dial.verbs.create_id = create_id_of_port;
	dial.verbs.query_port = query_port_locked;
	dial.verbs.soft = true;
	e->counted.value[0] = 5;
	must_work();
	assert_int_equal(e->counted.value[0], 5);
	assert_int_equal(e->health.port, 2);
	session_disconnect(s);
	dial_forget();
	dial.verbs.soft = false;
	must_work();
	assert_int_equal(e->counted.value[0], 0); /* there is no such device */
	assert_non_null(strstr(d->line, "RDMA device device0 (of the address " PEER "), port 2"));
	session_disconnect(s);
	dial_forget();
	dial.greetings = 0;
	strcpy(d->name, "device1");
	must_fail(KVD_EDEVICE, "the address " PEER " belongs to the RDMA device device0, not to device1");
	assert_int_equal(dial.route_ms, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_asked_for),
		TEST(test_begins_anew),
		TEST(test_registers_once),
		TEST(test_limits_of_the_device),
		TEST(test_timeout_of_the_device),
		TEST(test_each_step_fails),
		TEST(test_what_is_told_instead),
		TEST(test_device_is_taken_away),
		TEST(test_refusals),
		TEST(test_refused_by_another),
		TEST(test_accepted_by_another),
		TEST(test_no_answer),
		TEST(test_looks_that_fail),
		TEST(test_kvd_of_another_user),
		TEST(test_device_of_the_system),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

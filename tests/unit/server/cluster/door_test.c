/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/link/door.h, event by event: who asks and who is asked, each call that fails, what is told
 * of it, and that nothing is left.  rdma_cm and the device are made up; each call is noted by a word.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/rdma/link.h"
#include "server/cluster/link/door.h"
#include "server/cluster/link/impl.h"
#include "server/cluster/link/make.h"
#include "server/cluster/link/port.h"
#include "tests/unit/made_up.h"

#define S 1000000000ull
#define TO "127.0.0.1:7001"

static char calls[1024], failed[256];
static const char *fails; /* the word of the call that does */
static struct link_door *door;
static struct err err;
static struct ibv_context context, other_context;
static struct ibv_pd pd = { .context = &context };
static struct ibv_qp qp = { .qp_num = 77 };
static struct rdma_event_channel channel;
static struct rdma_cm_id ids[24];
static unsigned id_count, ids_left;
static struct rdma_cm_event *pending;
static struct link_peer *adopted;
static struct link_knock sent_knock;
static uint32_t sent_qpn, sent_bytes, sent_issues, sent_answers;
static struct addr to, listen_at;
static uint8_t device_rd_atom;
static const struct link_lane lane = { .shard = 3, .number = 5 };
static struct link_port port; /* of that lane */
static bool has_port;

/* 0, or -1 with EIO. */
static int call(const char *word)
{
	strncat(calls, word, sizeof calls - strlen(calls) - 1);
	strncat(calls, " ", sizeof calls - strlen(calls) - 1);
	errno = EIO;
	return fails && !strcmp(word, fails) ? -1 : 0;
}

static void expect_calls(const char *words)
{
	assert_string_equal(calls, words);
	calls[0] = '\0';
}

/* -------------------------------------------------------------------- made up */

static struct rdma_event_channel *create_event_channel(void) { return call("channel") ? NULL : &channel; }
static void destroy_event_channel(struct rdma_event_channel *c) { call(c == &channel ? "no-channel" : "?"); }

static int create_id(struct rdma_event_channel *c, struct rdma_cm_id **id, void *of, enum rdma_port_space space)
{
	assert_true(c == &channel && space == RDMA_PS_TCP);
	if (call("id"))
		return -1;
	*id = &ids[id_count++];
	**id = (struct rdma_cm_id){ .context = of, .verbs = &context };
	ids_left++;
	return 0;
}

static int destroy_id(struct rdma_cm_id *id)
{
	ids_left--;
	return call(id ? "no-id" : "?");
}

static int bind_addr(struct rdma_cm_id *id, struct sockaddr *at) { return call(id == ids && at ? "bind" : "?"); }
static int listen_with(struct rdma_cm_id *id, int backlog)
{
	return call(id == ids && backlog == LINK_KNOCKS_MAX ? "listen" : "?");
}

static __be16 get_src_port(struct rdma_cm_id *id) { return id == ids ? htons(4711) : 0; }

static int resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *at, int timeout_ms)
{
	const struct sockaddr_in *a = (const struct sockaddr_in *)(const void *)at;

	assert_true(id->context && ntohs(a->sin_port) == 7001 && timeout_ms == 1000);
	if (from)
		assert_memory_equal(from, &listen_at.v4, sizeof listen_at.v4); /* whatever port */
	return call(from ? "address-from" : "address");
}

static int resolve_route(struct rdma_cm_id *id, int timeout_ms) { return call(id && timeout_ms == 1000 ? "route" : "?"); }

static void note_param(const struct rdma_conn_param *p)
{
	sent_bytes = p->private_data_len;
	memcpy(&sent_knock, p->private_data, sizeof sent_knock);
	sent_qpn = p->qp_num;
	sent_issues = p->initiator_depth;
	sent_answers = p->responder_resources;
}

static int do_connect(struct rdma_cm_id *id, struct rdma_conn_param *p)
{
	note_param(p);
	return call(id ? "connect" : "?");
}

static int do_accept(struct rdma_cm_id *id, struct rdma_conn_param *p)
{
	note_param(p);
	return call(id ? "accept" : "?");
}

static int do_reject(struct rdma_cm_id *id, const void *data, uint8_t bytes)
{
	assert_true(id && bytes == (data ? sizeof sent_knock : 0));
	if (data)
		memcpy(&sent_knock, data, bytes);
	return call(data ? "reject-knock" : "reject");
}

static int establish(struct rdma_cm_id *id) { return call(id ? "establish" : "?"); }
static int disconnect(struct rdma_cm_id *id) { return call(id ? "disconnect" : "?"); }
static int destroy_qp(struct ibv_qp *q) { return call(q == &qp ? "no-qp" : "?"); }

static int get_cm_event(struct rdma_event_channel *c, struct rdma_cm_event **event)
{
	*event = c == &channel ? pending : NULL;
	pending = NULL;
	return *event ? 0 : -1;
}

/* What it says is gone with it. */
static int ack_cm_event(struct rdma_cm_event *event)
{
	if (event->param.conn.private_data)
		memset((void *)(uintptr_t)event->param.conn.private_data, 0, event->param.conn.private_data_len);
	memset(event, 0, sizeof *event);
	return call("ack");
}

static const struct verbs verbs = {
	.create_event_channel = create_event_channel, .destroy_event_channel = destroy_event_channel,
	.create_id = create_id, .destroy_id = destroy_id, .bind_addr = bind_addr, .listen = listen_with,
	.get_src_port = get_src_port, .resolve_addr = resolve_addr, .resolve_route = resolve_route,
	.connect = do_connect, .accept = do_accept, .reject = do_reject, .establish = establish,
	.disconnect = disconnect, .destroy_qp = destroy_qp, .get_cm_event = get_cm_event,
	.ack_cm_event = ack_cm_event,
};
static struct device device = { .verbs = &verbs };

MADE_UP(int, link_query, const struct verbs *v, struct ibv_context *ctx, uint8_t of, struct link_limits *limits,
	struct err *e)
{
	assert_true(v == &verbs && ctx == &context && of == 2);
	*limits = (struct link_limits){ .rd_atom = device_rd_atom };
	return call("query") ? err_set(e, -1, "no limits") : 0;
}

MADE_UP(int, device_prepare, const struct device *of, struct rdma_cm_id *id) { return call(of && id ? "prepare" : "?"); }

MADE_UP(int, link_make_queues, struct link_peer *p, struct err *e)
{
	if (call("queues"))
		return err_set(e, -1, "no queues");
	p->qp = &qp;
	return 0;
}

MADE_UP(int, link_qp_ready_tuned, const struct verbs *v, struct rdma_cm_id *id, struct ibv_qp *q, int access,
	uint8_t issues, uint8_t answers, const struct device_tuning *tuning, struct err *e)
{
	assert_true(v == &verbs && id && q == &qp && !access && tuning == &device.tuning);
	sent_issues = issues;
	sent_answers = answers;
	return call("ready") ? err_set(e, -1, "not ready") : 0;
}

MADE_UP(int, link_qp_set_error, const struct verbs *v, struct ibv_qp *q) { return call(v && q == &qp ? "error" : "?"); }

MADE_UP(void, link_port_adopt, struct link_port *at, struct link_peer *p)
{
	adopted = p;
	call(at == &port ? "adopt" : "?");
}

/* ------------------------------------------------------------------------- kit */

static struct link_port *port_of(void *arg, const struct link_lane *of)
{
	assert_true(arg == &port && !memcmp(of, &lane, sizeof lane));
	return has_port ? &port : NULL;
}

static void has_failed(void *arg, const struct addr *at, const struct link_lane *of, const char *why)
{
	assert_true(arg == &port && !strcmp(at->text, TO) && !memcmp(of, &lane, sizeof lane));
	snprintf(failed, sizeof failed, "%s", why);
}

static struct link_door_options options = { .device = &device, .pd = &pd, .device_port = 2, .port = port_of,
					    .failed = has_failed, .arg = &port };

static void open_door(void)
{
	if (link_door_new(&options, &door, &err))
		fail_msg("%s", err.text);
	calls[0] = '\0';
}

static void expect_no_door(const char *why, const char *words)
{
	id_count = 0;
	assert_int_equal(link_door_new(&options, &door, &err), -1);
	assert_null(door);
	assert_string_equal(err.text, why);
	expect_calls(words);
}

/* An event of that id, with that knock. */
static void happen_with(enum rdma_cm_event_type kind, struct rdma_cm_id *id, const struct link_knock *knock,
			unsigned bytes)
{
	static struct rdma_cm_event event;
	static uint8_t data[64];

	event = (struct rdma_cm_event){ .event = kind, .id = id };
	event.param.conn = (struct rdma_conn_param){ .qp_num = 99, .initiator_depth = 4, .responder_resources = 3 };
	if (knock) {
		memcpy(data, knock, sizeof *knock);
		event.param.conn.private_data = data;
		event.param.conn.private_data_len = (uint8_t)bytes;
	}
	pending = &event;
	link_door_poll(door, S);
}

static void happen(enum rdma_cm_event_type kind, struct rdma_cm_id *id) { happen_with(kind, id, NULL, 0); }

/* One that asks, up to that word. */
static struct rdma_cm_id *connect_to(const char *up_to)
{
	struct rdma_cm_id *id = &ids[id_count];

	assert_int_equal(link_door_connect(door, &to, &lane, S, &err), 0);
	if (strcmp(up_to, "address"))
		happen(RDMA_CM_EVENT_ADDR_RESOLVED, id);
	if (!strcmp(up_to, "connect"))
		happen(RDMA_CM_EVENT_ROUTE_RESOLVED, id);
	calls[0] = '\0';
	return id;
}

static void expect_failed(const char *why)
{
	char text[256];

	snprintf(text, sizeof text, "can't connect to the member at " TO ": %s", why);
	assert_string_equal(failed, text);
	failed[0] = '\0';
	assert_int_equal(ids_left, 0);
}

static struct link_knock knock_of(uint32_t oldest, uint32_t latest)
{
	struct link_knock knock;

	link_knock_fill(&knock, &lane, &(struct link_versions){ oldest, latest });
	return knock;
}

/* ------------------------------------------------------------------------ a door */

static void test_a_door(void **state)
{
	(void)state;
	assert_int_equal(link_door_new(&options, &door, &err), 0);
	expect_calls("query channel ");
	assert_true(fcntl(link_door_fd(door), F_GETFL) & O_NONBLOCK);
	assert_int_equal(link_door_fd(door), channel.fd);
	link_door_delete(&door);
	expect_calls("no-channel ");
	link_door_delete(&door);
	options.listen = &listen_at;
	assert_int_equal(link_door_new(&options, &door, &err), 0);
	expect_calls("query channel id prepare bind listen ");
	assert_string_equal(link_door_addr(door)->text, "127.0.0.2:4711");
	link_door_delete(&door);
	expect_calls("no-id no-channel ");
}

static void test_no_door(void **state)
{
	int fd = channel.fd;

	(void)state;
	options.listen = &listen_at;
	fails = "query";
	expect_no_door("no limits", "query ");
	fails = "channel";
	expect_no_door("can't open an RDMA event channel: Input/output error", "query channel ");
	fails = "id";
	expect_no_door("can't create an RDMA id: Input/output error", "query channel id no-channel ");
	fails = "prepare";
	expect_no_door("can't create an RDMA id: Input/output error", "query channel id prepare no-id no-channel ");
	fails = "bind";
	expect_no_door("can't listen for other members on 127.0.0.2:0: Input/output error",
		       "query channel id prepare bind no-id no-channel ");
	fails = "listen";
	expect_no_door("can't listen for other members on 127.0.0.2:0: Input/output error",
		       "query channel id prepare bind listen no-id no-channel ");
	fails = NULL;
	channel.fd = -1;
	expect_no_door("fcntl: Bad file descriptor", "query channel no-channel ");
	channel.fd = fd;
}

/* ---------------------------------------------------------------------- who asks */

static void test_who_asks(void **state)
{
	struct link_knock answer = knock_of(1, LINK_VERSION);
	struct rdma_cm_id *id;

	(void)state;
	open_door();
	id = &ids[id_count];
	assert_int_equal(link_door_connect(door, &to, &lane, S, &err), 0);
	expect_calls("id prepare address ");
	happen(RDMA_CM_EVENT_ADDR_RESOLVED, id);
	expect_calls("ack route ");
	happen(RDMA_CM_EVENT_ROUTE_RESOLVED, id);
	expect_calls("ack queues connect ");
	assert_int_equal(sent_bytes, sizeof sent_knock);
	assert_true(sent_knock.version == LINK_VERSION && sent_knock.oldest == LINK_VERSION_OLDEST);
	assert_memory_equal(&sent_knock.lane, &lane, sizeof lane);
	assert_int_equal(sent_qpn, 77);
	assert_true(sent_issues == 5 && sent_answers == 5);
	sent_issues = sent_answers = 0;
	happen_with(RDMA_CM_EVENT_CONNECT_RESPONSE, id, &answer, 64);
	expect_calls("ack ready establish adopt ");
	assert_true(sent_issues == 5 && sent_answers == 5);
	assert_true(adopted->is_asker && adopted->state == LINK_PROVING);
	assert_string_equal(adopted->addr.text, TO);
	assert_true(adopted->exchange.asks_qpn == 77 && adopted->exchange.answers_qpn == 99);
	assert_memory_equal(&adopted->exchange.answers, &answer, sizeof answer);
	assert_memory_equal(&adopted->exchange.asks, &sent_knock, sizeof answer);
	happen(RDMA_CM_EVENT_ESTABLISHED, id);
	happen(RDMA_CM_EVENT_TIMEWAIT_EXIT, id);
	expect_calls("ack ack ");
	assert_false(adopted->is_gone);
	happen(RDMA_CM_EVENT_DISCONNECTED, id);
	expect_calls("ack error ");
	assert_true(adopted->is_gone);
	link_return_qp(adopted);
	happen(RDMA_CM_EVENT_DISCONNECTED, id);
	expect_calls("no-qp ack ");
	link_return(adopted);
	link_door_poll(door, S);
	expect_calls("disconnect no-id ");
	assert_string_equal(failed, "");
	device_rd_atom = 200; /* as many as there is a use for */
	link_door_delete(&door);
	open_door();
	connect_to("connect");
	assert_int_equal(sent_issues, LINK_RD_ATOM_MAX);
}

static void test_each_call_fails(void **state)
{
	static const struct { const char *up_to, *fails; enum rdma_cm_event_type event; const char *calls, *why; } all[] = {
		{ "address", "route", RDMA_CM_EVENT_ADDR_RESOLVED, "ack route disconnect no-id ",
		  "resolving the route: Input/output error" },
		{ "route", "queues", RDMA_CM_EVENT_ROUTE_RESOLVED, "ack queues disconnect no-id ", "no queues" },
		{ "route", "connect", RDMA_CM_EVENT_ROUTE_RESOLVED, "ack queues connect disconnect no-qp no-id ",
		  "Input/output error" },
		{ "connect", "ready", RDMA_CM_EVENT_CONNECT_RESPONSE, "ack ready disconnect no-qp no-id ", "not ready" },
		{ "connect", "establish", RDMA_CM_EVENT_CONNECT_RESPONSE,
		  "ack ready establish disconnect no-qp no-id ", "Input/output error" },
	};
	static const char *const at_once[] = { "id", "prepare", "address" };
	static const char *const words[] = { "id ", "id prepare disconnect no-id ", "id prepare address disconnect no-id " };
	struct link_knock answer = knock_of(1, LINK_VERSION);

	(void)state;
	open_door();
	for (unsigned i = 0; i < 5; i++) {
		struct rdma_cm_id *id = connect_to(all[i].up_to);
		fails = all[i].fails;
		happen_with(all[i].event, id, &answer, 64);
		expect_calls(all[i].calls);
		expect_failed(all[i].why);
		fails = NULL;
	}
	for (unsigned i = 0; i < 3; i++) {
		fails = at_once[i];
		assert_int_equal(link_door_connect(door, &to, &lane, S, &err), -1);
		assert_string_equal(err.text, "can't connect to the member at " TO ": Input/output error");
		expect_calls(words[i]);
	}
	has_port = false;
	assert_int_equal(link_door_connect(door, &to, &lane, S, &err), -1);
	assert_string_equal(err.text, "no room for a connection to the member at " TO);
	expect_calls("");
	assert_int_equal(ids_left, 0);
}

static void test_answers(void **state)
{
	const struct link_knock later = knock_of(LINK_VERSION + 1, LINK_VERSION + 2);
	struct link_knock none = knock_of(1, 2);
	struct rdma_cm_id *id;
	char text[160];

	(void)state;
	open_door();
	none.magic++;
	snprintf(text, sizeof text, "it speaks versions %u to %u of the protocol between members, this one %u to %u: "
		 "upgrade from one to the next", LINK_VERSION + 1, LINK_VERSION + 2, LINK_VERSION_OLDEST, LINK_VERSION);
	happen_with(RDMA_CM_EVENT_CONNECT_RESPONSE, connect_to("connect"), &later, 64);
	expect_failed(text);
	happen_with(RDMA_CM_EVENT_REJECTED, connect_to("connect"), &later, sizeof later);
	expect_failed(text);
	happen_with(RDMA_CM_EVENT_CONNECT_RESPONSE, connect_to("connect"), &none, 64);
	expect_failed("what listens there is no member of a cluster");
	happen_with(RDMA_CM_EVENT_CONNECT_RESPONSE, connect_to("connect"), &later, sizeof later - 1);
	expect_failed("what listens there is no member of a cluster");
	happen_with(RDMA_CM_EVENT_REJECTED, connect_to("connect"), &none, 64);
	assert_null(strstr(failed, "versions"));
	failed[0] = '\0';
	happen_with(RDMA_CM_EVENT_UNREACHABLE, connect_to("connect"), &later, 64);
	assert_non_null(strstr(failed, "UNREACHABLE"));
	failed[0] = '\0';
	assert_int_equal(ids_left, 0);
	id = connect_to("route");
	id->verbs = &other_context;
	happen(RDMA_CM_EVENT_ROUTE_RESOLVED, id);
	expect_failed("it is reached by another device than the first one of --listen, by which members reach each other");
	/* From where it listens. */
	link_door_delete(&door);
	options.listen = &listen_at;
	id_count = 0;
	open_door();
	assert_int_equal(link_door_connect(door, &to, &lane, S, &err), 0);
	expect_calls("id prepare address-from ");
}

static void test_no_answer(void **state)
{
	(void)state;
	open_door();
	connect_to("connect");
	link_door_poll(door, S + LINK_CONNECT_NS - 1);
	assert_string_equal(failed, "");
	link_door_poll(door, S + LINK_CONNECT_NS);
	expect_failed("it has not answered within 3000 ms");
	options.failed = NULL; /* nobody wants to know */
	link_door_delete(&door);
	open_door();
	connect_to("address");
	link_door_poll(door, S + LINK_CONNECT_NS);
	assert_int_equal(ids_left, 0);
	options.failed = has_failed;
}

/* ------------------------------------------------------------------ who is asked */

/* Another id, which the listener has. */
static struct rdma_cm_id *knock(const struct link_knock *with, unsigned bytes)
{
	struct rdma_cm_id *id = &ids[id_count++];

	*id = (struct rdma_cm_id){ .context = NULL, .verbs = &context };
	id->route.addr.dst_sin = to.v4;
	ids_left++;
	adopted = NULL;
	calls[0] = '\0';
	happen_with(RDMA_CM_EVENT_CONNECT_REQUEST, id, with, bytes);
	return id;
}

static void test_who_is_asked(void **state)
{
	const struct link_knock asks = knock_of(1, LINK_VERSION + 7);

	(void)state;
	options.listen = &listen_at;
	open_door();
	knock(&asks, 64);
	expect_calls("ack queues ready accept adopt ");
	assert_true(!adopted->is_asker && adopted->state == LINK_PROVING);
	assert_string_equal(adopted->addr.text, TO);
	assert_memory_equal(&adopted->lane, &lane, sizeof lane);
	assert_memory_equal(&adopted->exchange.asks, &asks, sizeof asks);
	assert_memory_equal(&adopted->exchange.answers, &sent_knock, sizeof asks);
	assert_int_equal(sent_knock.version, LINK_VERSION);
	assert_true(adopted->exchange.asks_qpn == 99 && adopted->exchange.answers_qpn == 77 && sent_qpn == 77);
	assert_true(sent_issues == 4 && sent_answers == 3);
	assert_int_equal(sent_bytes, sizeof asks);
	link_door_poll(door, 100 * S); /* that is the port's by now */
	assert_int_equal(ids_left, 2);
	happen(RDMA_CM_EVENT_DEVICE_REMOVAL, &ids[0]); /* of the listener */
	assert_string_equal(failed, "");
}

static void test_turned_away(void **state)
{
	static const char *const steps[] = { "queues", "ready", "accept" };
	static const char *const words[] = { "ack queues reject disconnect no-id ",
					     "ack queues ready reject disconnect no-qp no-id ",
					     "ack queues ready accept reject disconnect no-qp no-id " };
	const struct link_knock good = knock_of(1, LINK_VERSION), later = knock_of(LINK_VERSION + 1, LINK_VERSION + 2);
	struct link_knock none = good;

	(void)state;
	options.listen = &listen_at;
	open_door();
	none.magic++;
	knock(&none, 64);
	expect_calls("ack reject no-id ");
	knock(&good, sizeof good - 1);
	expect_calls("ack reject no-id ");
	knock(&later, 64);
	expect_calls("ack reject-knock no-id ");
	assert_int_equal(sent_knock.version, LINK_VERSION);
	has_port = false;
	knock(&good, 64);
	expect_calls("ack reject no-id ");
	has_port = true;
	for (unsigned i = 0; i < 3; i++) {
		fails = steps[i];
		knock(&good, 64);
		expect_calls(words[i]);
	}
	fails = NULL;
	assert_int_equal(ids_left, 1);
	/* So many have proved nothing; those that are asked for here don't count. */
	connect_to("connect");
	for (unsigned i = 0; i < LINK_PROVING_MAX; i++) {
		knock(&good, 64);
		assert_non_null(adopted);
	}
	struct link_peer *last = adopted;
	knock(&good, 64);
	expect_calls("ack reject no-id ");
	last->state = LINK_UP;
	knock(&good, 64);
	assert_non_null(adopted);
}

/* -------------------------------------------------------------------------- group */

static int set_up(void **state)
{
	(void)state;
	assert_int_equal(addr_parse(&to, TO, &err), 0);
	assert_int_equal(addr_parse(&listen_at, "127.0.0.2:0", &err), 0);
	channel.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	options.listen = NULL;
	options.failed = has_failed;
	calls[0] = failed[0] = '\0';
	fails = NULL;
	id_count = ids_left = 0;
	pending = NULL;
	has_port = true;
	device_rd_atom = 5;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	fails = NULL;
	link_door_delete(&door);
	close(channel.fd);
	return (int)ids_left;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_a_door), TEST(test_no_door), TEST(test_who_asks), TEST(test_each_call_fails),
		TEST(test_answers), TEST(test_no_answer), TEST(test_who_is_asked), TEST(test_turned_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

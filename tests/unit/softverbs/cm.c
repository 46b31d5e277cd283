/* SPDX-License-Identifier: BSD-2-Clause */
/* cm.c -- connection management. */
#include "tests/unit/softverbs/events.h"

#define S IBV_SEND_SIGNALED

static struct rdma_cm_id *listen_any(struct rdma_event_channel *ch, struct sockaddr_in *addr,
				     int backlog)
{
	struct rdma_cm_id *id;

	CHECK(!sv_create_id(ch, &id, NULL, RDMA_PS_TCP));
	CHECK(!sv_bind_addr(id, (struct sockaddr *)addr));
	CHECK(!sv_listen(id, backlog));
	CHECK(ntohs(sv_get_src_port(id)) >= 32768);
	return id;
}

static struct rdma_cm_id *resolved(struct rdma_event_channel *ch, uint16_t port)
{
	struct sockaddr_in dst = loopback(port);
	struct rdma_cm_id *id;

	CHECK(!sv_create_id(ch, &id, (void *)ch, RDMA_PS_TCP));
	CHECK(!sv_resolve_addr(id, NULL, (struct sockaddr *)&dst, 1000));
	expect_event(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(id->verbs && id->context == (void *)ch);
	CHECK(!sv_resolve_route(id, 1000));
	expect_event(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return id;
}

/* ---- the queue pair is the application's: transitions by hand ---- */

/* The state, with no rights for the peer. */
static void step(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	CHECK(!sv_init_qp_attr(id, &attr, &mask));
	attr.qp_access_flags = 0;
	CHECK(!sv_modify_qp(qp, &attr, mask));
}

static void to_rts(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	step(id, qp, IBV_QPS_INIT);
	step(id, qp, IBV_QPS_RTR);
	step(id, qp, IBV_QPS_RTS);
}

static struct ibv_qp *fresh_qp(struct kit *k, struct rdma_cm_id *id)
{
	struct kit_opts opts = kit_defaults;

	(void)id;
	kit_open(k, &opts, k->sock);
	CHECK(!sv_destroy_qp(k->qp));
	return k->qp = kit_new_qp(k);
}

static void grant(struct ibv_qp *qp, unsigned int access)
{
	struct ibv_qp_attr attr = { .qp_access_flags = access };

	CHECK(!sv_modify_qp(qp, &attr, IBV_QP_ACCESS_FLAGS));
}

/* What it is connected with can be asked still. */
static void ask_again(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	int mask = 0;

	CHECK(!sv_init_qp_attr(id, &attr, &mask) && mask & IBV_QP_STATE);
	CHECK(attr.qp_state == IBV_QPS_RTS);
}

static void manual_server(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct sockaddr_in addr = loopback(0);
	struct rdma_cm_id *listener, *id;
	struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 2,
					 .rnr_retry_count = 7, .private_data = "welcome",
					 .private_data_len = 8 };
	struct rdma_cm_event *ev;
	struct kit k = { .sock = sock };

	CHECK(ch && (listener = listen_any(ch, &addr, 4)));
	kit_say(sock, sv_get_src_port(listener));
	ev = take_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	id = ev->id;
	CHECK(ev->listen_id == listener && ev->status == 0 && id->verbs);
	CHECK(ev->param.conn.private_data_len == 56);
	CHECK(!strcmp(ev->param.conn.private_data, "hello"));
	CHECK(ev->param.conn.responder_resources == 2 && ev->param.conn.initiator_depth == 4);
	CHECK(rdma_get_peer_addr(id)->sa_family == AF_INET);
	CHECK(sv_get_src_port(id) == sv_get_src_port(listener));
	CHECK(!sv_ack_cm_event(ev));
	param.qp_num = fresh_qp(&k, id)->qp_num;
	to_rts(id, k.qp);
	CHECK(!kit_post_recv(&k, 0, 64, 7));
	CHECK(!sv_accept(id, &param));
	expect_event(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	ask_again(id);
	kit_expect(k.rcq, 7, IBV_WC_SUCCESS);
	strcpy((char *)k.mem + 100, "read me");
	kit_say(sock, k.mr->rkey);
	kit_say(sock, (uintptr_t)k.mem);
	CHECK(kit_hear(sock) == 1); /* a READ was refused */
	expect_event(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
	kit_wait_state(k.qp, IBV_QPS_ERR);
	CHECK(kit_async(&k) == IBV_EVENT_QP_ACCESS_ERR);
	/* The second connection gets the right. */
	CHECK(!sv_destroy_id(id));
	ev = take_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	id = ev->id;
	CHECK(!sv_ack_cm_event(ev));
	kit_close(&k);
	param.qp_num = fresh_qp(&k, id)->qp_num;
	strcpy((char *)k.mem + 100, "read me");
	to_rts(id, k.qp);
	CHECK(!sv_accept(id, &param));
	expect_event(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	grant(k.qp, IBV_ACCESS_REMOTE_READ);
	kit_say(sock, k.mr->rkey);
	kit_say(sock, (uintptr_t)k.mem);
	expect_event(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK(!sv_destroy_id(id));
	CHECK(!sv_destroy_id(listener));
	kit_close(&k);
	sv_destroy_event_channel(ch);
}

static struct rdma_cm_id *manual_connect(struct kit *k, struct rdma_event_channel *ch,
					 uint16_t port)
{
	struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 2,
					 .retry_count = 3, .rnr_retry_count = 7,
					 .private_data = "hello", .private_data_len = 6 };
	struct rdma_cm_id *id = resolved(ch, port);
	struct rdma_cm_event *ev;

	param.qp_num = fresh_qp(k, id)->qp_num;
	CHECK(!sv_connect(id, &param));
	ev = take_event(ch, RDMA_CM_EVENT_CONNECT_RESPONSE);
	CHECK(ev->param.conn.private_data_len == 196);
	CHECK(!strcmp(ev->param.conn.private_data, "welcome"));
	CHECK(!sv_ack_cm_event(ev));
	to_rts(id, k->qp);
	CHECK(!sv_establish(id));
	return id;
}

static void manual_client(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	uint16_t port = (uint16_t)kit_hear(sock);
	struct kit k = { .sock = sock };
	struct rdma_cm_id *id;

	CHECK(ch && (id = manual_connect(&k, ch, port)));
	CHECK(!kit_post(&k, IBV_WR_SEND, 0, 8, 0, 1, S));
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	k.rkey = (uint32_t)kit_hear(sock);
	k.addr = kit_hear(sock);
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 100, 2, S));
	kit_expect(k.scq, 2, IBV_WC_REM_ACCESS_ERR);
	kit_say(sock, 1);
	CHECK(!sv_disconnect(id));
	expect_event(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK(!sv_destroy_id(id));
	kit_close(&k);
	id = manual_connect(&k, ch, port);
	k.rkey = (uint32_t)kit_hear(sock);
	k.addr = kit_hear(sock);
	CHECK(!kit_post(&k, IBV_WR_RDMA_READ, 0, 8, 100, 2, S));
	kit_expect(k.scq, 2, IBV_WC_SUCCESS);
	CHECK(!strcmp((char *)k.mem, "read me"));
	/* The end of the id is a disconnect too. */
	CHECK(!sv_destroy_id(id));
	kit_close(&k);
	sv_destroy_event_channel(ch);
}

static void test_manual(void **state)
{
	(void)state;
	kit_run(manual_client, manual_server);
}

/* ---- the queue pair is the id's ---- */

static void auto_server_with(int sock, uint8_t resources)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct rdma_conn_param param = { .responder_resources = resources, .rnr_retry_count = 7 };
	struct kit k = { .sock = sock };
	struct rdma_cm_id *listener, *id;
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { 16, 16, 1, 1, 0 } };
	struct ibv_qp_attr attr;
	struct rdma_cm_event *ev;

	CHECK(ch && (listener = listen_any(ch, &any, 4)));
	kit_say(sock, sv_get_src_port(listener));
	ev = take_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	id = ev->id;
	CHECK(!sv_ack_cm_event(ev));
	kit_open(&k, &kit_defaults, sock);
	init.send_cq = sv_create_cq(id->verbs, 16, NULL, NULL, 0);
	init.recv_cq = init.send_cq;
	CHECK(!sv_rdma_create_qp(id, NULL, &init));
	CHECK(!sv_accept(id, &param));
	CHECK(!sv_query_qp(id->qp, &attr, IBV_QP_ACCESS_FLAGS, &init));
	CHECK(attr.qp_state == IBV_QPS_RTS);
	CHECK((attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) != 0);
	CHECK(!(attr.qp_access_flags & IBV_ACCESS_REMOTE_READ) == !resources);
	expect_event(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_event(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK(!sv_disconnect(id));
	CHECK(kit_state(id->qp) == IBV_QPS_ERR);
	sv_rdma_destroy_qp(id);
	CHECK(!sv_destroy_cq(init.send_cq));
	CHECK(!sv_destroy_id(id));
	CHECK(!sv_destroy_id(listener));
	kit_close(&k);
	sv_destroy_event_channel(ch);
}

static void auto_server(int sock)
{
	auto_server_with(sock, 4);
}
static void mean_server(int sock)
{
	auto_server_with(sock, 0);
}

static void auto_client(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1,
					 .retry_count = 7, .rnr_retry_count = 7 };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { 16, 16, 1, 1, 0 } };
	struct rdma_cm_id *id = resolved(ch, (uint16_t)kit_hear(sock));

	init.send_cq = init.recv_cq = sv_create_cq(id->verbs, 16, NULL, NULL, 0);
	CHECK(!sv_rdma_create_qp(id, id->pd, &init));
	CHECK(kit_state(id->qp) == IBV_QPS_INIT);
	CHECK(!sv_connect(id, &param));
	expect_event(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK(kit_state(id->qp) == IBV_QPS_RTS);
	CHECK(!sv_disconnect(id));
	CHECK(kit_state(id->qp) == IBV_QPS_ERR);
	expect_event(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_event(ch, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	sv_rdma_destroy_qp(id);
	CHECK(!sv_destroy_cq(init.send_cq));
	CHECK(!sv_destroy_id(id));
	sv_destroy_event_channel(ch);
}

static void test_automatic(void **state)
{
	(void)state;
	kit_run(auto_client, auto_server);
	kit_run(auto_client, mean_server);
}

/* ---- synchronous ---- */

static void sync_client(int sock)
{
	struct sockaddr_in dst = loopback((uint16_t)kit_hear(sock));
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1,
					 .retry_count = 7, .rnr_retry_count = 7 };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { 16, 16, 1, 1, 0 } };
	struct rdma_cm_id *id;

	CHECK(!sv_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	CHECK(!sv_resolve_addr(id, NULL, (struct sockaddr *)&dst, 1000));
	CHECK(!sv_resolve_route(id, 1000));
	init.send_cq = init.recv_cq = sv_create_cq(id->verbs, 16, NULL, NULL, 0);
	CHECK(!sv_rdma_create_qp(id, NULL, &init));
	CHECK(!sv_connect(id, &param));
	CHECK(id->event && id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	CHECK(!sv_disconnect(id));
	sv_rdma_destroy_qp(id);
	CHECK(!sv_destroy_cq(init.send_cq));
	CHECK(!sv_destroy_id(id));
}

static void test_synchronous(void **state)
{
	(void)state;
	kit_run(sync_client, auto_server);
}

/* ---- refusals ---- */

static void rejecting_server(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct sockaddr_in addr = loopback(0);
	struct rdma_cm_id *listener = listen_any(ch, &addr, 1);
	struct rdma_cm_event *ev;

	kit_say(sock, sv_get_src_port(listener));
	ev = take_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(kit_hear(sock) == 1); /* the second saw that the backlog is full */
	struct rdma_cm_id *rejected = ev->id;
	CHECK(!sv_reject(rejected, "go away", 8));
	CHECK(!sv_ack_cm_event(ev));
	CHECK(!sv_destroy_id(rejected));
	kit_hear(sock);
	exit(0);
}

static void rejected_client(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct rdma_event_channel *ch2 = sv_create_event_channel();
	uint16_t port = (uint16_t)kit_hear(sock);
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_id *id = resolved(ch, port), *second = resolved(ch2, port);
	struct rdma_cm_event *ev;

	CHECK(!sv_connect(id, &param));
	CHECK(!sv_connect(second, &param));
	expect_event(ch2, RDMA_CM_EVENT_REJECTED, 3);
	kit_say(sock, 1);
	ev = take_event(ch, RDMA_CM_EVENT_REJECTED);
	CHECK(ev->status == 28 && ev->param.conn.private_data_len == 148);
	CHECK(!strcmp(ev->param.conn.private_data, "go away"));
	CHECK(!sv_ack_cm_event(ev));
	CHECK(!sv_destroy_id(id));
	CHECK(!sv_destroy_id(second));
	kit_say(sock, 1);
	sv_destroy_event_channel(ch);
	sv_destroy_event_channel(ch2);
}

static void test_rejected(void **state)
{
	(void)state;
	kit_run(rejected_client, rejecting_server);
}

static void lonely(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct sockaddr_in addr = loopback(0), taken;
	struct rdma_conn_param param = { .retry_count = 7 };
	struct rdma_cm_id *bound, *other, *id, *asker;
	struct rdma_cm_event *ev;
	struct sockaddr_in far = { .sin_family = AF_INET };

	CHECK(!sv_create_id(ch, &bound, NULL, RDMA_PS_TCP));
	CHECK(!sv_bind_addr(bound, (struct sockaddr *)&addr));
	taken = loopback(sv_get_src_port(bound));
	CHECK(!sv_create_id(ch, &other, NULL, RDMA_PS_TCP));
	CHECK(sv_bind_addr(other, (struct sockaddr *)&taken) == -1 && errno == EADDRINUSE);
	/* Bound, and nobody listens. */
	id = resolved(ch, sv_get_src_port(bound));
	CHECK(!sv_connect(id, &param));
	expect_event(ch, RDMA_CM_EVENT_REJECTED, 8);
	CHECK(!sv_destroy_id(id));
	/* Somebody does, a moment later. */
	id = resolved(ch, sv_get_src_port(bound));
	CHECK(!sv_connect(id, &param));
	CHECK(!sv_listen(bound, 1));
	ev = take_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	asker = ev->id;
	CHECK(!sv_ack_cm_event(ev));
	CHECK(!sv_reject(asker, NULL, 0));
	expect_event(ch, RDMA_CM_EVENT_REJECTED, 28);
	CHECK(!sv_destroy_id(asker));
	CHECK(!sv_destroy_id(id));
	CHECK(!sv_destroy_id(bound));
	/* The port is free again, at once. */
	CHECK(!sv_bind_addr(other, (struct sockaddr *)&taken));
	CHECK(!sv_destroy_id(other));
	/* 192.0.2.1 is nobody's. */
	far.sin_addr.s_addr = htonl(0xc0000201);
	CHECK(!sv_create_id(ch, &id, NULL, RDMA_PS_TCP));
	CHECK(sv_bind_addr(id, (struct sockaddr *)&far) == -1 && errno == EADDRNOTAVAIL);
	CHECK(!sv_resolve_addr(id, NULL, (struct sockaddr *)&far, 100));
	expect_event(ch, RDMA_CM_EVENT_ADDR_ERROR, -EADDRNOTAVAIL);
	CHECK(!sv_destroy_id(id));
	sv_destroy_event_channel(ch);
	(void)sock;
}

static void test_nobody(void **state)
{
	(void)state;
	kit_run(lonely, kit_nothing);
}

/* ---- frozen and killed listeners ---- */

static void frozen_server(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct sockaddr_in addr = loopback(0);
	struct rdma_cm_id *listener = listen_any(ch, &addr, 1);

	kit_say(sock, sv_get_src_port(listener));
	kit_say(sock, (uint64_t)getpid());
	for (;;)
		pause();
}

static void patient_client(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	uint16_t port = (uint16_t)kit_hear(sock);
	pid_t pid = (pid_t)kit_hear(sock);
	struct rdma_conn_param param = { .retry_count = 7 };
	struct rdma_cm_id *ids[6];
	int status;

	setenv("SOFTVERBS_CM_TIMEOUT_MS", "300", 1);
	kit_stop(pid);
	for (int i = 0; i < 6; i++) {
		ids[i] = resolved(ch, port);
		CHECK(!sv_connect(ids[i], &param));
		expect_event(ch, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	}
	for (int i = 0; i < 6; i++)
		CHECK(!sv_destroy_id(ids[i]));
	/* Killed while it is asked. */
	setenv("SOFTVERBS_CM_TIMEOUT_MS", "60000", 1);
	ids[0] = resolved(ch, port);
	CHECK(!sv_connect(ids[0], &param));
	kill(pid, SIGKILL);
	{
		struct rdma_cm_event *ev;
		struct pollfd pfd = { .fd = ch->fd, .events = POLLIN };

		CHECK(poll(&pfd, 1, KIT_LIMIT_S * 1000) == 1 && !sv_get_cm_event(ch, &ev));
		CHECK(ev->event == RDMA_CM_EVENT_UNREACHABLE ||
		      ev->event == RDMA_CM_EVENT_REJECTED);
		CHECK(!sv_ack_cm_event(ev));
	}
	CHECK(!sv_destroy_id(ids[0]));
	sv_destroy_event_channel(ch);
	(void)status;
}

static void test_frozen_listener(void **state)
{
	(void)state;
	kit_run_two(patient_client, frozen_server, true);
}

/* ---- death after the connection is up ---- */

static void dying_client(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct kit k = { .sock = sock };

	CHECK(manual_connect(&k, ch, (uint16_t)kit_hear(sock)));
	kit_say(sock, (uint64_t)getpid());
	for (;;)
		pause();
}

static void surviving_server(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct sockaddr_in addr = loopback(0);
	struct rdma_conn_param param = { .private_data = "welcome", .private_data_len = 8 };
	struct rdma_cm_id *listener = listen_any(ch, &addr, 4), *id;
	struct kit k = { .sock = sock };
	struct rdma_cm_event *ev;

	kit_say(sock, sv_get_src_port(listener));
	ev = take_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	id = ev->id;
	CHECK(!sv_ack_cm_event(ev));
	param.qp_num = fresh_qp(&k, id)->qp_num;
	to_rts(id, k.qp);
	CHECK(!sv_accept(id, &param));
	expect_event(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	kill((pid_t)kit_hear(sock), SIGKILL);
	expect_event(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK(!sv_destroy_id(id));
	CHECK(!sv_destroy_id(listener));
	kit_close(&k);
	sv_destroy_event_channel(ch);
}

static void test_death(void **state)
{
	(void)state;
	kit_run_two(surviving_server, dying_client, true);
}

/* ---- addresses ---- */

/* Without a name to look up, the addresses are those of the hints (libfabric asks so). */
static void test_hints(void **state)
{
	struct sockaddr_in dst = { .sin_family = AF_INET, .sin_port = htons(7),
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_qp_type = IBV_QPT_RC,
				       .ai_dst_addr = (struct sockaddr *)&dst,
				       .ai_dst_len = sizeof(dst) }, *res;

	(void)state;
	assert_int_equal(sv_getaddrinfo(NULL, NULL, NULL, &res), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(sv_getaddrinfo(NULL, NULL, &hints, &res), 0);
	assert_int_equal(res->ai_dst_len, sizeof(dst));
	assert_memory_equal(res->ai_dst_addr, &dst, sizeof(dst));
	assert_null(res->ai_src_addr);
	assert_int_equal(res->ai_family, AF_INET);
	sv_freeaddrinfo(res);
	/* A passive side has no destination, and a name goes before the hints. */
	hints.ai_flags = RAI_PASSIVE | RAI_NUMERICHOST;
	assert_int_equal(sv_getaddrinfo("127.0.0.2", "8", &hints, &res), 0);
	assert_null(res->ai_dst_addr);
	assert_int_equal(((struct sockaddr_in *)(void *)res->ai_src_addr)->sin_port, htons(8));
	sv_freeaddrinfo(res);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_manual),	   cmocka_unit_test(test_automatic),
		cmocka_unit_test(test_synchronous), cmocka_unit_test(test_rejected),
		cmocka_unit_test(test_nobody),	   cmocka_unit_test(test_frozen_listener),
		cmocka_unit_test(test_death),	   cmocka_unit_test(test_hints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

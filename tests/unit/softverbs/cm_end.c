/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection management: connections that end while they are made or left: answers that can't be
 * acted on, askers that are gone, a peer that is frozen.
 */
#include "tests/unit/softverbs/events.h"

static void add_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .qp_type = id->qp_type,
					 .cap = { .max_send_wr = 4, .max_recv_wr = 4,
						  .max_send_sge = 1, .max_recv_sge = 1 } };

	CHECK(!sv_rdma_create_qp(id, NULL, &attr) && id->qp);
}

static void drop_id(struct rdma_cm_id *id)
{
	sv_rdma_destroy_qp(id);
	CHECK(!sv_destroy_id(id));
}

/* A client that has asked and a server that has not answered yet. */
struct pair {
	struct rdma_event_channel *at_server, *at_client;
	struct rdma_cm_id *listener, *server, *client;
};

static struct rdma_cm_id *listen_local(struct rdma_event_channel *ch, enum rdma_port_space ps)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_cm_id *id;

	CHECK(!sv_create_id(ch, &id, NULL, ps));
	CHECK(!sv_bind_addr(id, (struct sockaddr *)&addr) && !sv_listen(id, 4));
	return id;
}

static struct rdma_cm_id *ask(struct rdma_event_channel *ch, enum rdma_port_space ps, uint16_t port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				    .sin_port = port };
	struct rdma_cm_id *id;

	CHECK(!sv_create_id(ch, &id, NULL, ps));
	CHECK(!sv_resolve_addr(id, NULL, (struct sockaddr *)&addr, 1000));
	expect_event(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(!sv_resolve_route(id, 1000));
	expect_event(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	add_qp(id);
	CHECK(!sv_connect(id, NULL));
	return id;
}

static struct rdma_cm_id *take_request(struct rdma_event_channel *ch)
{
	struct rdma_cm_event *ev = next_event(ch);
	struct rdma_cm_id *id = ev->id;

	CHECK(ev->event == RDMA_CM_EVENT_CONNECT_REQUEST && !sv_ack_cm_event(ev));
	add_qp(id);
	return id;
}

static void open_pair(struct pair *p, enum rdma_port_space ps)
{
	p->at_server = sv_create_event_channel();
	p->at_client = sv_create_event_channel();
	p->listener = listen_local(p->at_server, ps);
	p->client = ask(p->at_client, ps, sv_get_src_port(p->listener));
	p->server = take_request(p->at_server);
}

static void close_pair(struct pair *p)
{
	if (p->server)
		drop_id(p->server);
	if (p->client)
		drop_id(p->client);
	CHECK(!sv_destroy_id(p->listener));
	sv_destroy_event_channel(p->at_server);
	sv_destroy_event_channel(p->at_client);
}

static void wait_readable(struct rdma_event_channel *ch)
{
	struct pollfd pfd = { .fd = ch->fd, .events = POLLIN };

	CHECK(poll(&pfd, 1, KIT_LIMIT_S * 1000) == 1);
}

static void to_error(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	CHECK(!sv_modify_qp(qp, &attr, IBV_QP_STATE));
}

/* The client's queue pair can't be connected any more: both are told, and it has no connection. */
static void failed_queue_pair(int sock)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	struct rdma_cm_event *ev;
	struct pair p;
	int mask;

	(void)sock;
	open_pair(&p, RDMA_PS_TCP);
	CHECK(!sv_accept(p.server, NULL));
	wait_readable(p.at_client);
	to_error(p.client->qp);
	ev = next_event(p.at_client);
	CHECK(ev->event == RDMA_CM_EVENT_CONNECT_ERROR && ev->status < 0);
	CHECK(!sv_ack_cm_event(ev));
	CHECK(sv_init_qp_attr(p.client, &attr, &mask) == -1 && errno == EINVAL);
	expect_event(p.at_server, RDMA_CM_EVENT_UNREACHABLE, -ECONNRESET);
	close_pair(&p);
}

/* The server has left before its answer was looked at. */
static void left_behind(int sock)
{
	struct pollfd pfd = { .events = POLLIN };
	struct rdma_cm_event *first, *second;
	struct pair p;

	(void)sock;
	open_pair(&p, RDMA_PS_TCP);
	CHECK(!sv_accept(p.server, NULL));
	wait_readable(p.at_client);
	drop_id(p.server);
	p.server = NULL;
	first = next_event(p.at_client);
	if (first->event == RDMA_CM_EVENT_CONNECT_ERROR)
		CHECK(first->status < 0);
	else
		CHECK(first->event == RDMA_CM_EVENT_ESTABLISHED && !first->status);
	pfd.fd = p.at_client->fd;
	if (poll(&pfd, 1, first->event == RDMA_CM_EVENT_ESTABLISHED ? KIT_LIMIT_S * 1000 : 0) == 1) {
		second = next_event(p.at_client);
		CHECK(second->event == RDMA_CM_EVENT_UNREACHABLE ||
		      second->event == RDMA_CM_EVENT_DISCONNECTED);
		CHECK(!sv_ack_cm_event(second));
	}
	CHECK(!sv_ack_cm_event(first));
	close_pair(&p);
}

static void test_answers(void **state)
{
	(void)state;
	kit_run(failed_queue_pair, left_behind);
}

/* A client that is gone before it was answered has refused it. */
static void asker_gone(int sock)
{
	struct pair p;

	(void)sock;
	open_pair(&p, RDMA_PS_TCP);
	drop_id(p.client);
	p.client = NULL;
	expect_event(p.at_server, RDMA_CM_EVENT_REJECTED, 28);
	CHECK(sv_accept(p.server, NULL) == -1 && errno == EINVAL);
	close_pair(&p);
}

/* What is too long to be said ends the queue pair that it was said for. */
static void too_long(int sock)
{
	static const char data[256];
	struct rdma_conn_param param = { .private_data = data, .private_data_len = 137 };
	struct pair p;

	(void)sock;
	open_pair(&p, RDMA_PS_UDP);
	CHECK(kit_state(p.server->qp) == IBV_QPS_RTS);
	CHECK(sv_accept(p.server, &param) == -1 && errno == EINVAL);
	CHECK(kit_state(p.server->qp) == IBV_QPS_ERR);
	close_pair(&p);
}

static void test_requests(void **state)
{
	(void)state;
	kit_run(asker_gone, too_long);
}

/* ---- a frozen peer ---- */

static void frozen(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct rdma_cm_id *listener = listen_local(ch, RDMA_PS_TCP), *id;

	kit_say(sock, sv_get_src_port(listener));
	kit_say(sock, (uint64_t)getpid());
	id = take_request(ch);
	CHECK(!sv_accept(id, NULL));
	expect_event(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	kit_say(sock, 1);
	kit_hear(sock);
	expect_event(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
	drop_id(id);
	CHECK(!sv_destroy_id(listener));
	sv_destroy_event_channel(ch);
}

/* Who disconnects is told in the end, although the other says nothing. */
static void leaver(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	uint16_t port = (uint16_t)kit_hear(sock);
	pid_t pid = (pid_t)kit_hear(sock);
	struct rdma_cm_id *id = ask(ch, RDMA_PS_TCP, port);

	expect_event(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK(kit_hear(sock) == 1);
	kit_stop(pid);
	CHECK(!sv_disconnect(id));
	CHECK(kit_state(id->qp) == IBV_QPS_ERR);
	expect_event(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK(!kill(pid, SIGCONT));
	kit_say(sock, 1);
	drop_id(id);
	sv_destroy_event_channel(ch);
}

static void test_frozen(void **state)
{
	(void)state;
	kit_run(leaver, frozen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_frozen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* ep.c -- endpoints, synchronous ids and their queues, migration. */
#include "tests/unit/descriptors.h"
#include "tests/unit/softverbs/events.h"

static struct ibv_qp_init_attr small_qp(void)
{
	return (struct ibv_qp_init_attr){ .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
					  .cap = { 4, 4, 1, 1, 0 } };
}

static struct rdma_cm_id *new_id(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id;

	CHECK(!sv_create_id(ch, &id, NULL, RDMA_PS_TCP));
	return id;
}

static struct rdma_cm_id *bound_id(struct rdma_event_channel *ch)
{
	struct sockaddr_in addr = loopback(0);
	struct rdma_cm_id *id = new_id(ch);

	CHECK(!sv_bind_addr(id, (struct sockaddr *)&addr));
	return id;
}

static void refused(int ret, int err)
{
	if (ret != -1 || errno != err)
		fprintf(stderr, "%d, not refused with %d\n", ret, err);
	CHECK(ret == -1 && errno == err);
	errno = 0;
}

static bool has_event(struct rdma_event_channel *ch)
{
	struct pollfd pfd = { .fd = ch->fd, .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

/* ---- addresses ---- */

static struct rdma_addrinfo *look_up(const char *node, const char *service,
				     const struct rdma_addrinfo *hints)
{
	struct rdma_addrinfo *res = NULL;

	assert_int_equal(sv_getaddrinfo(node, service, hints, &res), 0);
	return res;
}

static void test_names(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_FAMILY, .ai_family = AF_INET6,
				       .ai_port_space = RDMA_PS_UDP }, *res;

	(void)state;
	res = look_up("127.0.0.1", "9", NULL);
	assert_int_equal(res->ai_port_space, RDMA_PS_TCP);
	assert_int_equal(res->ai_qp_type, IBV_QPT_RC);
	assert_int_equal(res->ai_family, AF_INET);
	assert_int_equal(res->ai_dst_len, sizeof(struct sockaddr_in));
	assert_int_equal(((struct sockaddr_in *)(void *)res->ai_dst_addr)->sin_port, htons(9));
	assert_null(res->ai_src_addr);
	sv_freeaddrinfo(res);
	res = look_up(NULL, "9", &hints);
	assert_int_equal(res->ai_dst_addr->sa_family, AF_INET6);
	assert_int_equal(res->ai_port_space, RDMA_PS_UDP);
	assert_int_equal(res->ai_qp_type, IBV_QPT_UD);
	sv_freeaddrinfo(res);
	hints.ai_family = AF_INET;
	hints.ai_port_space = 0;
	hints.ai_qp_type = IBV_QPT_UD;
	res = look_up(NULL, "9", &hints);
	assert_int_equal(res->ai_dst_addr->sa_family, AF_INET);
	assert_int_equal(res->ai_port_space, RDMA_PS_TCP);
	assert_int_equal(res->ai_qp_type, IBV_QPT_UD);
	sv_freeaddrinfo(res);
	hints.ai_flags = RAI_NUMERICHOST;
	res = NULL;
	errno = 0;
	assert_int_equal(sv_getaddrinfo("no.number", "9", &hints, &res), -1);
	assert_int_equal(errno, ENODATA);
	assert_null(res);
}

static void test_hinted_addresses(void **state)
{
	struct sockaddr_in src = loopback(htons(7)), dst = loopback(htons(8));
	struct rdma_addrinfo hints = { .ai_src_addr = (struct sockaddr *)&src,
				       .ai_src_len = sizeof(src) }, *res;

	(void)state;
	res = look_up(NULL, NULL, &hints);
	assert_int_equal(res->ai_family, AF_INET);
	assert_int_equal(res->ai_src_len, sizeof(src));
	assert_memory_equal(res->ai_src_addr, &src, sizeof(src));
	assert_null(res->ai_dst_addr);
	sv_freeaddrinfo(res);
	/* The source is the hint's, the destination has a name. */
	hints.ai_dst_addr = (struct sockaddr *)&dst;
	hints.ai_dst_len = sizeof(dst);
	res = look_up("127.0.0.3", "10", &hints);
	assert_memory_equal(res->ai_src_addr, &src, sizeof(src));
	assert_int_equal(((struct sockaddr_in *)(void *)res->ai_dst_addr)->sin_port, htons(10));
	sv_freeaddrinfo(res);
	/* A length without an address is none, an address without a length neither. */
	hints.ai_src_addr = NULL;
	hints.ai_dst_len = 0;
	res = look_up(NULL, NULL, &hints);
	assert_null(res->ai_src_addr);
	assert_null(res->ai_dst_addr);
	assert_int_equal(res->ai_family, 0);
	sv_freeaddrinfo(res);
}

/* ---- what endpoints and ids refuse, and that nothing is left of them ---- */

static void refused_endpoints(int sock)
{
	struct sockaddr_in far = loopback(htons(9)), taken;
	struct rdma_cm_id *bound = bound_id(NULL), *id = NULL;
	struct rdma_addrinfo res = { .ai_port_space = RDMA_PS_TCP, .ai_qp_type = IBV_QPT_UC,
				     .ai_dst_addr = (struct sockaddr *)&far };
	struct ibv_qp_init_attr attr = small_qp();
	int before = count_descriptors();

	(void)sock;
	far.sin_addr.s_addr = htonl(0xc0000201); /* nobody's */
	refused(sv_create_ep(&id, &res, NULL, &attr), EOPNOTSUPP);
	res.ai_qp_type = IBV_QPT_RC;
	refused(sv_create_ep(&id, &res, NULL, &attr), EADDRNOTAVAIL);
	res.ai_port_space = RDMA_PS_IPOIB;
	refused(sv_create_ep(&id, &res, NULL, &attr), EOPNOTSUPP);
	res.ai_port_space = RDMA_PS_TCP;
	far = loopback(htons(9));
	attr.cap.max_send_wr = 1u << 30;
	refused(sv_create_ep(&id, &res, NULL, &attr), EINVAL);
	taken = loopback(sv_get_src_port(bound));
	res.ai_src_addr = (struct sockaddr *)&taken;
	res.ai_flags = RAI_PASSIVE;
	refused(sv_create_ep(&id, &res, NULL, NULL), EADDRINUSE);
	CHECK(!id && count_descriptors() == before);
	CHECK(!sv_destroy_id(bound));
	/* One that isn't passive, or has no attributes, has no queue pair. */
	res.ai_flags = 0;
	res.ai_src_addr = NULL;
	CHECK(!sv_create_ep(&id, &res, NULL, NULL) && id->verbs && !id->qp);
	sv_destroy_ep(id);
}

static void refused_ids(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct rdma_cm_id *id = new_id(ch), *out = NULL;
	struct sockaddr_storage odd = { .ss_family = AF_UNIX };

	(void)sock;
	CHECK(!sv_listen(id, 1));
	CHECK(ntohs(sv_get_src_port(id)) >= 32768);
	refused(sv_listen(id, 1), EINVAL);
	refused(sv_get_request(id, &out), EINVAL);
	refused(sv_resolve_route(id, 1), EINVAL);
	refused(sv_connect(id, NULL), EINVAL);
	refused(sv_accept(id, NULL), EINVAL);
	refused(sv_reject(id, NULL, 0), EINVAL);
	refused(sv_establish(id), EINVAL);
	refused(sv_disconnect(id), EINVAL);
	refused(sv_bind_addr(id, (struct sockaddr *)&odd), EINVAL);
	CHECK(!sv_destroy_id(id));
	id = new_id(ch);
	refused(sv_bind_addr(id, (struct sockaddr *)&odd), EAFNOSUPPORT);
	refused(sv_resolve_addr(id, NULL, (struct sockaddr *)&odd, 1), EAFNOSUPPORT);
	CHECK(!has_event(ch));
	CHECK(!sv_destroy_id(id));
	sv_destroy_event_channel(ch);
}

static void test_refused(void **state)
{
	(void)state;
	kit_run(refused_endpoints, kit_nothing);
	kit_run(refused_ids, kit_nothing);
}

/* ---- queues of an id ---- */

static void shared_queues(int sock)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct rdma_cm_id *id = new_id(NULL);
	struct ibv_pd *pd;

	(void)sock;
	refused(sv_rdma_create_srq(id, NULL, &attr), EINVAL); /* of no device yet */
	CHECK(!id->srq);
	CHECK(!sv_destroy_id(id));
	id = bound_id(NULL);
	CHECK(!sv_rdma_create_srq(id, NULL, &attr) && id->srq && id->srq->pd == id->pd);
	refused(sv_rdma_create_srq(id, NULL, &attr), EINVAL);
	sv_rdma_destroy_srq(id);
	CHECK(!id->srq);
	CHECK((pd = sv_alloc_pd(id->verbs)) != NULL);
	attr.attr.max_wr = 1u << 30;
	CHECK(sv_rdma_create_srq(id, pd, &attr) == -1 && !id->srq && id->pd != pd);
	attr.attr.max_wr = 4;
	CHECK(!sv_rdma_create_srq(id, pd, &attr) && id->srq->pd == pd && id->pd == pd);
	sv_destroy_ep(id);
	CHECK(!sv_dealloc_pd(pd));
}

static struct ibv_qp_init_attr_ex small_qp_ex(void)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_RC, .comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND, .cap = { 4, 4, 1, 1, 0 },
	};
}

static void extended_queue_pairs(int sock)
{
	struct ibv_qp_init_attr_ex attr = small_qp_ex();
	struct rdma_cm_id *id = new_id(NULL);
	struct ibv_context *other = kit_open_device();
	struct ibv_pd *pd;
	int before;

	(void)sock;
	refused(sv_rdma_create_qp_ex(id, &attr), EINVAL); /* of no device yet */
	CHECK(!sv_destroy_id(id));
	id = bound_id(NULL);
	before = count_descriptors();
	attr = small_qp_ex();
	attr.qp_type = IBV_QPT_UC;
	refused(sv_rdma_create_qp_ex(id, &attr), EINVAL);
	attr = small_qp_ex();
	attr.cap.max_send_sge = 1u << 20;
	CHECK(sv_rdma_create_qp_ex(id, &attr) == -1 && errno);
	CHECK(!id->qp && !id->send_cq && !id->recv_cq && !id->send_cq_channel);
	CHECK(count_descriptors() == before);
	CHECK((pd = sv_alloc_pd(other)) != NULL);
	attr = small_qp_ex();
	attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
	attr.pd = pd; /* of another context */
	refused(sv_rdma_create_qp_ex(id, &attr), EINVAL);
	attr = small_qp_ex();
	CHECK(!sv_rdma_create_qp_ex(id, &attr));
	CHECK(id->qp->pd == id->pd && kit_state(id->qp) == IBV_QPS_INIT);
	CHECK(sv_qp_to_qp_ex(id->qp));
	CHECK(id->qp->send_cq == id->send_cq && id->qp->recv_cq == id->recv_cq);
	attr = small_qp_ex();
	refused(sv_rdma_create_qp_ex(id, &attr), EINVAL); /* it has one */
	sv_rdma_destroy_qp(id);
	CHECK(!id->qp && !id->send_cq && !id->recv_cq && count_descriptors() == before);
	CHECK(!sv_destroy_id(id));
	CHECK(!sv_dealloc_pd(pd));
	CHECK(!sv_close_device(other));
}

/* With that domain, by either call; NULL: which the id has. */
static int create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, enum ibv_qp_type type, uint32_t sges,
		     bool extended)
{
	struct ibv_qp_init_attr attr = small_qp();
	struct ibv_qp_init_attr_ex ex = small_qp_ex();

	errno = 0;
	if (!extended) {
		attr.qp_type = type;
		attr.cap.max_send_sge = sges;
		return sv_rdma_create_qp(id, pd, &attr);
	}
	ex.qp_type = type;
	ex.cap.max_send_sge = sges;
	if (pd) {
		ex.comp_mask |= IBV_QP_INIT_ATTR_PD;
		ex.pd = pd;
	}
	return sv_rdma_create_qp_ex(id, &ex);
}

/* An attempt that fails leaves the id's domain as it was, no queues, and nothing that uses the given one. */
static void expect_no_qp(struct rdma_cm_id *id, const struct ibv_pd *pd, int descriptors)
{
	CHECK(errno && !id->qp && id->pd == pd);
	CHECK(!id->send_cq && !id->recv_cq && !id->send_cq_channel && !id->recv_cq_channel);
	CHECK(count_descriptors() == descriptors);
}

/* The id has the domain of its queue pair, be it given to one that had another, or none; and keeps it. */
static void check_domain(bool extended)
{
	struct rdma_cm_id *id = bound_id(NULL);
	struct ibv_pd *first = id->pd, *pd = sv_alloc_pd(id->verbs);
	int before = count_descriptors();

	CHECK(first && pd && first != pd);
	CHECK(create_qp(id, pd, IBV_QPT_UC, 1, extended) == -1 && errno == EINVAL); /* not the id's type */
	expect_no_qp(id, first, before);
	CHECK(create_qp(id, pd, IBV_QPT_RC, 1u << 20, extended) == -1);
	expect_no_qp(id, first, before);
	id->qp_type = IBV_QPT_UD; /* which can't do the first step of a connection's */
	CHECK(create_qp(id, pd, IBV_QPT_UD, 1, extended) == -1 && errno == EINVAL);
	expect_no_qp(id, first, before);
	id->qp_type = IBV_QPT_RC;
	CHECK(!sv_dealloc_pd(pd) && (pd = sv_alloc_pd(id->verbs)) != NULL);
	CHECK(!create_qp(id, pd, IBV_QPT_RC, 1, extended) && id->qp->pd == pd && id->pd == pd);
	CHECK(create_qp(id, first, IBV_QPT_RC, 1, extended) == -1 && errno == EINVAL && id->pd == pd);
	sv_rdma_destroy_qp(id);
	CHECK(id->pd == pd && !create_qp(id, NULL, IBV_QPT_RC, 1, extended) && id->qp->pd == pd);
	sv_rdma_destroy_qp(id);
	id->pd = NULL;
	CHECK(create_qp(id, NULL, IBV_QPT_RC, 1, extended) == -1 && errno == EINVAL);
	expect_no_qp(id, NULL, before);
	CHECK(!create_qp(id, pd, IBV_QPT_RC, 1, extended) && id->qp->pd == pd && id->pd == pd);
	CHECK(sv_dealloc_pd(pd) == EBUSY);
	sv_destroy_ep(id);
	CHECK(!sv_dealloc_pd(pd));
}

static void domains(int sock)
{
	(void)sock;
	check_domain(false);
	check_domain(true);
}

static void test_queues(void **state)
{
	(void)state;
	kit_run(shared_queues, kit_nothing);
	kit_run(extended_queue_pairs, kit_nothing);
	kit_run(domains, kit_nothing);
}

/* ---- endpoints that talk ---- */

static struct rdma_cm_id *listening_ep(int sock, struct ibv_qp_init_attr *attr)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE };
	struct rdma_addrinfo *res = look_up("127.0.0.1", NULL, &hints);
	struct rdma_cm_id *id;

	CHECK(!sv_create_ep(&id, res, NULL, attr) && !id->qp);
	sv_freeaddrinfo(res);
	CHECK(!sv_listen(id, 4));
	kit_say(sock, sv_get_src_port(id));
	return id;
}

static void serving_ep(int sock)
{
	struct ibv_qp_init_attr attr = small_qp();
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	struct rdma_cm_id *listener = listening_ep(sock, &attr), *id = NULL;
	char bytes[8] = "";
	struct ibv_sge sge = { (uintptr_t)bytes, 8, 0 };
	struct ibv_recv_wr wr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_mr *mr;

	CHECK(!sv_get_request(listener, &id) && id->qp && id->pd == listener->pd);
	CHECK(id->channel != listener->channel && !listener->event);
	CHECK(id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(!strcmp(id->event->param.conn.private_data, "hello"));
	CHECK((mr = sv_reg_mr(id->pd, bytes, 8, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	sge.lkey = mr->lkey;
	CHECK(!ibv_post_recv(id->qp, &wr, &bad));
	CHECK(!sv_accept(id, &param));
	CHECK(id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	kit_expect(id->recv_cq, 5, IBV_WC_SUCCESS);
	CHECK(!strcmp(bytes, "message"));
	CHECK(kit_hear(sock) == 1);
	CHECK(!sv_dereg_mr(mr));
	sv_destroy_ep(id);
	/* The next is refused. */
	CHECK(!sv_get_request(listener, &id) && id->qp);
	CHECK(!sv_reject(id, "no", 3));
	refused(sv_reject(id, "no", 3), EINVAL);
	refused(sv_accept(id, &param), EINVAL);
	sv_destroy_ep(id);
	sv_destroy_ep(listener);
	kit_say(sock, 1);
}

static struct rdma_cm_id *calling_ep(const char *port, struct ibv_qp_init_attr *attr)
{
	struct rdma_addrinfo *res = look_up("127.0.0.1", port, NULL);
	struct rdma_cm_id *id;

	CHECK(!sv_create_ep(&id, res, NULL, attr));
	sv_freeaddrinfo(res);
	return id;
}

static void send_message(struct rdma_cm_id *id)
{
	char bytes[8] = "message";
	struct ibv_mr *mr = sv_reg_mr(id->pd, bytes, 8, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = { (uintptr_t)bytes, 8, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 6, .sg_list = &sge, .num_sge = 1,
				  .opcode = IBV_WR_SEND }, *bad;

	CHECK(!ibv_post_send(id->qp, &wr, &bad));
	kit_expect(id->send_cq, 6, IBV_WC_SUCCESS);
	CHECK(!sv_dereg_mr(mr));
}

static void calling(int sock)
{
	struct ibv_qp_init_attr attr = small_qp();
	struct rdma_conn_param param = { .rnr_retry_count = 7, .private_data = "hello",
					 .private_data_len = 6 };
	struct rdma_cm_id *id, *late;
	char port[8];

	snprintf(port, sizeof(port), "%u", ntohs((uint16_t)kit_hear(sock)));
	id = calling_ep(port, &attr);
	CHECK(id->qp && id->qp->send_cq == id->send_cq && id->send_cq_channel);
	late = calling_ep(port, &attr);
	CHECK(!sv_connect(id, &param));
	send_message(id);
	CHECK(!sv_disconnect(id));
	CHECK(id->event->event == RDMA_CM_EVENT_DISCONNECTED);
	kit_say(sock, 1);
	sv_destroy_ep(id);
	refused(sv_connect(late, &param), ECONNREFUSED);
	CHECK(late->event->event == RDMA_CM_EVENT_REJECTED && late->event->status == 28);
	CHECK(!strcmp(late->event->param.conn.private_data, "no"));
	CHECK(kit_state(late->qp) == IBV_QPS_ERR);
	CHECK(kit_hear(sock) == 1);
	sv_destroy_ep(late);
}

static void test_endpoints(void **state)
{
	(void)state;
	kit_run(calling, serving_ep);
}

/* ---- nobody answers a synchronous id ---- */

static void unanswered(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct rdma_cm_id *listener = bound_id(ch), *id;
	struct rdma_conn_param param = { .retry_count = 7 };
	struct ibv_qp_init_attr attr = small_qp();
	struct rdma_cm_event *ev;
	char port[8];

	(void)sock;
	CHECK(!setenv("SOFTVERBS_CM_TIMEOUT_MS", "30", 1));
	snprintf(port, sizeof(port), "%u", ntohs(sv_get_src_port(listener)));
	id = calling_ep(port, &attr);
	CHECK(!sv_listen(listener, 1));
	refused(sv_connect(id, &param), ETIMEDOUT);
	CHECK(id->event->event == RDMA_CM_EVENT_UNREACHABLE);
	sv_destroy_ep(id);
	/* The request was taken by nobody until now, and is gone: it can't be accepted. */
	ev = take_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	id = ev->id;
	CHECK(!sv_ack_cm_event(ev));
	CHECK(sv_accept(id, &param) == -1);
	CHECK(!sv_destroy_id(id));
	CHECK(!sv_destroy_id(listener));
	sv_destroy_event_channel(ch);
}

static void test_unanswered(void **state)
{
	(void)state;
	kit_run(unanswered, kit_nothing);
}

/* ---- migration ---- */

static struct rdma_cm_id *asking_id(struct rdma_event_channel *ch, uint16_t port)
{
	struct sockaddr_in dst = loopback(port);
	struct rdma_cm_id *id = new_id(ch);

	CHECK(!sv_resolve_addr(id, NULL, (struct sockaddr *)&dst, 1000));
	expect_event(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(!sv_resolve_route(id, 1000));
	expect_event(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	CHECK(!sv_connect(id, NULL));
	return id;
}

/* Events that wait go to the other channel, in their order; so do requests' ids. */
static void moving_listener(int sock)
{
	struct rdma_event_channel *from = sv_create_event_channel();
	struct rdma_event_channel *to = sv_create_event_channel();
	struct rdma_event_channel *ask = sv_create_event_channel();
	struct rdma_cm_id *listener = bound_id(from), *ids[2];
	struct rdma_cm_event *ev[2];

	(void)sock;
	CHECK(!sv_listen(listener, 4));
	for (int i = 0; i < 2; i++)
		ids[i] = asking_id(ask, sv_get_src_port(listener));
	ev[0] = take_event(from, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(!sv_reject(ev[0]->id, NULL, 0));
	struct rdma_cm_id *first = ev[0]->id;
	CHECK(!sv_ack_cm_event(ev[0]));
	CHECK(!sv_destroy_id(first));
	expect_event(ask, RDMA_CM_EVENT_REJECTED, 28);
	while (!has_event(from)) /* the second request is there */
		sched_yield();
	CHECK(!sv_migrate_id(listener, to) && listener->channel == to);
	CHECK(!has_event(from) && has_event(to));
	sv_destroy_event_channel(from);
	ev[1] = take_event(to, RDMA_CM_EVENT_CONNECT_REQUEST);
	first = ev[1]->id;
	CHECK(first->channel == to && ev[1]->listen_id == listener);
	CHECK(!sv_ack_cm_event(ev[1]));
	CHECK(!sv_accept(first, NULL));
	expect_event(ask, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	/* Its end is told in the new channel. */
	CHECK(!sv_destroy_id(ids[0]) && !sv_destroy_id(ids[1]));
	ev[0] = take_event(to, RDMA_CM_EVENT_REJECTED);
	CHECK(ev[0]->id == first && ev[0]->status == 28);
	CHECK(!sv_ack_cm_event(ev[0]));
	CHECK(!sv_destroy_id(first) && !sv_destroy_id(listener));
	sv_destroy_event_channel(to);
	sv_destroy_event_channel(ask);
}

/* A synchronous id that gets a channel waits no longer for its events, and back. */
static void moving_id(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct sockaddr_in dst = loopback(htons(9));
	int before = count_descriptors();
	struct rdma_cm_id *id = new_id(NULL);

	(void)sock;
	CHECK(!sv_resolve_addr(id, NULL, (struct sockaddr *)&dst, 1000));
	CHECK(id->event && id->event->event == RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!sv_migrate_id(id, ch) && id->channel == ch && !id->event);
	CHECK(count_descriptors() <= before + 1); /* its own channel is gone */
	CHECK(!sv_resolve_route(id, 1000) && !id->event && has_event(ch));
	CHECK(!sv_migrate_id(id, NULL) && id->channel != ch);
	CHECK(!has_event(ch) && has_event(id->channel));
	expect_event(id->channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	refused(sv_connect(id, NULL), ECONNREFUSED); /* which it waited for */
	CHECK(!sv_destroy_id(id));
	CHECK(count_descriptors() <= before + 1);
	sv_destroy_event_channel(ch);
}

static void test_migration(void **state)
{
	(void)state;
	kit_run(moving_listener, kit_nothing);
	kit_run(moving_id, kit_nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),	   cmocka_unit_test(test_hinted_addresses),
		cmocka_unit_test(test_refused),	   cmocka_unit_test(test_queues),
		cmocka_unit_test(test_endpoints),  cmocka_unit_test(test_unanswered),
		cmocka_unit_test(test_migration),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

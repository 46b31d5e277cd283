/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/client/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "client/op/operation.h"
#include "client/session/connect.h"
#include "client/session/device.h"
#include "client/session/teardown.h"

struct dial dial;

static struct verbs plain; /* as end.h has them */
static struct ibv_device device = { .name = "device0" };
static struct ibv_context *context;
static struct rdma_event_channel channel;
static struct ibv_comp_channel comp;
static struct rdma_cm_id id;
static struct ibv_pd domain;
static struct ibv_cq cq;
static struct ibv_qp qp;
static int (*take_receives)(struct ibv_qp *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
static unsigned at;   /* the place that is dialled */
static unsigned step; /* of its events: the next one */

static bool fails(enum dial_step here)
{
	errno = ENXIO;
	return dial.fails == here;
}

static int given(enum dial_step here)
{
	return fails(here) ? -1 : 0;
}

static void *made(enum dial_step here, void *object)
{
	if (fails(here))
		return NULL;
	dial.open++;
	return object;
}

static int gone(void)
{
	dial.open--;
	return 0;
}

/* -------------------------------------------------------------------- rdma_cm */

static struct rdma_event_channel *create_event_channel(void)
{
	if (fails(DIAL_CHANNEL))
		return NULL;
	channel.fd = eventfd(0, EFD_CLOEXEC);
	assert_true(channel.fd >= 0);
	return made(DIAL_CHANNEL, &channel);
}

static void destroy_event_channel(struct rdma_event_channel *of)
{
	assert_ptr_equal(of, &channel);
	close(of->fd);
	gone();
}

static int create_id(struct rdma_event_channel *on, struct rdma_cm_id **new, void *of,
		     enum rdma_port_space space)
{
	assert_ptr_equal(on, &channel);
	assert_ptr_equal(of, &dial.end->session);
	if (fails(DIAL_ID))
		return -1;
	id = (struct rdma_cm_id){ .verbs = context };
	dial.space = space;
	*new = made(DIAL_ID, &id);
	return 0;
}

static int destroy_id(struct rdma_cm_id *of)
{
	assert_ptr_equal(of, &id);
	return gone();
}

/* The first ones. */
static void note_dialled(unsigned port, int ms)
{
	if (dial.dials < sizeof dial.port / sizeof dial.port[0]) {
		dial.dialled_ns[dial.dials] = clock_ns();
		dial.limit_ms[dial.dials] = ms;
		dial.port[dial.dials] = port;
	}
	dial.dials++;
}

static int resolve_addr(struct rdma_cm_id *of, struct sockaddr *src, struct sockaddr *dst, int ms)
{
	const struct addr *to = (const struct addr *)dst;
	unsigned port = ntohs(to->sa.sa_family == AF_INET6 ? to->v6.sin6_port : to->v4.sin_port);

	(void)of, (void)src;
	assert_in_range(port, DIAL_PORT, DIAL_PORT + DIAL_PLACES - 1);
	note_dialled(port, ms);
	dial.addr_ms = ms;
	at = port - DIAL_PORT;
	step = 0;
	return given(DIAL_ADDR);
}

static int resolve_route(struct rdma_cm_id *of, int ms)
{
	(void)of;
	dial.route_ms = ms;
	return given(DIAL_ROUTE);
}

/* Who sleeps is woken for the next look behind one that failed. */
static int get_cm_event(struct rdma_event_channel *on, struct rdma_cm_event **event)
{
	static struct rdma_cm_event now;

	dial.looks++;
	assert_true(fcntl(on->fd, F_GETFL) & O_NONBLOCK);
	if (dial.event_failures) {
		dial.event_failures--;
		assert_int_equal(eventfd_write(on->fd, 1), 0);
		errno = dial.event_errno;
		return -1;
	}
	if (step == DIAL_EVENTS || dial.is_hushed || (step == 2 && dial.place[at].is_mute)) {
		errno = EAGAIN;
		return -1;
	}
	now = (struct rdma_cm_event){ .event = dial.event[step], .status = dial.status[step] };
	if (step == 2) {
		now.param.conn.qp_num = 4321;
		now.param.conn.private_data = dial.accept_bytes ? &dial.accept : NULL;
		now.param.conn.private_data_len = (uint8_t)dial.accept_bytes;
	}
	if (step == 2 && dial.place[at].is_dead)
		now = (struct rdma_cm_event){ .event = RDMA_CM_EVENT_REJECTED, .status = 8 };
	step++;
	*event = &now;
	return 0;
}

static int ack_cm_event(struct rdma_cm_event *event)
{
	(void)event;
	dial.acks++;
	return 0;
}

static int connect_id(struct rdma_cm_id *of, struct rdma_conn_param *param)
{
	(void)of;
	dial.param = *param;
	assert_int_equal(param->private_data_len, sizeof dial.said);
	memcpy(&dial.said, param->private_data, sizeof dial.said);
	return given(DIAL_CONNECT);
}

static int establish(struct rdma_cm_id *of)
{
	(void)of;
	dial.established++;
	return given(DIAL_ESTABLISH);
}

/* --------------------------------------------------------------------- device */

static int query_device(struct ibv_context *of, struct ibv_device_attr *attr)
{
	(void)of;
	*attr = (struct ibv_device_attr){ .max_sge = 16, .max_qp_rd_atom = 16,
					  .max_qp_init_rd_atom = 16, .atomic_cap = IBV_ATOMIC_HCA };
	return 0;
}

static int query_port(struct ibv_context *of, uint8_t port, struct ibv_port_attr *attr)
{
	(void)of, (void)port;
	*attr = (struct ibv_port_attr){ .max_msg_sz = 1u << 20, .state = IBV_PORT_ACTIVE };
	return 0;
}

static struct ibv_pd *alloc_pd(struct ibv_context *of)
{
	if (fails(DIAL_DOMAIN))
		return NULL;
	dial.domains++;
	domain.context = of;
	return &domain;
}

static int dealloc_pd(struct ibv_pd *pd)
{
	(void)pd;
	dial.domains--;
	return 0;
}

static void forget_devices(void)
{
}

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *of)
{
	assert_ptr_equal(of, context);
	if (fails(DIAL_COMP))
		return NULL;
	comp.fd = eventfd(0, EFD_CLOEXEC);
	assert_true(comp.fd >= 0);
	return made(DIAL_COMP, &comp);
}

static int destroy_comp_channel(struct ibv_comp_channel *of)
{
	assert_ptr_equal(of, &comp);
	close(of->fd);
	return gone();
}

static struct ibv_cq *create_cq(struct ibv_context *of, int cqe, void *with,
				struct ibv_comp_channel *on, int vector)
{
	assert_ptr_equal(with, &dial.end->session);
	assert_ptr_equal(on, &comp);
	assert_true(fcntl(on->fd, F_GETFL) & O_NONBLOCK);
	cq.context = of;
	dial.cqe = cqe;
	dial.vector = vector;
	return made(DIAL_CQ, &cq);
}

static int destroy_cq(struct ibv_cq *of)
{
	assert_ptr_equal(of, &cq);
	plain.destroy_cq(of);
	return gone();
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	bool is_page = addr == dial.end->engine->held.page;

	if (fails(is_page ? DIAL_PAGE : DIAL_MEMORY))
		return NULL;
	*(is_page ? &dial.page : &dial.memory) = (struct dial_mr){ addr, bytes, access };
	dial.registered++;
	return plain.reg_mr(pd, addr, bytes, access);
}

static int dereg_mr(struct ibv_mr *mr)
{
	dial.registered--;
	return plain.dereg_mr(mr);
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	assert_ptr_equal(pd, &domain);
	dial.qp = *attr;
	dial.receives = 0;
	qp = (struct ibv_qp){ .context = context, .qp_num = 1234 };
	return made(DIAL_QP, &qp);
}

static int destroy_qp(struct ibv_qp *of)
{
	assert_ptr_equal(of, &qp);
	return gone();
}

static int init_qp_attr(struct rdma_cm_id *of, struct ibv_qp_attr *attr, int *mask)
{
	assert_ptr_equal(of, &id);
	*mask = IBV_QP_STATE;
	return attr->qp_state == IBV_QPS_RTR && fails(DIAL_GONE) ? -1 : 0;
}

static int modify_qp(struct ibv_qp *of, struct ibv_qp_attr *attr, int mask)
{
	static const enum dial_step steps[IBV_QPS_RTS + 1] = {
		[IBV_QPS_INIT] = DIAL_INIT, [IBV_QPS_RTR] = DIAL_RTR, [IBV_QPS_RTS] = DIAL_RTS,
	};

	assert_ptr_equal(of, &qp);
	assert_true(mask & IBV_QP_STATE);
	dial.state[attr->qp_state] = *attr;
	return fails(steps[attr->qp_state]) ? ENXIO : 0;
}

/* The first ones of a queue pair are those that end.h has from the beginning. */
static int post_recv(struct ibv_qp *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	const struct engine *e = dial.end->engine;

	if (dial.receives == e->rx_count)
		return take_receives(to, wr, bad);
	if (fails(DIAL_RECEIVE))
		return ENXIO;
	assert_int_equal(wr->wr_id, dial.receives);
	assert_int_equal(wr->num_sge, 1);
	assert_int_equal(wr->sg_list->addr, (uintptr_t)e->rx + wr->wr_id * RX_STRIDE_BYTES);
	assert_int_equal(wr->sg_list->length, WIRE_MESSAGE_BYTES_MAX);
	assert_int_equal(wr->sg_list->lkey, e->memory_mr->lkey);
	dial.receives++;
	return 0;
}

/* ----------------------------------------------------------------- who answers */

static void welcome(struct end *end, const struct wire_request *request)
{
	uint8_t payload[256] = { 0 };

	dial.greeting = *request;
	dial.greetings++;
	memcpy(dial.behind, end->behind, sizeof dial.behind);
	memcpy(payload, &dial.place[at].welcome, sizeof dial.place[at].welcome);
	end_reply(end, dial.hello, payload, dial.welcome_bytes);
}

static void tell_where(struct end *end)
{
	const struct dial_place *p = &dial.place[at];

	dial.wheres++;
	end_reply(end, (struct wire_reply){ .status = (uint8_t)dial.where_status,
					    .version = p->epoch, .word = p->welcome.reign,
					    .item_flags = dial.heard_us }, p->where, strlen(p->where));
}

static void answer(struct end *end, const struct wire_request *request)
{
	if (request->op == WIRE_HELLO)
		welcome(end, request);
	else if (request->op == WIRE_WHERE)
		tell_where(end);
	else if (dial.answer)
		dial.answer(end, request);
	else if (!dial.is_deaf)
		end_reply(end, (struct wire_reply){ .version = 7, .bucket = ~0ull }, NULL, 0);
}

/* -------------------------------------------------------------- begin and end */

static void set_verbs(void)
{
	dial.verbs = plain;
	dial.verbs.create_event_channel = create_event_channel;
	dial.verbs.destroy_event_channel = destroy_event_channel;
	dial.verbs.create_id = create_id;
	dial.verbs.destroy_id = destroy_id;
	dial.verbs.resolve_addr = resolve_addr;
	dial.verbs.resolve_route = resolve_route;
	dial.verbs.get_cm_event = get_cm_event;
	dial.verbs.ack_cm_event = ack_cm_event;
	dial.verbs.connect = connect_id;
	dial.verbs.establish = establish;
	dial.verbs.query_device = query_device;
	dial.verbs.query_port = query_port;
	dial.verbs.alloc_pd = alloc_pd;
	dial.verbs.dealloc_pd = dealloc_pd;
	dial.verbs.forget_devices = forget_devices;
	dial.verbs.create_comp_channel = create_comp_channel;
	dial.verbs.destroy_comp_channel = destroy_comp_channel;
	dial.verbs.create_cq = create_cq;
	dial.verbs.destroy_cq = destroy_cq;
	dial.verbs.reg_mr = reg_mr;
	dial.verbs.dereg_mr = dereg_mr;
	dial.verbs.create_qp = create_qp;
	dial.verbs.destroy_qp = destroy_qp;
	dial.verbs.init_qp_attr = init_qp_attr;
	dial.verbs.modify_qp = modify_qp;
}

static void set_places(unsigned places)
{
	struct kvd_client *c = &dial.end->client;

	for (unsigned i = 0; i < places; i++) {
		char text[32];
		struct addr addr;
		struct err err;

		snprintf(text, sizeof text, "127.0.0.1:%u", DIAL_PORT + i);
		assert_int_equal(addr_parse(&addr, text, &err), 0);
		assert_true(route_add(&c->route, &addr));
	}
	for (unsigned i = 0; i < DIAL_PLACES; i++) {
		dial.place[i].welcome = dial.end->engine->table.welcome;
		dial.place[i].welcome.instance = 100 + i;
		dial.place[i].welcome.connection_id = 50 + i;
		dial.place[i].welcome.credits = END_DEPTH;
		dial.place[i].welcome.role = 2;
	}
	c->route.is_list = places > 1;
}

static void set_client(void)
{
	struct kvd_client *c = &dial.end->client;
	struct engine *e = dial.end->engine;

	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->settling, NULL);
	route_init(&c->route);
	c->options.timeout_ms = 5000;
	c->verbs = &dial.verbs;
	c->device = (struct device){ .verbs = &dial.verbs,
				     .tuning = { DEVICE_UNSET, DEVICE_UNSET, DEVICE_UNSET,
						 DEVICE_UNSET } };
	c->buffers = e->registrar.buffers;
	buffers_leave(c->buffers, &plain, 0);
	c->mirror = e->table.mirror;
	e->table.buckets = &c->buckets;
	directory_share(e->table.directory); /* end.h ends it, too */
}

static void set_session(void)
{
	struct kvd_session *s = &dial.end->session;
	struct engine *e = dial.end->engine;

	context = e->qp->context;
	context->device = &device;
	take_receives = context->ops.post_recv;
	context->ops.post_recv = post_recv;
	s->own = ROUTE_NOWHERE;
	s->memory = (uint8_t *)ops_next_memory(e);
	s->memory_bytes = 12345;
	s->addr = dial.end->client.route.of[0];
	e->registrar.verbs = e->health.verbs = &dial.verbs;
	e->health.peer = s->addr.text;
	plain.dereg_mr(e->memory_mr);
	e->memory_mr = NULL;
	e->health.connected = false;
	e->channel = NULL;
	e->comp = NULL;
	e->cq = NULL;
	e->qp = NULL;
}

void dial_new(unsigned places)
{
	dial = (struct dial){
		.end = end_new(),
		.event = { RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED,
			   RDMA_CM_EVENT_CONNECT_RESPONSE },
		.accept = { .magic = WIRE_MAGIC, .version = WIRE_VERSION },
		.accept_bytes = sizeof dial.accept,
		.heard_us = UINT32_MAX,
		.hello = { .buckets = LAYOUT_BUCKETS_MIN },
		.welcome_bytes = sizeof(struct wire_welcome),
	};
	plain = *dial.end->engine->registrar.verbs;
	dial.end->answer = answer;
	set_verbs();
	set_client();
	set_places(places);
	set_session();
}

struct kvd_session *dial_session(void)
{
	dial_new(1);
	dial.end->engine->time.limit_ns = 5000000000ull;
	return &dial.end->session;
}

void dial_connect(void (*answers)(struct end *end, const struct wire_request *request))
{
	assert_int_equal(session_attempt(&dial.end->session, 1000), 0);
	dial.answer = answers;
}

int dial_tear_down(void **state)
{
	(void)state;
	dial_delete();
	return 0;
}

void dial_delete(void)
{
	struct kvd_client *c = &dial.end->client;
	struct engine *e = dial.end->engine;

	session_down(&dial.end->session);
	ops_end_adrift(e, KVD_ECONNECT);
	session_leave_device(&dial.end->session);
	client_leave_devices(c);
	directory_leave(&c->directory);
	directory_leave(&e->table.directory);
	assert_int_equal(dial.open, 0);
	assert_int_equal(dial.registered, 0);
	assert_int_equal(dial.domains, 0);
	context->device = NULL;
	end_delete(dial.end);
}

void dial_as_cluster(void)
{
	static const char where[] = "127.0.0.1:7000\n127.0.0.1:7001\n127.0.0.1:7002\n";

	for (unsigned i = 0; i < DIAL_PLACES; i++) {
		dial.place[i].welcome.flags = WIRE_WELCOME_LEASE;
		dial.place[i].welcome.reign = i ? 0 : 3;
		dial.place[i].where = where;
		dial.place[i].epoch = 9;
	}
}

void dial_forget(void)
{
	dial.dials = dial.looks = dial.acks = dial.greetings = dial.wheres = dial.established = 0;
	dial.addr_ms = dial.route_ms = 0;
	memset(dial.state, 0, sizeof dial.state);
}

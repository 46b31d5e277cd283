/* SPDX-License-Identifier: BSD-2-Clause */
/* devices.c -- several devices (SOFTVERBS_DEVICES), and ports that are cut (SOFTVERBS_DOWN). */
#include <arpa/inet.h>
#include <stdlib.h>
#include "tests/unit/softverbs/kit.h"

#define S IBV_SEND_SIGNALED
#define TIMEOUT_CODE 10 /* of 4 ms; 4 tries of them */

/* A queue pair on a device. */
static void open_on(struct kit *k, struct ibv_context *ctx, int sock)
{
	struct kit_opts opts = kit_defaults;

	opts.timeout = TIMEOUT_CODE;
	opts.retry_cnt = 3;
	memset(k, 0, sizeof(*k));
	k->opts = opts;
	k->sock = sock;
	k->ctx = ctx;
	CHECK((k->pd = sv_alloc_pd(ctx)) != NULL);
	k->scq = sv_create_cq(ctx, opts.cqe, k, NULL, 0);
	k->rcq = sv_create_cq(ctx, opts.cqe, k, NULL, 0);
	CHECK(k->scq && k->rcq);
	CHECK(!sv_mem_alloc(opts.mem_bytes, 0, (void **)&k->mem));
	CHECK((k->mr = sv_reg_mr(k->pd, k->mem, opts.mem_bytes, opts.mr_access)) != NULL);
	k->qp = kit_new_qp(k);
	kit_to_init(k, k->qp);
}

/* One that is connected to itself. */
static void open_self(struct kit *k, struct ibv_context *ctx)
{
	open_on(k, ctx, -1);
	kit_to_rts(k, k->qp, k->qp->qp_num);
	k->rkey = k->mr->rkey;
	k->addr = (uintptr_t)k->mem;
}

static void open_two(struct ibv_context *ctx[2])
{
	struct ibv_device **list;
	int n;

	CHECK(!setenv("SOFTVERBS_DEVICES", "2", 1));
	list = sv_get_device_list(&n);
	CHECK(list && n == 2 && !list[2]);
	for (int i = 0; i < 2; i++) {
		CHECK(sv_is_soft(list[i]));
		CHECK((ctx[i] = sv_open_device(list[i])) != NULL);
	}
	sv_free_device_list(list);
}

static void expect_read(struct kit *k, enum ibv_wc_status status)
{
	CHECK(!kit_post(k, IBV_WR_RDMA_READ, 0, 8, 64, 7, S));
	kit_expect(k->scq, 7, status);
}

/* ---- what there is ---- */

static void one(int sock)
{
	int n;
	struct ibv_device **list = sv_get_device_list(&n);

	(void)sock;
	CHECK(list && n == 1 && !list[1] && !strcmp(list[0]->name, "soft0"));
	sv_free_device_list(list);
}

static void nonsense(int sock)
{
	int n;
	struct ibv_device **list;

	(void)sock;
	CHECK(!setenv("SOFTVERBS_DEVICES", "5", 1));
	list = sv_get_device_list(&n);
	CHECK(!sv_open_device(list[0]) && errno == EINVAL);
	sv_free_device_list(list);
}

static void attributes(int sock)
{
	static const uint8_t last[2] = { 1, 2 };
	struct ibv_context *ctx[2];
	struct ibv_device_attr attr[2];
	union ibv_gid gid;

	(void)sock;
	open_two(ctx);
	CHECK(!strcmp(ctx[0]->device->name, "soft0") && !strcmp(ctx[1]->device->name, "soft1"));
	for (int i = 0; i < 2; i++) {
		CHECK(!sv_query_device(ctx[i], &attr[i]));
		CHECK(!sv_query_gid(ctx[i], 1, 0, &gid));
		CHECK(gid.raw[12] == 127 && gid.raw[15] == last[i]);
	}
	CHECK(attr[0].node_guid != attr[1].node_guid);
	for (int i = 0; i < 2; i++)
		CHECK(!sv_close_device(ctx[i]));
}

/* ---- addresses ---- */

static const char *device_at(const char *text)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct rdma_cm_id *bound, *resolved;

	CHECK(inet_pton(AF_INET, text, &in.sin_addr) == 1);
	CHECK(!sv_create_id(ch, &bound, NULL, RDMA_PS_TCP));
	CHECK(!sv_bind_addr(bound, (struct sockaddr *)&in));
	CHECK(!sv_create_id(ch, &resolved, NULL, RDMA_PS_TCP));
	in.sin_port = htons(4321);
	CHECK(!sv_resolve_addr(resolved, NULL, (struct sockaddr *)&in, 1000));
	CHECK(bound->verbs && bound->verbs == resolved->verbs);
	return bound->verbs->device->name;
}

/* The id of a request is on the device of the address that was asked for. */
static void check_request(const char *text, const char *device)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct rdma_cm_id *listener, *id, *asked;
	struct rdma_conn_param param = { 0 };

	CHECK(!sv_create_id(NULL, &listener, NULL, RDMA_PS_TCP));
	CHECK(!sv_bind_addr(listener, (struct sockaddr *)&in) && !sv_listen(listener, 1));
	CHECK(!listener->verbs);
	in.sin_port = sv_get_src_port(listener);
	CHECK(inet_pton(AF_INET, text, &in.sin_addr) == 1);
	struct rdma_event_channel *ch = sv_create_event_channel();
	CHECK(!sv_create_id(ch, &id, NULL, RDMA_PS_TCP));
	CHECK(!sv_resolve_addr(id, NULL, (struct sockaddr *)&in, 1000) && !sv_resolve_route(id, 1000));
	CHECK(!sv_connect(id, &param));
	CHECK(!sv_get_request(listener, &asked));
	CHECK(asked->verbs && !strcmp(asked->verbs->device->name, device));
}

static void addresses(int sock)
{
	struct ibv_context **list;
	int n;

	(void)sock;
	CHECK(!setenv("SOFTVERBS_DEVICES", "2", 1));
	CHECK(!strcmp(device_at("127.0.0.1"), "soft0"));
	CHECK(!strcmp(device_at("127.0.0.2"), "soft1"));
	CHECK(!strcmp(device_at("127.0.0.3"), "soft0"));
	check_request("127.0.0.1", "soft0");
	check_request("127.0.0.2", "soft1");
	list = sv_get_devices(&n);
	CHECK(list && n == 2 && list[0] != list[1] && !list[2]);
	sv_free_devices(list);
}

/* ---- what is one's is not the other's ---- */

static void refused_qp(struct kit *a, struct ibv_cq *send, struct ibv_cq *recv, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = { .send_cq = send, .recv_cq = recv, .srq = srq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 1, .max_recv_wr = 1 } };

	CHECK(!sv_create_qp(a->pd, &init) && errno == EINVAL);
}

static void mixed(int sock)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_context *ctx[2];
	struct kit a, b;

	(void)sock;
	open_two(ctx);
	open_self(&a, ctx[0]);
	open_self(&b, ctx[1]);
	refused_qp(&a, b.scq, a.rcq, NULL);
	refused_qp(&a, a.scq, b.rcq, NULL);
	refused_qp(&a, a.scq, a.rcq, sv_create_srq(b.pd, &srq));
	CHECK(!sv_create_cq(a.ctx, 8, NULL, sv_create_comp_channel(b.ctx), 0) && errno == EINVAL);
	CHECK(sv_rereg_mr(a.mr, IBV_REREG_MR_CHANGE_PD, b.pd, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
	/* Each works by itself, and no key of one is a right at the other. */
	expect_read(&a, IBV_WC_SUCCESS);
	expect_read(&b, IBV_WC_SUCCESS);
	a.rkey = b.mr->rkey;
	a.addr = (uintptr_t)b.mem;
	expect_read(&a, IBV_WC_REM_ACCESS_ERR);
	expect_read(&b, IBV_WC_SUCCESS);
}

/* ---- faults of one ---- */

static void faulty(int sock)
{
	struct ibv_context *ctx[2];
	struct kit a, b;

	(void)sock;
	open_two(ctx);
	open_self(&a, ctx[0]);
	open_self(&b, ctx[1]);
	CHECK(!sv_fault_set("error=1000,device=1"));
	expect_read(&a, IBV_WC_SUCCESS);
	expect_read(&b, IBV_WC_GENERAL_ERR);
}

static enum ibv_port_state port_of(struct ibv_context *ctx)
{
	struct ibv_port_attr attr;

	CHECK(!sv_query_port(ctx, 1, &attr));
	return attr.state;
}

static void wait_for_port(struct ibv_context *ctx, enum ibv_port_state state)
{
	uint64_t until = kit_now_ns() + KIT_LIMIT_S * 1000000000ull;

	while (port_of(ctx) != state)
		CHECK(kit_now_ns() < until);
}

static void resolve(const char *text, enum rdma_cm_event_type type)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(4321) };
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	CHECK(inet_pton(AF_INET, text, &in.sin_addr) == 1);
	CHECK(!sv_create_id(ch, &id, NULL, RDMA_PS_TCP));
	CHECK(!sv_resolve_addr(id, NULL, (struct sockaddr *)&in, 1000));
	CHECK(!sv_get_cm_event(ch, &ev) && ev->event == type);
	CHECK(!sv_ack_cm_event(ev) && !sv_destroy_id(id));
	sv_destroy_event_channel(ch);
}

static char folder[] = "/tmp/softverbs-devices.XXXXXX", mark[64];

/* A queue pair on each device, connected to the other side's. */
static void open_pairs(struct kit k[2], struct ibv_context *ctx[2], int sock)
{
	for (int i = 0; i < 2; i++) {
		open_on(&k[i], ctx[i], sock);
		kit_connect(&k[i]);
	}
}

static void cut_from(int sock)
{
	struct ibv_context *ctx[2];
	struct kit k[2], self;

	CHECK(!setenv("SOFTVERBS_DOWN", folder, 1));
	open_two(ctx);
	open_pairs(k, ctx, sock);
	open_self(&self, ctx[1]);
	expect_read(&k[1], IBV_WC_SUCCESS);
	CHECK(fclose(fopen(mark, "w")) == 0);
	wait_for_port(ctx[1], IBV_PORT_DOWN);
	CHECK(port_of(ctx[0]) == IBV_PORT_ACTIVE);
	expect_read(&k[0], IBV_WC_SUCCESS);
	expect_read(&self, IBV_WC_SUCCESS);
	expect_read(&k[1], IBV_WC_RETRY_EXC_ERR);
	resolve("127.0.0.1", RDMA_CM_EVENT_ADDR_RESOLVED);
	resolve("127.0.0.2", RDMA_CM_EVENT_ADDR_ERROR);
	CHECK(!unlink(mark));
	wait_for_port(ctx[1], IBV_PORT_ACTIVE);
	resolve("127.0.0.2", RDMA_CM_EVENT_ADDR_RESOLVED);
	open_pairs(k, ctx, sock);
	expect_read(&k[1], IBV_WC_SUCCESS);
	kit_meet(&k[0]);
}

static void cut_to(int sock)
{
	struct ibv_context *ctx[2];
	struct kit k[2];

	open_two(ctx);
	open_pairs(k, ctx, sock);
	open_pairs(k, ctx, sock);
	kit_meet(&k[0]);
}

static void test_cut(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(mark, sizeof(mark), "%s/soft1", folder);
	kit_run(cut_from, cut_to);
	unlink(mark);
	assert_int_equal(rmdir(folder), 0);
}

static void run_alone(void (*side)(int sock))
{
	pid_t pid;

	fflush(NULL);
	pid = kit_fork(side, -1, -1);
	assert_int_equal(kit_status(pid), 0);
}

#define ALONE(name)                                                                           \
	static void test_##name(void **state)                                                 \
	{                                                                                     \
		(void)state;                                                                  \
		run_alone(name);                                                              \
	}
ALONE(one)
ALONE(nonsense)
ALONE(attributes)
ALONE(addresses)
ALONE(mixed)
ALONE(faulty)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one),	  cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_attributes), cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_mixed),	  cmocka_unit_test(test_faulty),
		cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libkvd, whole, and a kvd that means it ill: a device of our own in the place of the
 * software device, whose replies, READs and completions are what the input says.  What
 * libkvd posts has to be right all the same: within its registered memory, atomics within
 * the locks that the welcome told, no message longer than a message may be; and every
 * call ends.
 *
 * An input: bytes of control, one for each call and for each reply, with what each needs
 * behind it.  Where it ends the connection breaks.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>

#include "client/op/memory.h"
#include "client/session/client.h"
#include "common/layout.h"
#include "common/rdma/device.h"
#include "tests/fuzz/calls.h"
#include "tests/fuzz/clock.h"
#include "tests/fuzz/fuzz.h"

#define TABLE_AT 0x10000000ull
#define TABLE_BYTES (1ull << 20)
#define CONNECTIONS_MAX 3u
#define CALLS_MAX 8u
#define MRS_MAX 64u
#define COMPLETIONS_MAX 1024u
#define RECVS_MAX 256u
#define REQUESTS_MAX 256u
/* All calls of an input: each has 10 ms, some as a few parts, and backup asks at times. */
#define INPUT_NS_MAX 60000000000ull

struct asked {
	uint32_t id;
	uint8_t op;
};

/* What is under way on one connection. */
struct lane {
	struct ibv_wc done[COMPLETIONS_MAX];
	unsigned done_count;
	struct { uint64_t id; struct ibv_sge sge; } recvs[RECVS_MAX];
	unsigned recv_count;
	struct asked asked[REQUESTS_MAX];
	unsigned asked_count;
	struct wire_welcome welcome;
};

static struct {
	struct fuzz_input in;
	unsigned connections;
	enum rdma_cm_event_type event; /* the one that waits, or -1 */
	struct ibv_mr *mrs[MRS_MAX];
} w;
static struct lane lanes[CONNECTIONS_MAX];

static struct ibv_context context;
static struct ibv_device device = { .name = "ill0" };
static struct rdma_event_channel channel;
static struct ibv_comp_channel comp;
static struct wire_accept accepted;

/* ------------------------------------------------------------------- memory */

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	struct ibv_mr *mr = calloc(1, sizeof *mr);
	uint32_t i = 0;

	(void)access;
	while (i < MRS_MAX && w.mrs[i])
		i++;
	FUZZ_CHECK(mr && i < MRS_MAX);
	*mr = (struct ibv_mr){ .pd = pd, .addr = addr, .length = bytes, .lkey = i, .rkey = i };
	w.mrs[i] = mr;
	return mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
	w.mrs[mr->lkey] = NULL;
	free(mr);
	return 0;
}

static void check_local(const struct ibv_sge *sge)
{
	FUZZ_CHECK(sge->lkey < MRS_MAX && w.mrs[sge->lkey]);
	uint64_t base = (uintptr_t)w.mrs[sge->lkey]->addr, all = w.mrs[sge->lkey]->length;
	FUZZ_CHECK(sge->addr >= base && sge->addr - base <= all &&
		   sge->length <= all - (sge->addr - base));
}

static void check_within(uint64_t addr, uint64_t bytes, uint64_t base, uint64_t all)
{
	FUZZ_CHECK(addr >= base && addr - base <= all && bytes <= all - (addr - base));
}

/* ---------------------------------------------------------------- data verbs */

static void complete(struct lane *l, const struct ibv_send_wr *wr)
{
	FUZZ_CHECK(l->done_count < COMPLETIONS_MAX);
	if (wr->send_flags & IBV_SEND_SIGNALED)
		l->done[l->done_count++] = (struct ibv_wc){ .wr_id = wr->wr_id };
}

static void sent(struct lane *l, const struct ibv_send_wr *wr)
{
	uint8_t message[WIRE_MESSAGE_BYTES_MAX];
	struct wire_request q;
	uint32_t bytes = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];
		if (!(wr->send_flags & IBV_SEND_INLINE))
			check_local(sge);
		FUZZ_CHECK(sge->length <= sizeof message - bytes);
		memcpy(message + bytes, (const void *)(uintptr_t)sge->addr, sge->length);
		bytes += sge->length;
	}
	FUZZ_CHECK(bytes >= sizeof q);
	memcpy(&q, message, sizeof q);
	if (l->asked_count < REQUESTS_MAX)
		l->asked[l->asked_count++] = (struct asked){ q.request_id, q.op };
}

/* What is READ: nothing, or the same eight bytes again and again. */
static void answer_read(const struct lane *l, const struct ibv_send_wr *wr, bool atomic)
{
	uint8_t what[8] = { 0 };
	uint64_t all = 0;

	if (w.in.left && fuzz_take(&w.in, 1) % 2)
		for (unsigned i = 0; i < sizeof what; i++)
			what[i] = (uint8_t)fuzz_take(&w.in, 1);
	for (int i = 0; i < wr->num_sge; i++) {
		uint8_t *to = (uint8_t *)(uintptr_t)wr->sg_list[i].addr;
		check_local(&wr->sg_list[i]);
		for (uint32_t n = 0; n < wr->sg_list[i].length; n++)
			to[n] = what[n % 8];
		all += wr->sg_list[i].length;
	}
	if (atomic)
		check_within(wr->wr.atomic.remote_addr, 8, l->welcome.lock_addr, l->welcome.stripes * 8);
	/* READs where the table is not are refused by the server's device, so where a reply
	 * says that a copy stands is the server's own affair; of a sound one fuzz/get.c knows. */
	FUZZ_CHECK(all <= KVD_VALUE_BYTES_MAX + OP_ITEM_BYTES);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct lane *l = qp->qp_context;

	(void)bad;
	for (; wr; wr = wr->next) {
		if (wr->opcode == IBV_WR_SEND)
			sent(l, wr);
		else
			answer_read(l, wr, wr->opcode != IBV_WR_RDMA_READ);
		complete(l, wr);
	}
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct lane *l = qp->qp_context;

	(void)bad;
	for (; wr; wr = wr->next) {
		FUZZ_CHECK(l->recv_count < RECVS_MAX && wr->num_sge == 1);
		check_local(wr->sg_list);
		l->recvs[l->recv_count].id = wr->wr_id;
		l->recvs[l->recv_count++].sge = *wr->sg_list;
	}
	return 0;
}

static uint32_t payload(uint8_t *to, uint32_t room)
{
	uint32_t bytes = (uint32_t)fuzz_take(&w.in, 2) % (room + 1);

	for (uint32_t i = 0; i < bytes; i++)
		to[i] = (uint8_t)fuzz_take(&w.in, 1);
	return bytes;
}

static uint32_t welcome(struct lane *l, uint8_t *to, bool changed)
{
	uint8_t *bytes = (uint8_t *)&l->welcome;

	/* A small table, all of whose parts are where a good kvd's might be. */
	l->welcome = (struct wire_welcome){
		.table_addr = TABLE_AT, .table_bytes = TABLE_BYTES,
		.lock_addr = TABLE_AT + 2 * TABLE_BYTES, .stripes = 64, .marks_offset = 4096,
		.scratch_offset = 65536, .dir_offset = 8192, .dir_entries = 16,
		.segment_bytes = 4096, .connection_id = w.connections, .instance = 1,
		.workers = 1, .table_rkey = 1001, .lock_rkey = 1002, .credits = 32,
		.message_bytes_max = WIRE_MESSAGE_BYTES_MAX, .role = 3 };
	for (unsigned n = 0; changed && n < 4; n++) {
		unsigned at = (unsigned)fuzz_take(&w.in, 1);
		bytes[at % sizeof l->welcome] ^= (uint8_t)fuzz_take(&w.in, 1);
	}
	memcpy(to, &l->welcome, sizeof l->welcome);
	return sizeof l->welcome;
}

/* A message from kvd; its length. */
static uint32_t reply(struct lane *l, uint8_t *to, uint32_t room)
{
	struct wire_reply r = { .bucket = ~0ull, .buckets = 64 };
	struct asked q = { .id = 0xfffffff0 };
	unsigned how = (unsigned)fuzz_take(&w.in, 1);
	uint8_t head[sizeof r];

	if (l->asked_count) {
		q = l->asked[0];
		memmove(l->asked, l->asked + 1, --l->asked_count * sizeof q);
	}
	if (how % 8 >= 5)
		for (unsigned i = 0; i < sizeof head; i++)
			head[i] = (uint8_t)fuzz_take(&w.in, 1);
	if (how % 8 >= 5)
		memcpy(&r, head, sizeof r);
	else
		r.status = (uint8_t)(how >> 4 & 1 ? fuzz_take(&w.in, 1) % WIRE_STATUSES : WIRE_OK);
	if (how % 8 < 7) {
		r.request_id = q.id;
		r.op = q.op;
	}
	if (how % 8 == 6)
		r.request_id = WIRE_NOTICE_ID;
	memcpy(to, &r, sizeof r);
	if (how == 0xff)
		return (uint32_t)fuzz_take(&w.in, 1) % sizeof r;
	if (q.op == WIRE_HELLO && how % 8 < 6)
		return (uint32_t)sizeof r + welcome(l, to + sizeof r, how >> 5 & 1);
	return (uint32_t)sizeof r + payload(to + sizeof r, room - (uint32_t)sizeof r);
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
	struct lane *l = cq->cq_context;
	int n = 0;

	while (n < most && (unsigned)n < l->done_count) {
		wc[n] = l->done[n];
		n++;
	}
	l->done_count -= (unsigned)n;
	memmove(l->done, l->done + n, l->done_count * sizeof *l->done);
	if (n || !l->recv_count)
		return n;
	*wc = (struct ibv_wc){ .status = IBV_WC_WR_FLUSH_ERR };
	if (!w.in.left)
		return 1;
	uint8_t *to = (uint8_t *)(uintptr_t)l->recvs[0].sge.addr;
	*wc = (struct ibv_wc){ .wr_id = l->recvs[0].id, .opcode = IBV_WC_RECV,
			       .byte_len = reply(l, to, l->recvs[0].sge.length) };
	memmove(l->recvs, l->recvs + 1, --l->recv_count * sizeof l->recvs[0]);
	return 1;
}

static int req_notify(struct ibv_cq *cq, int solicited)
{
	(void)cq, (void)solicited;
	return 0;
}

/* --------------------------------------------------------------- connections */

static struct rdma_event_channel *create_event_channel(void)
{
	errno = ENODEV;
	return w.connections++ < CONNECTIONS_MAX ? &channel : NULL;
}

static void destroy_event_channel(struct rdma_event_channel *ch)
{
	(void)ch;
}

static int create_id(struct rdma_event_channel *ch, struct rdma_cm_id **id, void *arg,
		     enum rdma_port_space ps)
{
	(void)ps;
	*id = calloc(1, sizeof **id);
	FUZZ_CHECK(*id);
	(*id)->channel = ch;
	(*id)->context = arg;
	(*id)->verbs = &context;
	(*id)->port_num = 1;
	return 0;
}

static int destroy_id(struct rdma_cm_id *id)
{
	free(id);
	return 0;
}

static int tell(enum rdma_cm_event_type type)
{
	w.event = type;
	return 0;
}

static int resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
	(void)id, (void)from, (void)to, (void)ms;
	return tell(RDMA_CM_EVENT_ADDR_RESOLVED);
}

static int resolve_route(struct rdma_cm_id *id, int ms)
{
	(void)id, (void)ms;
	return tell(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static int do_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	uint8_t *bytes = (uint8_t *)&accepted;

	(void)id, (void)param;
	accepted = (struct wire_accept){ .magic = WIRE_MAGIC, .version = WIRE_VERSION };
	if (fuzz_take(&w.in, 1) != 0xff)
		return tell(RDMA_CM_EVENT_CONNECT_RESPONSE);
	for (unsigned i = 0; i < sizeof accepted; i++)
		bytes[i] ^= (uint8_t)fuzz_take(&w.in, 1);
	return tell(fuzz_take(&w.in, 1) % 2 ? RDMA_CM_EVENT_CONNECT_RESPONSE : RDMA_CM_EVENT_REJECTED);
}

static int get_cm_event(struct rdma_event_channel *ch, struct rdma_cm_event **event)
{
	static struct rdma_cm_event e;

	(void)ch;
	errno = EAGAIN;
	if ((int)w.event < 0)
		return -1;
	e = (struct rdma_cm_event){ .event = w.event };
	if (w.event == RDMA_CM_EVENT_CONNECT_RESPONSE || w.event == RDMA_CM_EVENT_REJECTED) {
		e.param.conn.private_data = &accepted;
		e.param.conn.private_data_len = sizeof accepted;
	}
	w.event = (enum rdma_cm_event_type)-1;
	*event = &e;
	return 0;
}

static int ack_cm_event(struct rdma_cm_event *event)
{
	(void)event;
	return 0;
}

static int id_nothing(struct rdma_cm_id *id)
{
	(void)id;
	return 0;
}

static int init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	(void)id, (void)attr;
	*mask = IBV_QP_STATE;
	return 0;
}

/* -------------------------------------------------------------------- objects */

static int query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	(void)ctx;
	*attr = (struct ibv_device_attr){ .max_qp_wr = 1 << 14, .max_cqe = 1 << 15, .max_sge = 16,
					  .max_qp_rd_atom = 16, .max_qp_init_rd_atom = 16,
					  .atomic_cap = IBV_ATOMIC_HCA };
	return 0;
}

static int query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr)
{
	(void)ctx, (void)port;
	*attr = (struct ibv_port_attr){ .state = IBV_PORT_ACTIVE, .max_msg_sz = 1 << 20 };
	return 0;
}

static struct ibv_pd *alloc_pd(struct ibv_context *ctx)
{
	struct ibv_pd *pd = calloc(1, sizeof *pd);

	FUZZ_CHECK(pd);
	pd->context = ctx;
	return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	return 0;
}

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *ctx)
{
	(void)ctx;
	return &comp;
}

static int destroy_comp_channel(struct ibv_comp_channel *ch)
{
	(void)ch;
	return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *ctx, int cqe, void *arg,
				struct ibv_comp_channel *ch, int vector)
{
	struct ibv_cq *cq = calloc(1, sizeof *cq);

	(void)cqe, (void)arg, (void)ch, (void)vector;
	FUZZ_CHECK(cq && w.connections && w.connections <= CONNECTIONS_MAX);
	cq->context = ctx;
	cq->cq_context = &lanes[w.connections - 1]; /* the connection that is being made */
	return cq;
}

static int destroy_cq(struct ibv_cq *cq)
{
	free(cq);
	return 0;
}

static int get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **arg)
{
	(void)ch, (void)cq, (void)arg;
	errno = EAGAIN;
	return -1;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	(void)cq, (void)n;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = calloc(1, sizeof *qp);

	FUZZ_CHECK(qp);
	qp->context = pd->context;
	qp->qp_context = attr->send_cq->cq_context;
	qp->qp_num = 77;
	return qp;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp, (void)attr, (void)mask;
	return 0;
}

static int destroy_qp(struct ibv_qp *qp)
{
	free(qp);
	return 0;
}

static const struct verbs ill = {
	.name = "ill", .soft = true, .query_device = query_device, .query_port = query_port,
	.alloc_pd = alloc_pd, .dealloc_pd = dealloc_pd, .reg_mr = reg_mr, .dereg_mr = dereg_mr,
	.create_comp_channel = create_comp_channel, .destroy_comp_channel = destroy_comp_channel,
	.create_cq = create_cq, .destroy_cq = destroy_cq, .get_cq_event = get_cq_event,
	.ack_cq_events = ack_cq_events, .create_qp = create_qp, .modify_qp = modify_qp,
	.destroy_qp = destroy_qp, .create_event_channel = create_event_channel,
	.destroy_event_channel = destroy_event_channel, .create_id = create_id,
	.destroy_id = destroy_id, .resolve_addr = resolve_addr, .resolve_route = resolve_route,
	.connect = do_connect, .establish = id_nothing, .disconnect = id_nothing,
	.init_qp_attr = init_qp_attr, .get_cm_event = get_cm_event, .ack_cm_event = ack_cm_event,
};

/* ---------------------------------------------------------------------- inputs */

static void start(void)
{
	context.device = &device;
	context.ops = (struct ibv_context_ops){ .post_send = post_send, .post_recv = post_recv,
						.poll_cq = poll_cq, .req_notify_cq = req_notify };
	channel.fd = comp.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	FUZZ_CHECK(channel.fd >= 0);
}

void fuzz_device(kvd_client *client)
{
	client->verbs = &ill;
	client->device.verbs = &ill;
}

static void forget(void)
{
	memset(&w, 0, sizeof w);
	for (unsigned i = 0; i < CONNECTIONS_MAX; i++)
		lanes[i].done_count = lanes[i].recv_count = lanes[i].asked_count = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct kvd_options options = { .size = sizeof options, .timeout_ms = 10, .depth = 4,
				       .mirror_bytes = 1 << 14, .credentials = "" };
	kvd_client *client;
	kvd_session *session;

	if (channel.fd == 0)
		start();
	fuzz_clock_begin();
	forget();
	w.in = (struct fuzz_input){ data, bytes };
	w.event = (enum rdma_cm_event_type)-1;
	options.get = fuzz_take(&w.in, 1) % 2 ? KVD_GET_MESSAGE : KVD_GET_READ;
	FUZZ_CHECK(kvd_client_new("127.0.0.1:1", &options, &client) == KVD_OK);
	fuzz_device(client);
	if (kvd_session_new(client, &session) == KVD_OK) {
		for (unsigned i = 0; i < CALLS_MAX && session && w.in.left; i++)
			fuzz_call(&client, &session, (unsigned)fuzz_take(&w.in, 1));
		kvd_session_delete(&session);
	}
	if (client)
		kvd_client_delete(&client);
	FUZZ_CHECK(fuzz_clock_end() < INPUT_NS_MAX);
	for (unsigned i = 0; i < MRS_MAX; i++)
		FUZZ_CHECK(!w.mrs[i]);
	return 0;
}

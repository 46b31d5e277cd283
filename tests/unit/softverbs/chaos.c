/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chaos.c -- processes that talk to each other while some are killed.
 *
 * Each worker listens, connects to others at random, reads their memory and sends
 * them messages; every byte that arrives is checked.  The parent kills workers (but
 * the first) at random moments and starts new ones.  In the end those that live
 * have to end well, the first one, which has seen them all, must have as many
 * descriptors and mappings as at first and hardly more memory, and no address may be
 * left.  SOFTVERBS_KILLS says how many; 60 if it does not.  "make check-chaos" has
 * 1,000.
 */
#include <arpa/inet.h>
#include <malloc.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include "tests/unit/descriptors.h"
#include "tests/unit/softverbs/kit.h"

#define S IBV_SEND_SIGNALED
#define WORKERS 8
#define CONNS 12
#define WORDS 512
#define RECVS 64
#define SLOT_BYTES 64
/* Measured: 32,000 after 1,000 kills.  The smallest leak at each kill is more. */
#define HEAP_BYTES 150000

struct shared {
	_Atomic uint32_t port[WORKERS];
	_Atomic bool stop;
	_Atomic uint64_t reads, messages;
};

static struct shared *shared;

struct hello {
	uint64_t addr, pid;
	uint32_t rkey;
};

struct message {
	uint64_t pid, serial, sum;
};

struct conn {
	struct rdma_cm_id *id;
	struct ibv_qp *qp;
	struct hello peer;
	bool up;
	unsigned int in_flight;
	uint64_t sent, received;
};

struct worker {
	struct kit k;
	struct rdma_event_channel *ch;
	struct rdma_cm_id *listener;
	struct conn conns[CONNS];
	uint64_t rng;
	int me;
};

static uint64_t rnd(struct worker *w)
{
	uint64_t x = w->rng += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	return x ^ x >> 31;
}

static uint64_t word_of(uint64_t pid, uint64_t i)
{
	return (pid << 32 | i) * 0x9e3779b97f4a7c15ull;
}

/* ---- connections ---- */

static struct conn *new_conn(struct worker *w, struct rdma_cm_id *id)
{
	for (int i = 0; i < CONNS; i++) {
		if (w->conns[i].id)
			continue;
		w->conns[i] = (struct conn){ .id = id, .qp = NULL };
		id->context = &w->conns[i];
		return &w->conns[i];
	}
	return NULL;
}

static void drop(struct conn *c)
{
	if (c->qp)
		CHECK(!sv_destroy_qp(c->qp));
	CHECK(!sv_destroy_id(c->id));
	memset(c, 0, sizeof(*c));
}

static void step(struct conn *c, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	/* The other side may be gone already: the state is then another. */
	if (sv_init_qp_attr(c->id, &attr, &mask))
		return;
	attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	attr.min_rnr_timer = 1;
	if (mask & IBV_QP_TIMEOUT)
		attr.timeout = 10;
	CHECK(!sv_modify_qp(c->qp, &attr, mask));
}

static void to_rts(struct conn *c)
{
	step(c, IBV_QPS_INIT);
	step(c, IBV_QPS_RTR);
	step(c, IBV_QPS_RTS);
}

static struct rdma_conn_param param_of(struct worker *w, struct conn *c, struct hello *hello)
{
	c->qp = kit_new_qp(&w->k);
	c->qp->qp_context = c;
	*hello = (struct hello){ (uintptr_t)w->k.mem, (uint64_t)getpid(), w->k.mr->rkey };
	return (struct rdma_conn_param){ .responder_resources = 16, .initiator_depth = 16,
					 .retry_count = 2, .rnr_retry_count = 7,
					 .qp_num = c->qp->qp_num, .private_data = hello,
					 .private_data_len = sizeof(*hello) };
}

static void start_conn(struct worker *w)
{
	uint32_t port = atomic_load(&shared->port[rnd(w) % WORKERS]);
	struct sockaddr_in dst = { .sin_family = AF_INET, .sin_port = (uint16_t)port,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_cm_id *id;

	if (!port)
		return;
	CHECK(!sv_create_id(w->ch, &id, NULL, RDMA_PS_TCP));
	if (!new_conn(w, id)) {
		CHECK(!sv_destroy_id(id));
		return;
	}
	CHECK(!sv_resolve_addr(id, NULL, (struct sockaddr *)&dst, 1000));
}

static void on_request(struct worker *w, struct rdma_cm_event *ev)
{
	struct conn *c = new_conn(w, ev->id);
	struct rdma_conn_param param;
	struct hello hello;

	if (!c) {
		struct rdma_cm_id *id = ev->id;

		sv_reject(id, NULL, 0);
		sv_ack_cm_event(ev);
		CHECK(!sv_destroy_id(id));
		return;
	}
	memcpy(&c->peer, ev->param.conn.private_data, sizeof(c->peer));
	sv_ack_cm_event(ev);
	param = param_of(w, c, &hello);
	to_rts(c);
	if (sv_accept(c->id, &param))
		drop(c);
}

static void on_event(struct worker *w, struct rdma_cm_event *ev)
{
	struct conn *c = ev->id->context;
	enum rdma_cm_event_type type = ev->event;
	struct rdma_conn_param param;
	struct hello hello;

	if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		on_request(w, ev);
		return;
	}
	if (type == RDMA_CM_EVENT_CONNECT_RESPONSE)
		memcpy(&c->peer, ev->param.conn.private_data, sizeof(c->peer));
	sv_ack_cm_event(ev);
	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		CHECK(!sv_resolve_route(c->id, 1000));
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		param = param_of(w, c, &hello);
		CHECK(!sv_connect(c->id, &param));
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		to_rts(c);
		c->up = !sv_establish(c->id);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		c->up = true;
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		drop(c);
	}
}

/* ---- traffic ---- */

static void post(struct worker *w, struct conn *c)
{
	int at = (int)(c - w->conns);
	uint64_t *buf = (uint64_t *)(void *)(w->k.mem + 65536 + at * 8192);
	struct ibv_sge sge = { (uintptr_t)buf, WORDS * 8, w->k.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = (uint64_t)at, .sg_list = &sge, .num_sge = 1,
				  .send_flags = S, .opcode = IBV_WR_RDMA_READ }, *bad;
	struct message msg = { (uint64_t)getpid(), c->sent, 0 };

	wr.wr.rdma.remote_addr = c->peer.addr;
	wr.wr.rdma.rkey = c->peer.rkey;
	if (rnd(w) % 2) {
		msg.sum = word_of(msg.pid, msg.serial);
		sge = (struct ibv_sge){ (uintptr_t)&msg, sizeof(msg), 0 };
		wr.opcode = IBV_WR_SEND;
		wr.send_flags |= IBV_SEND_INLINE;
		c->sent++;
	}
	if (!ibv_post_send(c->qp, &wr, &bad))
		c->in_flight = 1;
}

static void check_read(struct worker *w, struct conn *c)
{
	uint64_t *buf = (uint64_t *)(void *)(w->k.mem + 65536 + (c - w->conns) * 8192);

	for (uint64_t i = 0; i < WORDS; i++)
		CHECK(buf[i] == word_of(c->peer.pid, i));
	memset(buf, 0, WORDS * 8);
	atomic_fetch_add(&shared->reads, 1);
}

static struct conn *by_qpn(struct worker *w, uint32_t qpn)
{
	for (int i = 0; i < CONNS; i++) {
		if (w->conns[i].qp && w->conns[i].qp->qp_num == qpn)
			return &w->conns[i];
	}
	return NULL;
}

static void take_sent(struct worker *w)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(w->k.scq, 1, &wc) == 1) {
		struct conn *c = by_qpn(w, wc.qp_num);

		CHECK(c);
		c->in_flight = 0;
		if (wc.status != IBV_WC_SUCCESS) {
			CHECK(wc.status == IBV_WC_RETRY_EXC_ERR || wc.status == IBV_WC_WR_FLUSH_ERR);
			c->up = false;
		} else if (wc.opcode == IBV_WC_RDMA_READ) {
			check_read(w, c);
		}
	}
}

static void take_received(struct worker *w)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(w->k.rcq, 1, &wc) == 1) {
		struct conn *c = by_qpn(w, wc.qp_num);
		struct message *msg = (void *)(w->k.mem + 32768 + wc.wr_id * SLOT_BYTES);

		if (wc.status == IBV_WC_SUCCESS) {
			CHECK(c && wc.byte_len == sizeof(*msg));
			CHECK(msg->pid == c->peer.pid && msg->serial == c->received++);
			CHECK(msg->sum == word_of(msg->pid, msg->serial));
			atomic_fetch_add(&shared->messages, 1);
		}
		CHECK(!kit_post_recv(&w->k, 32768 + wc.wr_id * SLOT_BYTES, SLOT_BYTES, wc.wr_id));
	}
}

/* What a process has. */
struct holdings {
	int fds, maps;
	size_t heap_bytes;
};

/* Lines of a file that hold the text. */
static int count_lines(const char *path, const char *text)
{
	FILE *file = fopen(path, "r");
	char line[512];
	int n = 0;

	CHECK(file);
	while (fgets(line, sizeof(line), file))
		n += strstr(line, text) != NULL;
	fclose(file);
	return n;
}

static struct holdings count_holdings(void)
{
	return (struct holdings){ count_descriptors(), count_lines("/proc/self/maps", "softverbs"),
				  mallinfo2().uordblks };
}

/* A process with the device keeps its own two tables and six descriptors; its links
 * to others, and what was mapped of theirs, go soon after them. */
static void check_holdings(const struct holdings *first)
{
	uint64_t until = kit_now_ns() + 20000000000u;
	struct holdings now;

	for (;;) {
		now = count_holdings();
		if (now.fds <= first->fds + 12 && now.maps <= first->maps + 2)
			break;
		if (kit_now_ns() > until) {
			fprintf(stderr, "left: %d descriptors, %d mappings\n",
				now.fds - first->fds, now.maps - first->maps);
			_exit(1);
		}
		sched_yield();
	}
	fprintf(stderr, "left: %d descriptors, %d mappings, %ld bytes\n", now.fds - first->fds,
		now.maps - first->maps, (long)(now.heap_bytes - first->heap_bytes));
	CHECK(now.heap_bytes <= first->heap_bytes + HEAP_BYTES);
}

static void open_worker(struct worker *w, int me)
{
	struct kit_opts opts = kit_defaults;
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	opts.srq = true;
	opts.recv_wr = RECVS;
	opts.cqe = 1024;
	w->me = me;
	w->rng = (uint64_t)getpid();
	kit_open(&w->k, &opts, -1);
	for (uint64_t i = 0; i < WORDS; i++)
		((uint64_t *)(void *)w->k.mem)[i] = word_of((uint64_t)getpid(), i);
	for (uint64_t i = 0; i < RECVS; i++)
		CHECK(!kit_post_recv(&w->k, 32768 + i * SLOT_BYTES, SLOT_BYTES, i));
	CHECK((w->ch = sv_create_event_channel()) != NULL);
	CHECK(!fcntl(w->ch->fd, F_SETFL, O_NONBLOCK));
	CHECK(!sv_create_id(w->ch, &w->listener, NULL, RDMA_PS_TCP));
	CHECK(!sv_bind_addr(w->listener, (struct sockaddr *)&addr));
	CHECK(!sv_listen(w->listener, 16));
	atomic_store(&shared->port[me], sv_get_src_port(w->listener));
}

static void close_worker(struct worker *w)
{
	for (int i = 0; i < CONNS; i++) {
		if (w->conns[i].id)
			drop(&w->conns[i]);
	}
	CHECK(!sv_destroy_id(w->listener));
	sv_destroy_event_channel(w->ch);
	kit_close(&w->k);
}

static void turn(struct worker *w)
{
	struct rdma_cm_event *ev;
	struct conn *c = &w->conns[rnd(w) % CONNS];

	while (!sv_get_cm_event(w->ch, &ev))
		on_event(w, ev);
	CHECK(errno == EAGAIN);
	take_sent(w);
	take_received(w);
	if (!c->id && rnd(w) % 64 == 0)
		start_conn(w);
	else if (c->up && !c->in_flight)
		post(w, c);
	else if (c->id && c->qp && !c->up && !c->in_flight && kit_state(c->qp) == IBV_QPS_ERR)
		drop(c);
	if (c->up && rnd(w) % 4096 == 0)
		drop(c);
}

static void work(int me)
{
	struct worker *w = calloc(1, sizeof(*w));
	struct holdings first;

	CHECK(w);
	first = count_holdings();
	open_worker(w, me);
	while (!atomic_load(&shared->stop))
		turn(w);
	close_worker(w);
	if (me == 0)
		check_holdings(&first);
	free(w);
}

static pid_t start(int me)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	alarm(1200);
	work(me);
	exit(0);
}

static void test_kills(void **state)
{
	const char *text = getenv("SOFTVERBS_KILLS");
	int kills = text ? atoi(text) : 60;
	pid_t pids[WORKERS];
	uint64_t rng = 1;

	(void)state;
	fflush(NULL);
	for (int i = 0; i < WORKERS; i++)
		pids[i] = start(i);
	for (int i = 0; i < kills; i++) {
		int victim = 1 + (int)(rng >> 33) % (WORKERS - 1);
		uint64_t goal = atomic_load(&shared->reads) + (rng >> 20) % 3000;
		uint64_t until = kit_now_ns() + 2000000000u;
		int status;

		while (atomic_load(&shared->reads) < goal && kit_now_ns() < until)
			usleep(500);
		kill(pids[victim], SIGKILL);
		assert_int_equal(waitpid(pids[victim], &status, 0), pids[victim]);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		pids[victim] = start(victim);
		rng = rng * 6364136223846793005ull + 1442695040888963407ull;
	}
	atomic_store(&shared->stop, true);
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(kit_status(pids[i]), 0);
	assert_true(atomic_load(&shared->reads) > 0 && atomic_load(&shared->messages) > 0);
	/* Only the control threads of ended processes could still be at it. */
	assert_int_equal(count_lines("/proc/net/unix", getenv("SOFTVERBS_FABRIC")), 0);
	print_message("%d kills, %lu reads, %lu messages\n", kills,
		      (unsigned long)shared->reads, (unsigned long)shared->messages);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_kills) };
	char fabric[32];

	snprintf(fabric, sizeof(fabric), "chaos-%ld", (long)getpid());
	setenv("SOFTVERBS_FABRIC", fabric, 1);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	return shared == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}

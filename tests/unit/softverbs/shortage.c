/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shortage.c -- memory, mappings, descriptors and threads that are not to be had: each step of each
 * call fails once.  The call says so, and leaves nothing.
 */
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include "common/softverbs/base/proc.h"
#include "common/softverbs/base/shm.h"
#include "common/softverbs/verbs/start.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/softverbs/xrc.h"

/* ---- what fails ---- */

/* Of this thread: the step that fails, 1 the next one; 0: none does.  What it said then. */
static _Thread_local unsigned int fails_at;
static _Thread_local int said;
/* Of this thread: what it has and did not give back. */
static _Thread_local long blocks, maps;
static bool no_slots, old_kernel, numbered;
static uint8_t tried[SV_SLOTS];

static bool falls_short(int error)
{
	if (!fails_at || --fails_at)
		return false;
	errno = said = error;
	return true;
}

#define FD_MAKER(name, params, args)                                                          \
	int __real_##name params;                                                               \
	int __wrap_##name params;                                                               \
	int __wrap_##name params                                                                \
	{                                                                                       \
		return falls_short(EMFILE) ? -1 : __real_##name args;                           \
	}

FD_MAKER(memfd_create, (const char *name, unsigned int flags), (name, flags))
FD_MAKER(ftruncate64, (int fd, off_t bytes), (fd, bytes))
FD_MAKER(eventfd, (unsigned int count, int flags), (count, flags))
FD_MAKER(epoll_create1, (int flags), (flags))
FD_MAKER(epoll_ctl, (int fd, int op, int of, struct epoll_event *event), (fd, op, of, event))
FD_MAKER(timerfd_create, (int clock, int flags), (clock, flags))
FD_MAKER(socket, (int domain, int type, int protocol), (domain, type, protocol))
FD_MAKER(listen, (int fd, int most), (fd, most))

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void __real_free(void *mem);
void *__real_mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t bytes);
int __real_fcntl64(int fd, int what, ...);
int __real_bind(int fd, const struct sockaddr *to, socklen_t bytes);
ssize_t __real_getrandom(void *to, size_t bytes, unsigned int flags);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void __wrap_free(void *mem);
void *__wrap_mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t bytes);
int __wrap_fcntl64(int fd, int what, ...);
int __wrap_bind(int fd, const struct sockaddr *to, socklen_t bytes);
ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned int flags);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

static void *counted(void *mem)
{
	blocks += mem != NULL;
	return mem;
}

void *__wrap_malloc(size_t bytes)
{
	return falls_short(ENOMEM) ? NULL : counted(__real_malloc(bytes));
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	return falls_short(ENOMEM) ? NULL : counted(__real_calloc(n, bytes));
}

void __wrap_free(void *mem)
{
	blocks -= mem != NULL;
	__real_free(mem);
}

void *__wrap_mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	if (falls_short(ENOMEM))
		return MAP_FAILED;
	maps++;
	return __real_mmap64(at, bytes, prot, flags, fd, offset);
}

int __wrap_munmap(void *at, size_t bytes)
{
	maps--;
	return __real_munmap(at, bytes);
}

/* Linux before 5.1 does not know the seal. */
int __wrap_fcntl64(int fd, int what, ...)
{
	va_list args;
	long arg;

	va_start(args, what);
	arg = va_arg(args, long);
	va_end(args);
	if (old_kernel && what == F_ADD_SEALS && arg == F_SEAL_FUTURE_WRITE) {
		errno = EINVAL;
		return -1;
	}
	return falls_short(EPERM) ? -1 : __real_fcntl64(fd, what, arg);
}

int __wrap_bind(int fd, const struct sockaddr *to, socklen_t bytes)
{
	const struct sockaddr_un *sun = (const void *)to;
	char path[sizeof(sun->sun_path)] = "";
	unsigned long slot;

	if (!no_slots)
		return falls_short(EACCES) ? -1 : __real_bind(fd, to, bytes);
	memcpy(path, sun->sun_path + 1, bytes - offsetof(struct sockaddr_un, sun_path) - 1);
	slot = strtoul(strrchr(path, '/') + 1, NULL, 10);
	CHECK(slot < SV_SLOTS);
	tried[slot]++;
	errno = EADDRINUSE;
	return -1;
}

ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned int flags)
{
	static _Thread_local uint8_t words; /* so many were drawn: each has its number in its lowest byte */
	ssize_t n = falls_short(EIO) ? -1 : __real_getrandom(to, bytes, flags);
	uint32_t word;

	for (ssize_t at = 0; numbered && at + (ssize_t)sizeof(word) <= n; at += (ssize_t)sizeof(word)) {
		memcpy(&word, (char *)to + at, sizeof(word));
		word = (word & ~0xffu) | ++words;
		memcpy((char *)to + at, &word, sizeof(word));
	}
	return n;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	return falls_short(EAGAIN) ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

/* ---- what is there ---- */

struct stock {
	long blocks, maps;
	int fds;
};

static struct stock take_stock(void)
{
	return (struct stock){ .blocks = blocks, .maps = maps, .fds = count_descriptors() };
}

static void expect_stock(struct stock want)
{
	CHECK(blocks == want.blocks && maps == want.maps && count_descriptors() == want.fds);
}

/* ---- each step of a call ---- */

struct world {
	struct owner o;
	struct kit k;
	struct ibv_qp *dgram;
	struct ibv_ah *ah;
};

/* NULL and errno, or something. */
typedef void *maker(struct world *w);

static void *made(int ret, void *what)
{
	errno = ret;
	return ret ? NULL : what;
}

/* Loose: a part of what is made may stay for the next time, and another may be done without. */
static void *try_steps(struct world *w, maker *make, int times, bool loose)
{
	struct stock before = take_stock();

	for (unsigned int n = 1;; n++) {
		for (int i = 0; i < times; i++) {
			void *what;

			fails_at = n;
			said = 0;
			what = make(w);
			fails_at = 0;
			if (!said || (loose && what)) {
				CHECK(what && n > 1 && i == 0);
				return what;
			}
			/* A key that can't be drawn is out, as others are. */
			CHECK(!what && (errno == said || (said == EIO && errno == ENOMEM)));
		}
		if (!loose)
			expect_stock(before);
	}
}

static void *a_presence(struct world *w)
{
	(void)w;
	return made(sv_start() ? errno : 0, tried);
}

static void presence(int sock)
{
	struct stock before = take_stock();
	struct kit k;

	(void)sock;
	no_slots = true;
	CHECK(!a_presence(NULL) && errno == EUSERS);
	no_slots = false;
	expect_stock(before);
	for (uint32_t i = 0; i < SV_SLOTS; i++)
		CHECK(tried[i] == (i && i < SV_SLOTS - 1));
	try_steps(NULL, a_presence, 1, false);
	kit_open_self(&k, &kit_defaults);
	kit_complete(&k);
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	kit_close(&k);
}

static void test_presence(void **state)
{
	(void)state;
	kit_run(presence, kit_nothing);
}

/* What is counted from a random number on has one of its own: who guesses one knows no other. */
static void own_numbers(int sock)
{
	uint8_t qp, pd, gen;

	(void)sock;
	numbered = true;
	CHECK(!sv_start());
	qp = (uint8_t)sv_proc->next_qp;
	pd = (uint8_t)sv_proc->next_pd;
	gen = (uint8_t)atomic_load(&sv_proc->next_gen);
	CHECK(qp && pd && gen);
	CHECK(qp != pd && pd != gen && gen != qp);
}

static void test_numbers(void **state)
{
	(void)state;
	kit_run(own_numbers, kit_nothing);
}

static void no_seal(int sock)
{
	struct kit k;

	(void)sock;
	old_kernel = true;
	kit_open_self(&k, &kit_defaults);
	kit_complete(&k);
	kit_expect(k.scq, 1, IBV_WC_SUCCESS);
	kit_close(&k);
}

static void test_old_kernel(void **state)
{
	(void)state;
	kit_run(no_seal, kit_nothing);
}

/* ---- objects ---- */

static void *a_context(struct world *w)
{
	int n;
	struct ibv_device **list = sv_get_device_list(&n);
	struct ibv_context *ctx;

	(void)w;
	if (!list) {
		CHECK(n == 0);
		return NULL;
	}
	CHECK(n == 1);
	ctx = sv_open_device(list[0]);
	sv_free_device_list(list);
	return ctx;
}

static void *a_domain(struct world *w)
{
	return sv_alloc_pd(w->k.ctx);
}

static void *a_channel(struct world *w)
{
	return sv_create_comp_channel(w->k.ctx);
}

static void *a_cq(struct world *w)
{
	return sv_create_cq(w->k.ctx, 1, NULL, w->o.chan, 0);
}

static void *a_cq_ex(struct world *w)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 1 };

	return ibv_create_cq_ex(w->k.ctx, &init);
}

static void *more_cqes(struct world *w)
{
	int before = w->k.scq->cqe, ret = sv_resize_cq(w->k.scq, 2 * before);

	CHECK(w->k.scq->cqe == (ret ? before : 2 * before));
	return made(ret, w);
}

static void *a_region(struct world *w)
{
	return sv_reg_mr(w->k.pd, w, sizeof(*w), 0);
}

static void *a_window(struct world *w)
{
	return sv_alloc_mw(w->k.pd, IBV_MW_TYPE_2);
}

static void *an_srq(struct world *w)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return sv_create_srq(w->k.pd, &init);
}

static void *more_receives(struct world *w)
{
	struct ibv_srq_attr attr = { .max_wr = 100 }, now;
	int ret = sv_modify_srq(w->o.srq[0], &attr, IBV_SRQ_MAX_WR);

	CHECK(!sv_query_srq(w->o.srq[0], &now) && now.max_wr == (ret ? 64 : 100));
	return made(ret, w);
}

static void *an_xrc_srq(struct world *w)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 1, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC, .pd = w->k.pd,
		.xrcd = w->o.xrcd, .cq = w->k.rcq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ,
	};

	return ibv_create_srq_ex(w->k.ctx, &attr);
}

static void *a_qp(struct world *w)
{
	struct ibv_qp_init_attr init = { .send_cq = w->k.scq, .recv_cq = w->k.rcq, .qp_type = IBV_QPT_RC };

	return sv_create_qp(w->k.pd, &init);
}

static void *a_qp_ex(struct world *w)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC, .send_cq = w->k.scq, .recv_cq = w->k.rcq, .pd = w->k.pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};

	return ibv_create_qp_ex(w->k.ctx, &init);
}

static void *an_xrc_domain(struct world *w)
{
	return open_domain(w->k.ctx, -1, O_CREAT);
}

static void *a_target(struct world *w)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_RECV, .xrcd = w->o.xrcd,
					    .comp_mask = IBV_QP_INIT_ATTR_XRCD };

	return ibv_create_qp_ex(w->k.ctx, &init);
}

static struct ibv_ah_attr here(struct world *w)
{
	struct ibv_ah_attr attr = { .port_num = 1, .is_global = 1 };

	CHECK(!sv_query_gid(w->k.ctx, 1, 0, &attr.grh.dgid));
	return attr;
}

static void *an_address(struct world *w)
{
	struct ibv_ah_attr attr = here(w);

	return sv_create_ah(w->k.pd, &attr);
}

static void *a_group(struct world *w)
{
	const union ibv_gid gid = { .raw = { 0xff, 0x0e, [15] = 9 } };

	return made(sv_attach_mcast(w->dgram, &gid, 0), w);
}

static void *a_destination(struct world *w)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad = NULL;
	int ret;

	wr.wr.ud.ah = w->ah;
	wr.wr.ud.remote_qpn = w->dgram->qp_num;
	ret = ibv_post_send(w->dgram, &wr, &bad);
	CHECK(bad == (ret ? &wr : NULL));
	return made(ret, w);
}

static void *a_branch(struct world *w)
{
	return made(send_to(&w->k, srqn(w->o.srq[1]), 0, 16, IBV_WR_SEND, 7), w);
}

static void open_world(struct world *w)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	open_owner(&w->o, -1);
	open_sender(&w->k, -1);
	init.send_cq = w->k.scq;
	init.recv_cq = w->k.rcq;
	CHECK((w->dgram = sv_create_qp(w->k.pd, &init)) != NULL);
	CHECK(!sv_modify_qp(w->dgram, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!sv_modify_qp(w->dgram, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!sv_modify_qp(w->dgram, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

/* That they end well says that nothing of those that failed is left as their user. */
static void close_world(struct world *w)
{
	const union ibv_gid gid = { .raw = { 0xff, 0x0e, [15] = 9 } };

	CHECK(!sv_detach_mcast(w->dgram, &gid, 0) && !sv_destroy_qp(w->dgram) && !sv_destroy_ah(w->ah));
	kit_close(&w->k);
	close_owner(&w->o);
}

static void objects(int sock)
{
	struct world w = { .k = { .ctx = NULL } };

	(void)sock;
	open_world(&w);
	CHECK(!sv_close_device(try_steps(&w, a_context, 1, false)));
	CHECK(!sv_dealloc_pd(try_steps(&w, a_domain, 1, false)));
	CHECK(!sv_destroy_comp_channel(try_steps(&w, a_channel, 1, false)));
	CHECK(!sv_destroy_cq(try_steps(&w, a_cq, 1, false)));
	CHECK(!sv_destroy_cq(ibv_cq_ex_to_cq(try_steps(&w, a_cq_ex, 1, false))));
	try_steps(&w, more_cqes, 1, false);
	CHECK(!sv_dereg_mr(try_steps(&w, a_region, 1, false)));
	CHECK(!sv_dealloc_mw(try_steps(&w, a_window, 1, false)));
	/* So often that an index which was kept would be missed. */
	CHECK(!sv_destroy_srq(try_steps(&w, an_srq, SV_SRQS, false)));
	CHECK(!sv_destroy_srq(try_steps(&w, an_xrc_srq, SV_SRQS, false)));
	CHECK(!sv_destroy_qp(try_steps(&w, a_qp, SV_QPS, false)));
	try_steps(&w, more_receives, 1, false);
	CHECK(!sv_destroy_qp(try_steps(&w, a_qp_ex, 1, false)));
	CHECK(!ibv_close_xrcd(try_steps(&w, an_xrc_domain, 1, false)));
	CHECK(!sv_destroy_qp(try_steps(&w, a_target, 1, false)));
	w.ah = try_steps(&w, an_address, 1, false);
	try_steps(&w, a_group, 1, true);
	try_steps(&w, a_destination, 1, true);
	kit_expect(w.k.scq, 0, IBV_WC_SUCCESS);
	close_world(&w);
}

static void test_objects(void **state)
{
	(void)state;
	kit_run(objects, kit_nothing);
}

static void branches(int sock)
{
	struct world w = { .k = { .ctx = NULL } };

	(void)sock;
	open_owner(&w.o, -1);
	open_sender(&w.k, -1);
	w.o.target = new_target(&w.o);
	connect_target(&w.o, w.k.qp->qp_num);
	to_rts(&w.k, w.k.qp, w.o.target->qp_num);
	post(&w.o, 1, 64, 5);
	try_steps(&w, a_branch, 1, true);
	kit_expect(w.k.scq, 7, IBV_WC_SUCCESS);
	take(&w.o, 1, w.o.target->qp_num, 5, "to the first");
	kit_close(&w.k);
	close_owner(&w.o);
}

static void test_branches(void **state)
{
	(void)state;
	kit_run(branches, kit_nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_presence), cmocka_unit_test(test_old_kernel),
		cmocka_unit_test(test_objects),  cmocka_unit_test(test_branches),
		cmocka_unit_test(test_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

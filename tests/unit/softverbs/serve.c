/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process answers those that ask its control thread: the asker is the test, over a link of
 * its own, and says what it likes.  It takes the slot of the process itself, so that a queue pair
 * that is connected to itself is connected to it.
 */
#include <sys/mman.h>
#include <sys/un.h>
#include "common/softverbs/base/proc.h"
#include "common/softverbs/object/qp.h"
#include "common/softverbs/peer/msg.h"
#include "kit.h"

#define MEM_BYTES 65536u
#define WORDS ((uint64_t *)(void *)k->mem)

static uint8_t *stage; /* memory of the asker */
static int stage_fd = -1;

static int open_link(void)
{
	struct sockaddr_un sun;
	char name[16];
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(name, sizeof(name), "%u", sv_proc->slot);
	CHECK(!connect(fd, (struct sockaddr *)&sun, sv_address(&sun, "p", name)));
	return fd;
}

static void ask(int fd, const struct sv_msg *msg)
{
	CHECK(!sv_msg_send(fd, msg, NULL, 0));
}

/* The next answer; how many descriptors came with it, or -1: the link was cut. */
static int hear(int fd, struct sv_msg *msg)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	int fds[SV_MSG_FDS], nfds;

	CHECK(poll(&pfd, 1, KIT_LIMIT_S * 1000) == 1);
	if (sv_msg_recv(fd, msg, fds, &nfds))
		return -1;
	for (int i = 0; i < nfds; i++)
		close(fds[i]);
	return nfds;
}

static struct sv_msg hello(void)
{
	return (struct sv_msg){ .type = SV_MSG_HELLO, .abi = SV_ABI_VERSION,
				.slot = sv_proc->slot, .incarnation = 12345 };
}

static int greet(void)
{
	struct sv_msg msg = hello();
	int fd = open_link(), n;

	ask(fd, &msg);
	do
		n = hear(fd, &msg);
	while (n >= 0 && msg.type != SV_MSG_HELLO_OK);
	CHECK(n == 3 && msg.abi == SV_ABI_VERSION && msg.slot == sv_proc->slot);
	CHECK(msg.incarnation == sv_proc->incarnation);
	return fd;
}

static void give_stage(int fd)
{
	const struct sv_msg msg = { .type = SV_MSG_STAGE };

	if (stage_fd < 0) {
		stage_fd = sv_memfd("stage", SV_STAGES * SV_STAGE_BYTES);
		stage = mmap(NULL, SV_STAGES * SV_STAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			     stage_fd, 0);
		CHECK(stage != MAP_FAILED);
	}
	CHECK(!sv_msg_send(fd, &msg, &stage_fd, 1));
}

static void open_target(struct kit *k, int mem_flags)
{
	struct kit_opts opts = kit_defaults;

	opts.mem_bytes = MEM_BYTES;
	opts.mem_flags = mem_flags;
	kit_open_self(k, &opts);
}

/* ---- links that are cut ---- */

static void check_cut(bool greeted, const struct sv_msg *msg, int nfds)
{
	int fd = greeted ? greet() : open_link();
	const int fds[] = { stage_fd, stage_fd };
	struct sv_msg answer;

	CHECK(!sv_msg_send(fd, msg, fds, nfds));
	CHECK(hear(fd, &answer) < 0);
	close(fd);
}

static void strangers(int sock)
{
	struct sv_msg msg;
	struct kit k;

	(void)sock;
	open_target(&k, 0);
	msg = (struct sv_msg){ .type = SV_MSG_CHAN };
	check_cut(false, &msg, 0);
	msg = hello();
	msg.abi++;
	check_cut(false, &msg, 0);
	msg = hello();
	msg.slot = SV_SLOTS;
	check_cut(false, &msg, 0);
	msg = hello();
	check_cut(true, &msg, 0); /* twice */
	msg.type = SV_MSG_HELLO_OK;
	check_cut(true, &msg, 0);
	msg.type = SV_MSG_PART + 1;
	check_cut(true, &msg, 0);
	kit_close(&k);
}

static void liars(int sock)
{
	struct sv_msg msg;
	struct kit k;
	int fd;

	(void)sock;
	open_target(&k, 0);
	fd = greet();
	give_stage(fd);
	give_stage(fd); /* a second one */
	CHECK(hear(fd, &msg) < 0);
	close(fd);
	msg = (struct sv_msg){ .type = SV_MSG_STAGE };
	check_cut(true, &msg, 0);
	check_cut(true, &msg, 2);
	msg = (struct sv_msg){ .type = SV_MSG_ACCESS, .bytes = 8 };
	check_cut(true, &msg, 0); /* no stage */
	msg = (struct sv_msg){ .type = SV_MSG_JOIN, .src_qpn = sv_qpn(sv_proc->slot + 1, 1) };
	check_cut(true, &msg, 0);
	msg = (struct sv_msg){ .type = SV_MSG_PART, .src_qpn = sv_qpn(sv_proc->slot + 1, 1),
				.index = 1 };
	check_cut(true, &msg, 0);
	msg = (struct sv_msg){ .type = SV_MSG_PART, .src_qpn = sv_qpn(sv_proc->slot, 1) };
	check_cut(true, &msg, 0);
	kit_close(&k);
}

static void test_cut(void **state)
{
	(void)state;
	kit_run(strangers, liars);
}

/* ---- accesses ---- */

static struct sv_msg access_to(const struct kit *k, uint32_t opcode, size_t at, uint32_t bytes)
{
	return (struct sv_msg){ .type = SV_MSG_ACCESS, .index = sv_qp_of(k->qp)->index,
				.src_qpn = k->qp->qp_num, .opcode = opcode, .rkey = k->rkey,
				.bytes = bytes, .addr = k->addr + at, .serial = 9, .offset = 77 };
}

static uint32_t do_access(int fd, const struct sv_msg *msg, uint64_t *result)
{
	struct sv_msg answer;

	ask(fd, msg);
	CHECK(hear(fd, &answer) == 0 && answer.type == SV_MSG_ACCESS_OK);
	CHECK(answer.serial == 9 && answer.offset == 77 && answer.src_qpn == msg->src_qpn);
	if (result)
		*result = answer.swap;
	return answer.status;
}

static void check_atomics(int fd, struct kit *k)
{
	struct sv_msg msg = access_to(k, IBV_WR_ATOMIC_FETCH_AND_ADD, MEM_BYTES - 8, 8);
	uint64_t *word = WORDS + MEM_BYTES / 8 - 1, was;

	*word = 40;
	msg.compare_add = 2;
	CHECK(!do_access(fd, &msg, &was) && was == 40 && *word == 42);
	msg.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	msg.compare_add = 41;
	msg.swap = 7;
	CHECK(!do_access(fd, &msg, &was) && was == 42 && *word == 42);
	msg.compare_add = 42;
	CHECK(!do_access(fd, &msg, &was) && was == 42 && *word == 7);
}

/* All that is allowed, to the last byte; through the last stage too. */
static void allowed(int sock)
{
	struct sv_msg msg;
	struct kit kit, *k = &kit;
	uint8_t *last;
	int fd;

	(void)sock;
	open_target(k, -1);
	fd = greet();
	give_stage(fd);
	last = stage + (size_t)(SV_STAGES - 1) * SV_STAGE_BYTES;
	for (uint32_t i = 0; i < MEM_BYTES; i++)
		k->mem[i] = (uint8_t)(i * 7 + i / 256);
	msg = access_to(k, IBV_WR_RDMA_READ, 0, MEM_BYTES);
	CHECK(!do_access(fd, &msg, NULL) && !memcmp(stage, k->mem, MEM_BYTES));
	msg.stage = SV_STAGES - 1;
	CHECK(!do_access(fd, &msg, NULL) && !memcmp(last, k->mem, MEM_BYTES));
	memset(last, 0xee, 16);
	msg = access_to(k, IBV_WR_RDMA_WRITE, MEM_BYTES - 16, 16);
	msg.stage = SV_STAGES - 1;
	CHECK(!do_access(fd, &msg, NULL) && !memcmp(k->mem + MEM_BYTES - 16, last, 16));
	msg.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	msg.addr = k->addr;
	CHECK(!do_access(fd, &msg, NULL) && !memcmp(k->mem, last, 16) && k->mem[16] != 0xee);
	check_atomics(fd, k);
	msg = access_to(k, IBV_WR_RDMA_READ, 0, 8);
	msg.stage = SV_STAGES;
	ask(fd, &msg);
	CHECK(hear(fd, &msg) < 0);
	close(fd);
	fd = greet();
	give_stage(fd);
	msg = access_to(k, IBV_WR_RDMA_WRITE, 0, SV_STAGE_BYTES + 1);
	ask(fd, &msg);
	CHECK(hear(fd, &msg) < 0);
	CHECK(kit_state(k->qp) == IBV_QPS_RTS);
	close(fd);
	kit_close(k);
}

/* event: what the queue pair's program is told; 0: nothing, and it goes on. */
static void check_refused(struct kit *k, struct sv_msg msg, uint32_t status, int event)
{
	int fd = greet();

	give_stage(fd);
	memset(k->mem, 0x11, MEM_BYTES);
	memset(stage, 0x22, 64);
	CHECK(do_access(fd, &msg, NULL) == status);
	CHECK(k->mem[0] == 0x11 && k->mem[MEM_BYTES - 1] == 0x11 && stage[0] == 0x22);
	if (event) {
		CHECK(kit_async(k) == (enum ibv_event_type)event);
		CHECK(kit_state(k->qp) == IBV_QPS_ERR);
	} else
		CHECK(kit_state(k->qp) == IBV_QPS_RTS);
	close(fd);
}

enum wrong { BEYOND, LONG, ODD, SHORT, KEY, SLOT, QPN, INDEX, NO_READS, RIGHTS };

static struct sv_msg wrong_access(struct kit *k, enum wrong wrong, uint32_t opcode)
{
	struct sv_msg msg = access_to(k, opcode, 0, 8);

	if (wrong == BEYOND)
		msg.addr += MEM_BYTES - 7;
	else if (wrong == LONG)
		msg.bytes = SV_STAGE_BYTES;
	else if (wrong == ODD)
		msg.addr += 4;
	else if (wrong == SHORT)
		msg.bytes = 4;
	else if (wrong == KEY)
		msg.rkey ^= 1;
	else if (wrong == SLOT)
		msg.src_qpn ^= 1 << 12;
	else if (wrong == QPN)
		msg.src_qpn ^= 1;
	else if (wrong == INDEX)
		msg.index += SV_QPS;
	else if (wrong == NO_READS)
		atomic_store(&sv_qp_of(k->qp)->ro->rd_atomic, 0);
	else
		atomic_store(&sv_qp_of(k->qp)->ro->access, IBV_ACCESS_REMOTE_READ);
	return msg;
}

static void wrongs(int sock)
{
	enum { A = IBV_EVENT_QP_ACCESS_ERR, R = IBV_EVENT_QP_REQ_ERR };
	static const struct {
		enum wrong wrong;
		uint32_t opcode, status;
		int event;
	} cases[] = {
		{ BEYOND, IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR, A },
		{ BEYOND, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR, A },
		{ LONG, IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR, A },
		{ ODD, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_REM_INV_REQ_ERR, R },
		{ SHORT, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_REM_INV_REQ_ERR, R },
		{ KEY, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR, A },
		{ KEY, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_REM_ACCESS_ERR, A },
		{ SLOT, IBV_WR_RDMA_WRITE, IBV_WC_REM_ABORT_ERR, 0 },
		{ QPN, IBV_WR_RDMA_WRITE, IBV_WC_REM_ABORT_ERR, 0 },
		{ INDEX, IBV_WR_RDMA_READ, IBV_WC_REM_ABORT_ERR, 0 },
		{ NO_READS, IBV_WR_RDMA_READ, IBV_WC_REM_INV_REQ_ERR, R },
		{ NO_READS, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_REM_INV_REQ_ERR, R },
		{ RIGHTS, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR, A },
		{ RIGHTS, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_REM_ACCESS_ERR, A },
	};
	struct kit k;

	(void)sock;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		open_target(&k, -1);
		check_refused(&k, wrong_access(&k, cases[i].wrong, cases[i].opcode),
			      cases[i].status, cases[i].event);
		kit_close(&k);
	}
}

static void test_accesses(void **state)
{
	(void)state;
	kit_run(allowed, wrongs);
}

/* ---- mappings ---- */

static uint32_t object_of(const struct kit *k)
{
	return atomic_load(&sv_proc->ro->mr[sv_key_place(k->rkey)].mem);
}

static void check_map(int fd, struct sv_msg msg, uint32_t status, bool write)
{
	uint32_t mem = msg.mem;

	msg.type = SV_MSG_MAP;
	ask(fd, &msg);
	CHECK(hear(fd, &msg) == (status ? 0 : 1));
	CHECK(msg.type == SV_MSG_MAP_OK && msg.mem == mem && msg.status == status);
	CHECK(status || msg.bytes64 >= MEM_BYTES);
	CHECK(msg.write == write);
}

static void maps(int sock)
{
	struct sv_msg msg;
	struct kit k;
	int fd;

	(void)sock;
	open_target(&k, 0);
	fd = greet();
	msg = access_to(&k, IBV_WR_RDMA_READ, 0, 0);
	msg.mem = object_of(&k);
	msg.bytes64 = MEM_BYTES;
	CHECK(msg.mem);
	check_map(fd, msg, 0, false);
	msg.opcode = IBV_WR_RDMA_WRITE;
	check_map(fd, msg, 0, true);
	msg.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	msg.write = 1;
	check_map(fd, msg, 0, true);
	msg.opcode = IBV_WR_RDMA_READ;
	check_map(fd, msg, EACCES, true);
	msg.write = 0;
	msg.bytes64++;
	check_map(fd, msg, EACCES, false);
	msg.bytes64--;
	msg.mem++;
	check_map(fd, msg, EACCES, false);
	msg.mem--;
	msg.src_qpn ^= 1;
	check_map(fd, msg, EACCES, false);
	close(fd);
	kit_close(&k);
}

/* Nobody can map it. */
static void no_maps(int sock)
{
	struct sv_msg msg;
	struct kit k;
	int fd;

	(void)sock;
	open_target(&k, -1);
	fd = greet();
	msg = access_to(&k, IBV_WR_RDMA_READ, 0, 0);
	msg.bytes64 = 8;
	CHECK(object_of(&k) == 0);
	check_map(fd, msg, ENOTSUP, false);
	msg = (struct sv_msg){ .type = SV_MSG_CHAN, .mem = 999 };
	ask(fd, &msg);
	CHECK(hear(fd, &msg) == 0 && msg.type == SV_MSG_CHAN_OK && msg.mem == 999);
	close(fd);
	kit_close(&k);
}

static void test_maps(void **state)
{
	(void)state;
	kit_run(maps, no_maps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_accesses),
		cmocka_unit_test(test_maps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

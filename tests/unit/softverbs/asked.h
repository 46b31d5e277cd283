/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * asked.h -- behind bare.h: a process that others ask, and an asker that says what it likes.  Who is
 * called for it leaves a letter.
 *
 * The program is linked with --wrap for all that is called here.
 */
#ifndef TESTS_UNIT_SOFTVERBS_ASKED_H
#define TESTS_UNIT_SOFTVERBS_ASKED_H

#include "bare.h"
#include <sys/mman.h>
#include <sys/un.h>
#include "common/softverbs/base/atomic.h"
#include "common/softverbs/base/copy.h"
#include "common/softverbs/base/mem.h"
#include "common/softverbs/exec/dgram.h"
#include "common/softverbs/exec/serve.h"
#include "common/softverbs/object/channel.h"
#include "common/softverbs/peer/guest.h"

#define OTHER 9u
#define THEIR_QPN (OTHER << 12 | 12)
#define INCARNATION 77u
#define INDEX 70u
#define PLACE 1234u
#define KEY (PLACE << 8)
#define PD 4u
#define MEM 3u
#define DEVICE 2u
#define WAS 4242u
#define READ IBV_ACCESS_REMOTE_READ
#define WRITE IBV_ACCESS_REMOTE_WRITE
#define ATOMIC IBV_ACCESS_REMOTE_ATOMIC
#define ASKS_PER_WAKE 16
#define ACCEPTS_PER_WAKE 64

enum { SILENT = -1, CUT = -2 };

static struct sv_qp qp;
static struct ibv_context context;
static struct sv_ro_qp *const ro = &bare_ro.qp[INDEX];
static struct sv_ro_mr *const mr = &bare_ro.mr[PLACE];
static _Alignas(8) uint8_t memory[SV_STAGE_BYTES];
static uint8_t *stage;
static int listener, stage_fd;

static char calls[64];		 /* a letter for each */
static struct sv_msg asked_last; /* what was called for */
static bool has_fd;		 /* there is a descriptor to be given */
static int given_fd;		 /* which */
static bool given_write;
static uint32_t device, fault;

static inline void called(char what)
{
	size_t n = strlen(calls);

	assert_true(n + 1 < sizeof(calls));
	calls[n] = what;
}

static inline void check_calls(const char *expected)
{
	assert_string_equal(calls, expected);
	memset(calls, 0, sizeof(calls));
}

/* ---- who is called ---- */

void __wrap_sv_qp_fail_later(struct sv_qp *of, enum sv_fault_code code);
uint64_t __wrap_sv_atomic_execute(uint32_t of, void *word, uint32_t opcode, uint64_t compare_add,
				  uint64_t swap);
int __wrap_sv_chan_dup(uint32_t id);
int __wrap_sv_mem_export(uint32_t id, bool write, uint64_t *size_bytes);
void __wrap_sv_dgram_sender_gone(uint64_t incarnation);
void __real_sv_copy_from_shared(void *dst, const void *shared, size_t bytes);
void __wrap_sv_copy_from_shared(void *dst, const void *shared, size_t bytes);
void __real_sv_copy_to_shared(void *shared, const void *src, size_t bytes);
void __wrap_sv_copy_to_shared(void *shared, const void *src, size_t bytes);

/* Whether its memory is used for another at this moment. */
static inline void check_serving(bool serving)
{
	int ret = pthread_mutex_trylock(&bare_proc.serving);

	assert_int_equal(ret, serving ? EBUSY : 0);
	if (!ret)
		pthread_mutex_unlock(&bare_proc.serving);
}

void __wrap_sv_qp_fail_later(struct sv_qp *of, enum sv_fault_code code)
{
	assert_true(of == &qp && qp.refs == 1);
	called('F');
	fault = code;
}

uint64_t __wrap_sv_atomic_execute(uint32_t of, void *word, uint32_t opcode, uint64_t compare_add,
				  uint64_t swap)
{
	check_serving(true);
	called('a');
	device = of;
	asked_last = (struct sv_msg){ .addr = (uintptr_t)word, .opcode = opcode,
				      .compare_add = compare_add, .swap = swap };
	return WAS;
}

static inline int give(void)
{
	given_fd = has_fd ? sv_fd_track(dup(bare_proc.kick_fd)) : -1;
	return given_fd;
}

int __wrap_sv_chan_dup(uint32_t id)
{
	called('c');
	asked_last.mem = id;
	return give();
}

int __wrap_sv_mem_export(uint32_t id, bool write, uint64_t *size_bytes)
{
	assert_int_equal(id, MEM);
	called('e');
	given_write = write;
	*size_bytes = sizeof(memory);
	return give();
}

void __wrap_sv_dgram_sender_gone(uint64_t incarnation)
{
	assert_int_equal(incarnation, INCARNATION);
	called('g');
}

void __wrap_sv_copy_from_shared(void *dst, const void *shared, size_t bytes)
{
	check_serving(true);
	called('r');
	__real_sv_copy_from_shared(dst, shared, bytes);
}

void __wrap_sv_copy_to_shared(void *shared, const void *src, size_t bytes)
{
	check_serving(true);
	called('w');
	__real_sv_copy_to_shared(shared, src, bytes);
}

static inline uint32_t join(const struct sv_msg *msg, uint32_t *index)
{
	assert_int_equal(*index, 0);
	called('j');
	asked_last = *msg;
	*index = 31;
	return EBUSY;
}

static inline void join_own(struct sv_qp *of)
{
	assert_ptr_equal(of, &qp);
	called('o');
}

static inline void part(uint32_t sender_qpn, uint32_t index)
{
	called('p');
	asked_last = (struct sv_msg){ .src_qpn = sender_qpn, .index = index };
}

static inline void all_part(uint32_t slot)
{
	assert_int_equal(slot, OTHER);
	called('A');
}

static const struct sv_join_hooks hooks = { .join = join, .join_own = join_own, .part = part,
					    .all_part = all_part };

/* ---- the asked and the asker ---- */

static inline void fill_tables(void)
{
	*ro = (struct sv_ro_qp){ .state = IBV_QPS_RTS, .dest_qpn = THEIR_QPN, .pd = PD,
				 .access = READ | WRITE | ATOMIC, .rd_atomic = 1 };
	*mr = (struct sv_ro_mr){ .rkey = KEY, .access = READ | WRITE | ATOMIC, .pd = PD, .mem = MEM,
				 .addr = (uintptr_t)memory, .length = sizeof(memory) };
	qp.ib.qp_type = IBV_QPT_RC;
	bare_proc.seat[INDEX].qp = &qp;
}

static inline int listen_somewhere(void)
{
	struct sockaddr_un any = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any.sun_family)), 0);
	assert_int_equal(listen(fd, 2 * ACCEPTS_PER_WAKE), 0);
	return fd;
}

static inline int begin(void **state)
{
	pthread_mutexattr_t attr;
	int ret = bare_begin(state);

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&bare_proc.serving, &attr);
	pthread_mutexattr_destroy(&attr);
	bare_proc.ro_fd = sv_memfd("softverbs-ro", 1);
	bare_proc.rw_fd = sv_memfd("softverbs-rw", 1);
	stage_fd = sv_memfd("softverbs-stage", SV_STAGES * SV_STAGE_BYTES);
	stage = sv_map_received(stage_fd, SV_STAGES * SV_STAGE_BYTES, true);
	assert_non_null(stage);
	memset(&qp, 0, sizeof(qp));
	context.device = sv_device_at(DEVICE);
	qp.ib.context = &context;
	fill_tables();
	memset(calls, 0, sizeof(calls));
	has_fd = false;
	listener = listen_somewhere();
	sv_serve_on_join(&hooks);
	return sv_serve_start(listener) || ret;
}

static inline int end(void **state)
{
	assert_string_equal(calls, "");
	assert_int_equal(qp.refs, 0);
	check_serving(false);
	while (bare_proc.guests)
		sv_guest_drop(bare_proc.guests);
	munmap(stage, SV_STAGES * SV_STAGE_BYTES);
	sv_fd_close(stage_fd);
	sv_fd_close(bare_proc.ro_fd);
	sv_fd_close(bare_proc.rw_fd);
	close(listener);
	return bare_end(state);
}

static inline int call_only(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un sun;
	socklen_t bytes = sizeof(sun);

	assert_int_equal(getsockname(listener, (struct sockaddr *)&sun, &bytes), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sun, bytes), 0);
	return fd;
}

static inline int call(void)
{
	int fd = call_only();

	assert_int_equal(bare_turn(), 1);
	assert_non_null(bare_proc.guests);
	return fd;
}

/* The next answer: how many descriptors came with it, SILENT or CUT. */
static inline int hear_fds(int fd, struct sv_msg *msg, int *fds)
{
	int nfds, ret = sv_msg_recv(fd, msg, fds, &nfds);

	if (ret)
		return ret == EAGAIN ? SILENT : CUT;
	return nfds;
}

static inline int hear(int fd, struct sv_msg *msg)
{
	int fds[SV_MSG_FDS], n = hear_fds(fd, msg, fds);

	for (int i = 0; i < n; i++)
		sv_fd_close(fds[i]);
	return n;
}

static inline void say(int fd, const struct sv_msg *msg, int nfds)
{
	const int fds[] = { stage_fd, stage_fd, stage_fd };

	assert_int_equal(sv_msg_send(fd, msg, fds, nfds), 0);
}

/* What the answer is. */
static inline int ask(int fd, const struct sv_msg *msg, struct sv_msg *answer)
{
	say(fd, msg, 0);
	assert_int_equal(bare_turn(), 1);
	check_serving(false);
	return hear(fd, answer);
}

/* The link is lost at once: these were told. */
static inline void check_cut(int fd, const struct sv_msg *msg, int nfds, const char *expected)
{
	struct sv_msg answer;

	say(fd, msg, nfds);
	assert_int_equal(bare_turn(), 1);
	check_calls(expected);
	assert_int_equal(bare_free(), 1);
	assert_int_equal(hear(fd, &answer), CUT);
	close(fd);
}

static inline struct sv_msg hello(uint64_t incarnation)
{
	return (struct sv_msg){ .type = SV_MSG_HELLO, .abi = SV_ABI_VERSION, .slot = OTHER,
				.incarnation = incarnation };
}

static inline int greet(uint64_t incarnation)
{
	struct sv_msg msg = hello(incarnation), answer;
	int fd = call();

	assert_int_equal(ask(fd, &msg, &answer), 3);
	return fd;
}

/* And with a stage. */
static inline int greet_staged(void)
{
	const struct sv_msg msg = { .type = SV_MSG_STAGE };
	struct sv_msg answer;
	int fd = greet(INCARNATION);

	say(fd, &msg, 1);
	assert_int_equal(bare_turn(), 1);
	assert_int_equal(hear(fd, &answer), SILENT);
	return fd;
}

static inline struct sv_msg question(uint32_t type, uint32_t opcode)
{
	return (struct sv_msg){ .type = type, .index = INDEX, .src_qpn = THEIR_QPN, .opcode = opcode,
				.rkey = KEY, .bytes = 8, .bytes64 = 8, .mem = MEM,
				.addr = (uintptr_t)memory, .serial = 9, .offset = 10 };
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common/softverbs/base/: copies of every length and alignment, scattered and gathered; memory
 * that peers can map; names and descriptors, and what a failed call leaves of them.
 */
#include "kit.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include "common/softverbs/base/atomic.h"
#include "common/softverbs/base/bell.h"
#include "common/softverbs/base/copy.h"
#include "common/softverbs/base/fault.h"
#include "common/softverbs/base/fd.h"
#include "common/softverbs/base/mem.h"
#include "common/softverbs/base/name.h"
#include "common/softverbs/base/proc.h"

#define ROOM 16384u

static struct sv_proc proc;
static uint8_t *fenced_from, *fenced_to; /* their ends: what is behind may not be touched */

/* ROOM bytes between two pages without any rights; their end. */
static uint8_t *new_fenced(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *all = mmap(NULL, ROOM + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (all == MAP_FAILED || mprotect(all + page, ROOM, PROT_READ | PROT_WRITE))
		return NULL;
	return all + page + ROOM;
}

static int begin(void **state)
{
	(void)state;
	snprintf(proc.fabric, sizeof(proc.fabric), "base-%d", (int)getpid());
	sv_proc = &proc;
	fenced_from = new_fenced();
	fenced_to = new_fenced();
	return !fenced_from || !fenced_to;
}

/* The lowest descriptor that nobody has: the same while none is lost. */
static int lowest(void)
{
	int fd = open("/dev/null", O_RDONLY);

	close(fd);
	return fd;
}

/* ---- copies ---- */

static void fill(uint8_t *at, size_t bytes, uint32_t seed)
{
	for (size_t i = 0; i < bytes; i++) {
		seed = seed * 1664525u + 1013904223u;
		at[i] = (uint8_t)(seed >> 24);
	}
}

/* One copy that ends `from_end` and `to_end` bytes before the fences changes just these bytes. */
static void copy_one(sv_copy_fn *copy, size_t bytes, size_t from_end, size_t to_end)
{
	uint8_t *from = fenced_from - from_end - bytes, *to = fenced_to - to_end - bytes;

	memset(to - 64, 0xa5, bytes + 64 + to_end);
	copy(to, from, bytes);
	assert_memory_equal(to, from, bytes);
	for (size_t i = 1; i <= 64; i++)
		assert_int_equal(to[-(ptrdiff_t)i], 0xa5);
	for (size_t i = 0; i < to_end; i++)
		assert_int_equal(to[bytes + i], 0xa5);
}

static void copy_all(sv_copy_fn *copy)
{
	static const size_t lengths[] = { 511, 512, 513, 520, 543, 544, 575, 576, 577, 640, 700,
					  4095, 4096, 4160, 8191, 8256, 12345 };

	for (size_t end = 0; end < 40; end++) {
		for (size_t bytes = 0; bytes < 80; bytes++)
			copy_one(copy, bytes, end, 40 - end);
		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
			copy_one(copy, lengths[i], end, 3 * end % 40);
	}
}

static void fault_copy(void *to, const void *from, size_t bytes)
{
	static uint64_t rng = 5;

	sv_fault_copy(to, from, bytes, &rng);
}

static void test_copies(void **state)
{
	(void)state;
	fill(fenced_from - ROOM, ROOM, 1);
	copy_all(sv_copy_from_shared);
	copy_all(sv_copy_to_shared);
	copy_all(sv_copy_plain);
	copy_all(fault_copy);
}

/* The same bytes as from one buffer, whatever part of the pieces. */
static void test_pieces(void **state)
{
	uint8_t mem[64], flat[32], got[32], pieces[64];
	struct ibv_sge sge[] = { { (uintptr_t)mem + 40, 5, 0 }, { (uintptr_t)mem, 0, 0 },
				 { (uintptr_t)mem + 3, 7, 0 }, { (uintptr_t)mem + 20, 11, 0 } };
	size_t all = 0;

	(void)state;
	fill(mem, sizeof(mem), 2);
	for (int i = 0; i < 4; i++) {
		memcpy(flat + all, (uint8_t *)(uintptr_t)sge[i].addr, sge[i].length);
		all += sge[i].length;
	}
	memcpy(pieces, mem, sizeof(mem));
	for (size_t at = 0; at <= all; at++) {
		for (size_t bytes = 0; bytes <= all - at; bytes++) {
			memset(got, 0xa5, sizeof(got));
			sv_gather(sge, 4, at, got, bytes, sv_copy_plain);
			assert_memory_equal(got, flat + at, bytes);
			assert_int_equal(got[bytes], 0xa5);
			for (size_t i = 0; i < bytes; i++)
				got[i] = (uint8_t)~flat[at + i];
			sv_scatter(sge, 4, at, got, bytes, sv_copy_plain);
			sv_gather(sge, 4, at, got, bytes, sv_copy_plain);
			for (size_t i = 0; i < bytes; i++)
				assert_int_equal(got[i], (uint8_t)~flat[at + i]);
			sv_scatter(sge, 4, at, flat + at, bytes, sv_copy_plain);
			assert_memory_equal(mem, pieces, sizeof(mem));
		}
	}
}

static void test_atomics(void **state)
{
	uint64_t word = 40;

	(void)state;
	for (int i = 0; i < 2; i++) {
		word = 40;
		assert_int_equal(sv_atomic_execute(1, &word, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 9), 40);
		assert_int_equal(word, 42);
		assert_int_equal(sv_atomic_execute(1, &word, IBV_WR_ATOMIC_CMP_AND_SWP, 41, 9), 42);
		assert_int_equal(word, 42);
		assert_int_equal(sv_atomic_execute(1, &word, IBV_WR_ATOMIC_CMP_AND_SWP, 42, 9), 42);
		assert_int_equal(word, 9);
		assert_int_equal(sv_fault_set("noncoherent=1"), 0); /* the second time */
	}
	assert_int_equal(sv_fault_set(NULL), 0);
}

static void test_numbers(void **state)
{
	(void)state;
	assert_int_equal(sv_chunks(0), 1);
	assert_int_equal(sv_chunks(1), 1);
	assert_int_equal(sv_chunks(SV_CHUNK_BYTES), 1);
	assert_int_equal(sv_chunks(SV_CHUNK_BYTES + 1), 2);
	assert_int_equal(sv_chunks(SV_DGRAM_BYTES), 4);
	assert_int_equal(sv_qpn_slot(sv_qpn(4094, 4095)), 4094);
	assert_int_equal(sv_qpn_index(sv_qpn(4094, 4095)), 4095);
	assert_int_equal(sv_key_place((16383u << 8) | 0xff), 16383);
}

/* ---- memory ---- */

static void test_mem_find(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct sv_mem_view view, other;
	void *mem, *sealed;
	uint8_t *at;

	(void)state;
	assert_int_equal(sv_mem_alloc(page + 1, 0, &mem), 0);
	assert_int_equal(sv_mem_alloc(1, SV_MEM_SEALED, &sealed), 0);
	at = mem;
	sv_mem_find(at, 2 * page, &view);
	assert_true(view.id && !view.offset && !view.sealed);
	sv_mem_find(at + 2 * page - 1, 1, &other);
	assert_true(other.id == view.id && other.offset == 2 * page - 1);
	sv_mem_find(at + 2 * page - 1, 2, &other);
	assert_int_equal(other.id, 0);
	sv_mem_find(at, 2 * page + 1, &other);
	assert_int_equal(other.id, 0);
	sv_mem_find(fenced_to - ROOM, 1, &other);
	assert_true(!other.id && !other.offset && !other.sealed);
	sv_mem_find(sealed, page, &other);
	assert_true(other.id && other.id != view.id && other.sealed);
	assert_int_equal(sv_mem_free(mem), 0);
	assert_int_equal(sv_mem_free(mem), EINVAL);
	assert_int_equal(sv_mem_free(sealed), 0);
}

static void test_mem_held(void **state)
{
	struct sv_mem_view view;
	void *mem;

	(void)state;
	assert_int_equal(sv_mem_alloc(100, 0, &mem), 0);
	sv_mem_find(mem, 1, &view);
	sv_mem_ref(view.id);
	sv_mem_ref(view.id);
	assert_false(sv_mem_unref(view.id));
	assert_int_equal(sv_mem_free(mem), EBUSY);
	assert_true(sv_mem_unref(view.id));
	assert_int_equal(sv_mem_free(mem), 0);
	sv_mem_ref(view.id); /* of what isn't there any more */
	assert_false(sv_mem_unref(view.id));
}

/* A descriptor that can be mapped so. */
static void check_exported(uint32_t id, bool write, int protection, bool works)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint64_t bytes = 0;
	int fd = sv_mem_export(id, write, &bytes);
	void *mem;

	assert_true(fd >= 3);
	assert_int_equal(bytes, page);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	mem = mmap(NULL, page, protection, MAP_SHARED, fd, 0);
	assert_int_equal(mem != MAP_FAILED, works);
	if (works)
		munmap(mem, page);
	sv_fd_close(fd);
}

static void test_mem_export(void **state)
{
	struct sv_mem_view view;
	int before = lowest(), fd;
	struct stat st;
	uint64_t bytes;
	void *mem;

	(void)state;
	assert_int_equal(sv_mem_alloc(1, 0, &mem), 0);
	sv_mem_find(mem, 1, &view);
	fd = sv_mem_export(view.id, false, &bytes); /* nor can it be opened anew to be written */
	assert_true(!fstat(fd, &st) && (st.st_mode & 0777) == 0400);
	sv_fd_close(fd);
	check_exported(view.id, true, PROT_READ | PROT_WRITE, true);
	check_exported(view.id, false, PROT_READ, true);
	check_exported(view.id, false, PROT_READ | PROT_WRITE, false);
	assert_int_equal(sv_mem_free(mem), 0);
	assert_int_equal(sv_mem_export(view.id, false, &bytes), -1);

	assert_int_equal(sv_mem_alloc(1, SV_MEM_SEALED, &mem), 0);
	sv_mem_find(mem, 1, &view);
	assert_int_equal(sv_mem_export(view.id, true, &bytes), -1);
	check_exported(view.id, false, PROT_READ, true);
	check_exported(view.id, false, PROT_READ | PROT_WRITE, false);
	assert_int_equal(sv_mem_free(mem), 0);
	assert_int_equal(lowest(), before);
}

/* No size, flags that there are not, sizes that no file and no process has. */
static void test_mem_refused(void **state)
{
	int rc, before = lowest();
	void *mem = &before;

	(void)state;
	assert_int_equal(sv_mem_alloc(0, 0, &mem), EINVAL);
	assert_int_equal(sv_mem_alloc(1, SV_MEM_SEALED << 1, &mem), EINVAL);
	assert_int_equal(sv_mem_alloc(SIZE_MAX / 2 + 1, 0, &mem), EINVAL);
	signal(SIGXFSZ, SIG_IGN); /* a limit of files' lengths is an error, too */
	assert_int_not_equal(sv_mem_alloc(SIZE_MAX / 2, 0, &mem), 0);
	rc = sv_mem_alloc((size_t)1 << 50, 0, &mem);
	assert_true(rc == ENOMEM || rc == EFBIG);
	assert_ptr_equal(mem, &before);
	assert_int_equal(lowest(), before);
}

/* ---- descriptors and names ---- */

static void test_memfd(void **state)
{
	int before = lowest(), fd = sv_memfd("base", 5000);
	struct stat st;

	(void)state;
	assert_true(fd >= 0 && !fstat(fd, &st) && st.st_size == 5000);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW);
	sv_fd_close(fd);
	errno = 0;
	assert_int_equal(sv_memfd("base", SIZE_MAX), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(lowest(), before);
}

static void test_bell(void **state)
{
	int fd = sv_bell_open();
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	(void)state;
	sv_bell_drop(fd); /* there is none: it doesn't wait */
	sv_bell_ring(fd);
	sv_bell_ring(fd);
	sv_bell_drop(fd);
	assert_int_equal(poll(&pfd, 1, 0), 1);
	sv_bell_drop(fd);
	assert_int_equal(poll(&pfd, 1, 0), 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	sv_fd_close(fd);
}

static void count_name(void *arg, const char *rest)
{
	assert_true(!strcmp(rest, "one") || !strcmp(rest, "two"));
	++*(int *)arg;
}

static void test_names(void **state)
{
	int one = sv_name_take("kind", "x/one"), two = sv_name_take("kind", "x/two");
	int other = sv_name_take("kind", "y/one"), before = lowest(), n = 0;

	(void)state;
	assert_true(one >= 0 && two >= 0 && other >= 0);
	errno = 0;
	assert_int_equal(sv_name_take("kind", "x/one"), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(lowest(), before);
	assert_int_equal(sv_name_each("kind", "x/", count_name, &n), 0);
	assert_int_equal(n, 2);
	sv_fd_close(one);
	assert_int_equal(sv_name_each("kind", "x/", count_name, &n), 0);
	assert_int_equal(n, 3);
	sv_fd_close(two);
	sv_fd_close(other);
}

/* One that is too long is cut, and is no longer than an address may be. */
static void test_address(void **state)
{
	char name[200], text[300];
	struct sockaddr_un sun;
	size_t bytes;

	(void)state;
	for (size_t length = 1; length < sizeof(name); length++) {
		memset(name, 'n', length);
		name[length] = '\0';
		snprintf(text, sizeof(text), "softverbs/%s/kind/%s", proc.fabric, name);
		bytes = sv_address(&sun, "kind", name) - offsetof(struct sockaddr_un, sun_path);
		assert_int_equal(sun.sun_family, AF_UNIX);
		assert_in_range(bytes, 2, sizeof(sun.sun_path));
		assert_int_equal(sun.sun_path[0], 0);
		assert_memory_equal(sun.sun_path + 1, text, bytes - 1);
		assert_true(bytes == sizeof(sun.sun_path) - 1 || bytes == strlen(text) + 1);
	}
}

/* Who may be trusted: oneself and root; a connection is who made it. */
static bool trusts(uid_t by, uid_t made)
{
	int pair[2];
	bool trusted;

	CHECK(!seteuid(made) && !socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	CHECK(!seteuid(0) && !seteuid(by));
	trusted = sv_same_user(pair[0]);
	CHECK(!seteuid(0));
	close(pair[0]);
	close(pair[1]);
	return trusted;
}

static void check_users(int sock)
{
	(void)sock;
	CHECK(trusts(0, 0) && trusts(65534, 65534) && trusts(65534, 0));
	CHECK(!trusts(0, 65534) && !trusts(65534, 65533) && !trusts(65534, 1));
}

static void test_users(void **state)
{
	int pair[2], nothing = open("/dev/null", O_RDONLY);
	bool others = !seteuid(65534) && !seteuid(0) && !seteuid(1) && !seteuid(0);

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	assert_true(sv_same_user(pair[0]));
	assert_false(sv_same_user(nothing));
	close(pair[0]);
	close(pair[1]);
	close(nothing);
	if (others)
		kit_run(check_users, kit_nothing);
}

/* ---- descriptors that a forked child must not keep ---- */

#define FD_FIRST 60 /* and on: all of some words of bits, and parts of others */
#define FD_LAST 270

static void set_room(rlim_t descriptors)
{
	struct rlimit limit;

	CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = descriptors;
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Opens all those numbers that are closed. */
static void open_all(void)
{
	for (int fd = FD_FIRST; fd <= FD_LAST; fd++)
		CHECK(is_open(fd) || dup2(STDERR_FILENO, fd) == fd);
}

/* The device closes what it has still open, once.  A number that it closed is the application's, and so
 * are all that it never had. */
static void check_close_all(int sock)
{
	(void)sock;
	set_room(FD_LAST + 1);
	open_all();
	for (int fd = FD_FIRST; fd <= FD_LAST; fd++)
		CHECK(is_open(fd) && (fd % 3 == 2 || sv_fd_track(fd) == fd));
	for (int fd = FD_FIRST; fd <= FD_LAST; fd++) {
		if (fd % 3)
			continue;
		sv_fd_close(fd);
		CHECK(!is_open(fd));
	}
	CHECK(sv_fd_track(-1) == -1); /* none */
	sv_fd_close(-1);
	open_all();
	sv_fd_close_all();
	for (int fd = FD_FIRST; fd <= FD_LAST; fd++)
		CHECK(is_open(fd) == (fd % 3 != 1));
	open_all();
	sv_fd_close_all();
	for (int fd = FD_FIRST; fd <= FD_LAST; fd++)
		CHECK(is_open(fd));
}

/* 0 is a number as any.  One that is higher than all that are noted is closed as well. */
static void check_close_odd(int sock)
{
	(void)sock;
	CHECK(dup2(STDERR_FILENO, 0) == 0 && sv_fd_track(0) == 0);
	sv_fd_close(0);
	CHECK(!is_open(0) && dup2(STDERR_FILENO, 0) == 0);
	sv_fd_close_all();
	CHECK(is_open(0) && sv_fd_track(0) == 0);
	sv_fd_close_all();
	CHECK(!is_open(0));
	CHECK(sv_fd_track(65536) == 65536);
	errno = 0;
	sv_fd_close(65536);
	CHECK(errno == EBADF);
}

static void test_close_all(void **state)
{
	(void)state;
	kit_run(check_close_all, check_close_odd);
}

/* ---- connections when descriptors are out ---- */

static int listen_at(struct sockaddr_un *sun, socklen_t *bytes)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
	char name[16];

	snprintf(name, sizeof(name), "%d", (int)getpid());
	*bytes = sv_address(sun, "p", name);
	CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)sun, *bytes) && !listen(fd, 8));
	return fd;
}

static int connect_to(const struct sockaddr_un *sun, socklen_t bytes)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	CHECK(fd >= 0 && !connect(fd, (const struct sockaddr *)sun, bytes));
	return fd;
}

/* Takes what there is left. */
static void fill_room(void)
{
	while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
		;
}

static bool is_waiting(int listener)
{
	struct pollfd pfd = { .fd = listener, .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

/* Who calls then is taken and hung up on, each time; who calls later is heard. */
static void check_accept(int sock)
{
	struct sockaddr_un sun;
	socklen_t bytes;
	int listener = listen_at(&sun, &bytes), client[3], fd;
	char byte;

	(void)sock;
	close(0);
	for (int i = 0; i < 3; i++)
		client[i] = connect_to(&sun, bytes);
	CHECK(client[0] == 0);
	client[0] = dup(client[0]);
	close(0);
	set_room(0); /* no reserve either */
	CHECK(sv_accept_bounded(listener) == -1 && errno == EMFILE);
	set_room(1024);
	CHECK(is_waiting(listener));
	fd = dup(listener); /* as 0: the reserve is another */
	CHECK(fd == 0 && (fd = sv_accept_bounded(listener)) > 0);
	CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC && fcntl(fd, F_GETFL) & O_NONBLOCK);
	close(0);
	for (int i = 1; i < 3; i++) {
		set_room(64);
		CHECK(is_waiting(listener));
		fill_room();
		errno = 0;
		CHECK(sv_accept_bounded(listener) == -1 && errno == EMFILE);
		CHECK(read(client[i], &byte, 1) == 0);
	}
	CHECK(!is_waiting(listener));
	set_room(1024);
	sv_fd_close_all(); /* that one which was taken, and no other */
	CHECK(read(client[0], &byte, 1) == 0 && fcntl(listener, F_GETFD) >= 0);
}

/* The reserve is descriptor 0, which is a number as any. */
static void check_accept_zero(int sock)
{
	struct sockaddr_un sun;
	socklen_t bytes;
	int listener = listen_at(&sun, &bytes), client;
	char byte;

	(void)sock;
	close(0);
	errno = 0;
	CHECK(sv_accept_bounded(listener) == -1 && errno != EMFILE);
	CHECK(fcntl(0, F_GETFD) == FD_CLOEXEC);
	for (int i = 0; i < 3; i++) {
		set_room(1024);
		client = connect_to(&sun, bytes);
		set_room(1);
		errno = 0;
		CHECK(sv_accept_bounded(listener) == -1 && errno == EMFILE && !is_waiting(listener));
		CHECK(read(client, &byte, 1) == 0);
		CHECK(fcntl(0, F_GETFD) == FD_CLOEXEC);
	}
	set_room(1024);
}

static void test_accept(void **state)
{
	(void)state;
	kit_run(check_accept, check_accept_zero);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copies),	   cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_atomics),	   cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_mem_find),   cmocka_unit_test(test_mem_held),
		cmocka_unit_test(test_mem_export), cmocka_unit_test(test_mem_refused),
		cmocka_unit_test(test_memfd),	   cmocka_unit_test(test_bell),
		cmocka_unit_test(test_names),	   cmocka_unit_test(test_address),
		cmocka_unit_test(test_users),	   cmocka_unit_test(test_accept),
		cmocka_unit_test(test_close_all),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}

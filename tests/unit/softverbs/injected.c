/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Injected faults by themselves: what a list of them sets, which request stops the process, the
 * dice, the file that they are told to, torn copies.
 *
 * The program is linked with --wrap: nobody is killed, and lines are copied one by one.
 */
#include <sys/mman.h>
#include <sys/stat.h>
#include "common/softverbs/base/copy.h"
#include "common/softverbs/base/fault.h"
#include "common/softverbs/base/lock.h"
#include "kit.h"

#define LINE 64u
#define LINES_MAX 64u

extern _Atomic bool sv_faults_on;

static int kills, last_signal, yields;
static bool no_memory;
static struct {
	size_t n, at[LINES_MAX], bytes[LINES_MAX];
} copied;
static uint8_t from[LINES_MAX * LINE] __attribute__((aligned(LINE))), to[sizeof(from)];
static const uint8_t *shared_begin;

int __wrap_kill(pid_t pid, int sig);
int __wrap_sched_yield(void);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
void __real_sv_copy_from_shared(void *dst, const void *shared, size_t bytes);
void __wrap_sv_copy_from_shared(void *dst, const void *shared, size_t bytes);

int __wrap_kill(pid_t pid, int sig)
{
	CHECK(pid == getpid());
	kills++;
	last_signal = sig;
	return 0;
}

int __wrap_sched_yield(void)
{
	yields++;
	return 0;
}

char *__wrap_strdup(const char *text)
{
	return no_memory ? NULL : __real_strdup(text);
}

void __wrap_sv_copy_from_shared(void *dst, const void *shared, size_t bytes)
{
	CHECK(copied.n < LINES_MAX);
	copied.at[copied.n] = (size_t)((const uint8_t *)shared - shared_begin);
	copied.bytes[copied.n++] = bytes;
	__real_sv_copy_from_shared(dst, shared, bytes);
}

/* ---- lists ---- */

static struct sv_faults plain(void)
{
	return (struct sv_faults){ .device = SV_FAULT_ALL };
}

static void expect(const char *spec, const struct sv_faults *faults)
{
	const struct sv_faults *f = faults;

	CHECK(!sv_fault_set(spec) && atomic_load(&sv_faults_on));
	CHECK(sv_faults.seed == f->seed && sv_faults.torn == f->torn && sv_faults.flip == f->flip);
	CHECK(sv_faults.ack_lost == f->ack_lost && sv_faults.error == f->error);
	CHECK(sv_faults.rnr == f->rnr && sv_faults.overrun == f->overrun && sv_faults.qp == f->qp);
	CHECK(sv_faults.delay_us == f->delay_us && sv_faults.device == f->device);
	CHECK(sv_faults.kill_at == f->kill_at && sv_faults.kill_after == f->kill_after);
	CHECK(sv_faults.freeze_at == f->freeze_at && sv_faults.event == f->event);
	CHECK(sv_faults.event_at == f->event_at && sv_faults.noncoherent == f->noncoherent);
	CHECK(sv_faults.partition == f->partition);
}

/* Each name sets what it says, and a list all of its names; the next begins anew. */
static void test_names(void **state)
{
	static struct sv_faults f;
	const struct {
		const char *spec;
		uint32_t *value;
	} numbers[] = {
		{ "torn=7", &f.torn },		   { "ack_lost=7", &f.ack_lost },
		{ "flip=7", &f.flip },		   { "error=7", &f.error },
		{ "rnr=7", &f.rnr },		   { "delay_us=0x7", &f.delay_us },
		{ "overrun=7", &f.overrun },	   { "qp=7", &f.qp },
		{ "kill_at=7", &f.kill_at },	   { "kill_after=7", &f.kill_after },
		{ "freeze_at=7", &f.freeze_at },   { "event=7", &f.event },
		{ "event_at=7", &f.event_at },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		f = plain();
		*numbers[i].value = 7;
		expect(numbers[i].spec, &f);
	}
	f = plain();
	f.device = 2;
	expect("device=2", &f);
	f = plain();
	f.seed = 0x123456789abcdefull;
	expect("seed=0x123456789abcdef", &f);
	f = plain();
	f.noncoherent = true;
	expect("noncoherent=1", &f);
	f = plain();
	f.partition = true;
	expect("noncoherent=0,partition=1", &f);
	f = plain();
	f.seed = 5;
	f.torn = 1;
	f.rnr = 1000;
	expect("seed=5,torn=1,rnr=1000", &f);
	CHECK(!sv_fault_set(NULL) && !atomic_load(&sv_faults_on));
}

/* A list that is refused changes nothing, wherever it is wrong. */
static void test_refused(void **state)
{
	static const char *const specs[] = { "torn", "torn=", "=5", "torn=5x", "tor=5", "torn=5,flip",
					     "flip=5,nothing=1", "flip=5,error=1001", "partition" };
	struct sv_faults f = plain();

	(void)state;
	f.torn = 9;
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		expect("torn=9", &f);
		CHECK(sv_fault_set(specs[i]) == EINVAL);
		CHECK(atomic_load(&sv_faults_on) && sv_faults.torn == 9 && !sv_faults.flip);
	}
	no_memory = true;
	CHECK(sv_fault_set("torn=5") == ENOMEM);
	no_memory = false;
	CHECK(atomic_load(&sv_faults_on) && sv_faults.torn == 9);
	CHECK(!sv_fault_set("") && !atomic_load(&sv_faults_on));
	CHECK(sv_fault_set("torn=x") == EINVAL && !atomic_load(&sv_faults_on));
}

/* ---- requests ---- */

static void test_requests(void **state)
{
	(void)state;
	for (int round = 0; round < 2; round++) {
		kills = 0;
		CHECK(!sv_fault_set("kill_at=3,freeze_at=5,kill_after=4"));
		CHECK(sv_fault_request() == 1 && sv_fault_request() == 2 && !kills);
		CHECK(sv_fault_request() == 3 && kills == 1 && last_signal == SIGKILL);
		CHECK(sv_fault_request() == 4 && kills == 1);
		sv_fault_executed(3);
		sv_fault_executed(5);
		CHECK(kills == 1);
		last_signal = 0;
		sv_fault_executed(4);
		CHECK(kills == 2 && last_signal == SIGKILL);
		CHECK(sv_fault_request() == 5 && kills == 3 && last_signal == SIGSTOP);
		CHECK(sv_fault_request() == 6 && kills == 3);
	}
	kills = 0;
	CHECK(!sv_fault_set("torn=1"));
	for (uint32_t i = 1; i < 100; i++) {
		CHECK(sv_fault_request() == i);
		sv_fault_executed(i);
	}
	CHECK(!kills && !sv_fault_set(NULL));
}

/* ---- dice ---- */

/* SplitMix64: the numbers that others have from this seed. */
static void test_rng(void **state)
{
	uint64_t rng = 1234567;

	(void)state;
	CHECK(sv_rng(&rng) == 6457827717110365317ull);
	CHECK(sv_rng(&rng) == 3203168211198807973ull);
	CHECK(sv_rng(&rng) == 9817491932198370423ull);
	CHECK(sv_rng(&rng) == 4593380528125082431ull);
	CHECK(sv_rng(&rng) == 16408922859458223821ull);
}

/* As often as is asked for, of a thousand; what never happens uses no number up. */
static void test_roll(void **state)
{
	uint64_t rng = 77, other, before;
	uint32_t number, happened = 0;

	(void)state;
	for (int i = 0; i < 10000; i++) {
		other = rng;
		number = (uint32_t)(sv_rng(&other) % 1000);
		before = rng;
		CHECK(!sv_fault_roll(&before, 0, "never") && before == rng);
		CHECK(number == 0 || !sv_fault_roll(&before, number, "not yet"));
		before = rng;
		CHECK(sv_fault_roll(&before, number + 1, "just") && before == other);
		happened += sv_fault_roll(&rng, 250, "sometimes");
		CHECK(rng == other);
	}
	CHECK(happened > 2300 && happened < 2700);
}

/* ---- the file ---- */

static char log_path[] = "/tmp/softverbs-injected.XXXXXX";

/* What the process says from now on. */
static int listen_to_stderr(void)
{
	int fd = memfd_create("said", MFD_CLOEXEC);

	CHECK(fd >= 0 && dup2(fd, 2) == 2);
	return fd;
}

static bool said(int fd, const char *text)
{
	char buf[512] = "";
	ssize_t n = pread(fd, buf, sizeof(buf) - 1, 0);

	CHECK(n >= 0 && !ftruncate(fd, 0) && lseek(fd, 0, SEEK_SET) == 0);
	return !strcmp(buf, text);
}

static bool rolls(uint32_t per_mille, const char *name)
{
	uint64_t rng = 3;

	return sv_fault_roll(&rng, per_mille, name);
}

static bool has(const char *path, const char *text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char buf[128] = "";

	CHECK(fd >= 0 && read(fd, buf, sizeof(buf) - 1) >= 0);
	close(fd);
	return !strcmp(buf, text);
}

/* A line for each that happens; another process adds its own.  Descriptor 0 is one as any. */
static void logs(int sock)
{
	int lowest = dup(sock);
	struct stat st;

	close(lowest);
	close(0);
	umask(0);
	CHECK(rolls(1000, "before"));
	errno = EIO;
	CHECK(!setenv("SOFTVERBS_FAULT_LOG", log_path, 1) && !sv_fault_env());
	CHECK(!stat(log_path, &st) && (st.st_mode & 0777) == 0666);
	CHECK(!atomic_load(&sv_faults_on) && fcntl(0, F_GETFD) == FD_CLOEXEC);
	CHECK((fcntl(0, F_GETFL) & (O_APPEND | O_ACCMODE)) == (O_APPEND | O_WRONLY));
	CHECK(rolls(1000, "torn") && !rolls(0, "flip") && !rolls(1, "rnr"));
	CHECK(!sv_fault_env() && fcntl(lowest, F_GETFD) == -1); /* it has it already */
	CHECK(rolls(1000, "flip"));
}

static void logs_behind(int sock)
{
	int lowest = open("/dev/null", O_RDONLY);

	(void)sock;
	close(lowest);
	CHECK(!setenv("SOFTVERBS_FAULT_LOG", log_path, 1) && !sv_fault_env());
	CHECK(fcntl(lowest, F_GETFD) == FD_CLOEXEC && !sv_fault_env());
	CHECK(fcntl(lowest + 1, F_GETFD) == -1);
	CHECK(rolls(1000, "error"));
}

static void test_log(void **state)
{
	int fd = mkstemp(log_path);

	(void)state;
	CHECK(fd >= 0);
	close(fd);
	unlink(log_path); /* it is made */
	kit_run(logs, kit_nothing);
	CHECK(has(log_path, "torn\nflip\n"));
	kit_run(logs_behind, kit_nothing);
	CHECK(has(log_path, "torn\nflip\nerror\n") && !unlink(log_path));
}

static void no_log(int sock)
{
	int fd = listen_to_stderr();

	(void)sock;
	CHECK(!setenv("SOFTVERBS_FAULT_LOG", "/nowhere/there", 1));
	CHECK(!setenv("SOFTVERBS_FAULT", "torn=5", 1));
	CHECK(sv_fault_env() == ENOENT);
	CHECK(said(fd, "softverbs: SOFTVERBS_FAULT_LOG=/nowhere/there: No such file or directory\n"));
	CHECK(!setenv("SOFTVERBS_FAULT_LOG", "/dev/full", 1) && !sv_fault_env());
	CHECK(sv_faults.torn == 5 && said(fd, "") && rolls(1000, "torn"));
	CHECK(said(fd, "softverbs: SOFTVERBS_FAULT_LOG: No space left on device\n"));
	CHECK(!rolls(0, "torn") && said(fd, ""));
}

static void no_list(int sock)
{
	int fd = listen_to_stderr();

	(void)sock;
	CHECK(!sv_fault_env() && !atomic_load(&sv_faults_on) && said(fd, ""));
	CHECK(!setenv("SOFTVERBS_FAULT", "", 1) && !sv_fault_env());
	CHECK(!atomic_load(&sv_faults_on) && said(fd, ""));
	CHECK(!setenv("SOFTVERBS_FAULT", "torn=1001", 1) && sv_fault_env() == EINVAL);
	CHECK(!atomic_load(&sv_faults_on));
	CHECK(said(fd, "softverbs: SOFTVERBS_FAULT=torn=1001: not a list of name=number with known "
		       "names and numbers in their range, see softverbs(7)\n"));
}

static void test_environment(void **state)
{
	(void)state;
	kit_run(no_log, no_list);
}

/* Where ports may be cut, requests look at faults though there are none. */
static void may_be_cut(int sock)
{
	struct sv_faults none = plain();

	(void)sock;
	CHECK(!setenv("SOFTVERBS_DOWN", "/nowhere", 1) && !sv_fault_env());
	CHECK(atomic_load(&sv_faults_on));
	expect(NULL, &none);
	expect("", &none);
	none.torn = 4;
	expect("torn=4", &none);
	none.torn = 0;
	expect(NULL, &none);
}

static void empty_folder(int sock)
{
	(void)sock;
	CHECK(!setenv("SOFTVERBS_DOWN", "", 1) && !sv_fault_env());
	CHECK(!atomic_load(&sv_faults_on));
	CHECK(!sv_fault_set("torn=4") && atomic_load(&sv_faults_on));
	CHECK(!sv_fault_set("") && !atomic_load(&sv_faults_on));
}

static void test_may_be_cut(void **state)
{
	(void)state;
	kit_run(may_be_cut, empty_folder);
}

/* ---- torn copies ---- */

static size_t lines_of(size_t skew, size_t bytes)
{
	return (skew + bytes + LINE - 1) / LINE;
}

/* The k-th that was copied: a line of the shared memory, or what is of it within. */
static size_t line_at(size_t k, size_t skew, size_t bytes)
{
	size_t line = (copied.at[k] + skew) / LINE;
	size_t begin = line ? line * LINE - skew : 0, end = (line + 1) * LINE - skew;

	CHECK(copied.at[k] == begin && copied.bytes[k] == (end < bytes ? end : bytes) - begin);
	return line;
}

static bool has_divisor(size_t a, size_t b)
{
	for (size_t d = 2; d <= b; d++) {
		if (a % d == 0 && b % d == 0)
			return true;
	}
	return false;
}

/* From the first that the dice say, in the steps that they say or the next that meet all. */
static void check_order(size_t skew, size_t bytes, uint64_t rng)
{
	size_t lines = lines_of(skew, bytes), line = sv_rng(&rng) % lines, step = sv_rng(&rng) % lines;
	uint64_t met = 0;
	int pauses = 0;

	while (has_divisor(step, lines))
		step++;
	CHECK(copied.n == lines);
	for (size_t k = 0; k < lines; k++, line = (line + step) % lines) {
		CHECK(line_at(k, skew, bytes) == line);
		met |= 1ull << line;
		pauses += sv_rng(&rng) % 8 == 0;
	}
	CHECK(__builtin_popcountll(met) == (int)lines && yields == pauses);
}

static void test_torn(void **state)
{
	uint64_t rng = 9, before;

	(void)state;
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 11 + i / 256);
	for (size_t bytes = 1; bytes < sizeof(from) - LINE; bytes += 3) {
		size_t skew = bytes * 4 % LINE; /* so the last line has any length */

		shared_begin = from + skew;
		copied.n = 0;
		yields = 0;
		before = rng;
		sv_fault_copy(to, shared_begin, bytes, &rng);
		CHECK(!memcmp(to, shared_begin, bytes));
		check_order(skew, bytes, before);
	}
	copied.n = 0;
	sv_fault_copy(to, from, 0, &rng);
	CHECK(copied.n == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_may_be_cut), /* before this process has read the environment */
		cmocka_unit_test(test_names),	   cmocka_unit_test(test_refused),
		cmocka_unit_test(test_requests),   cmocka_unit_test(test_rng),
		cmocka_unit_test(test_roll),	   cmocka_unit_test(test_log),
		cmocka_unit_test(test_environment), cmocka_unit_test(test_torn),
	};

	unsetenv("SOFTVERBS_FAULT");
	unsetenv("SOFTVERBS_FAULT_LOG");
	unsetenv("SOFTVERBS_DOWN");
	return cmocka_run_group_tests(tests, NULL, NULL);
}

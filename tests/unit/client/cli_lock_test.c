/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli lock and update: what runs under the lock, what becomes of its output, of its status
 * and of the signals meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/command/child.h"
#include "client/cli/command/lock.h"
#include "tests/unit/client/commands.h"
#include "tests/unit/descriptors.h"

static bool terminal;
static int signal_once; /* comes when the command is waited for */
static int gate[2];	/* a line is written there behind that */

int isatty(int fd)
{
	return terminal && fd == 0;
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *mask)
{
	int number = signal_once;

	(void)fds, (void)limit;
	assert_int_equal(count, 0);
	signal_once = 0;
	if (number) {
		raise(number); /* it is blocked until sigsuspend() */
		assert_true(!gate[1] || write(gate[1], "\n", 1) == 1);
	}
	return sigsuspend(mask);
}

static int signal_late; /* comes when the command is over, but not yet reaped */
static unsigned misled; /* signals to nobody in particular */

int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	int rc = (int)syscall(SYS_waitid, type, id, info, options, NULL);

	if (!rc && info->si_pid && signal_late) {
		raise(signal_late);
		signal_late = 0;
	}
	return rc;
}

int kill(pid_t pid, int number)
{
	if (pid > 0)
		return (int)syscall(SYS_kill, pid, number);
	misled++;
	return 0;
}

static bool no_pipe, no_write;

int pipe2(int ends[2], int flags)
{
	if (no_pipe) {
		errno = EMFILE;
		return -1;
	}
	return (int)syscall(SYS_pipe2, ends, flags);
}

ssize_t write(int fd, const void *data, size_t bytes)
{
	if (no_write && fd > 2) {
		errno = ENOSPC;
		return -1;
	}
	return syscall(SYS_write, fd, data, bytes);
}

static int set_up(void **state)
{
	terminal = in_shell = no_pipe = no_write = false;
	signal_once = signal_late = 0;
	misled = 0;
	return made_begin(state);
}

/* ------------------------------------------------------------------ lock */

static void the_command_runs_under_the_lock(void **state)
{
	(void)state;
	RUNS(0, "out\n", "err\n", &cli_lock, "key -- sh -c 'echo out; echo err >&2'");
	assert_string_equal(made.calls, "lock key -1\nlock_check\nunlock\n");
	RUNS(7, "", "", &cli_lock, "key -- sh -c 'exit 7'");
	RUNS(143, "", "", &cli_lock, "key -- sh -c 'kill -TERM $$'");
	RUNS(0, "", "", &cli_lock, "--timeout 1.5s key -- true");
	assert_string_equal(made.calls, "lock key 1500\nlock_check\nunlock\n");
	RUNS(0, "", "", &cli_lock, "--timeout 0 key -- true");
	assert_string_equal(made.calls, "lock key 0\nlock_check\nunlock\n");
	RUNS(2, "", "kvcli: --timeout wants a time up to 24 hours, as 5, 1.5s, 500ms, or 0 not to wait\n",
	     &cli_lock, "--timeout 5m key -- true");
	assert_string_equal(made.calls, "");
	in_shell = true;
	RUNS(0, "OK\n", "", &cli_lock, "key -- true");
	RUNS(7, "ERROR the command ended with status 7\n", "", &cli_lock, "key -- sh -c 'exit 7'");
	assert_int_equal(made.locks, 0);
}

/* Its words are its words, and what was printed before comes before. */
static void the_command_gets_its_words(void **state)
{
	(void)state;
	RUNS(0, "<a b><><c>\n", "", &cli_lock, "key -- printf '<%s><%s><%s>\\n' 'a b' '' c");
	RUNS(127, "", "kvcli: can't run \"no-such-command\": No such file or directory\n", &cli_lock,
	     "key -- no-such-command a");
	assert_string_equal(made.calls, "lock key -1\nlock_check\nunlock\n");
	RUNS(126, "", "kvcli: can't run \"/tmp\": Permission denied\n", &cli_lock, "key -- /tmp");
	RUNS(126, "", "kvcli: can't run \"true\": Invalid argument\n", &cli_lock, "key -- 'true' \"a\\x00b\"");
}

static void the_lock_fails(void **state)
{
	(void)state;
	fails("lock", KVD_EBUSY);
	RUNS(3, "", "kvcli: lock failed\n", &cli_lock, "key -- echo never");
	assert_string_equal(made.calls, "lock key -1\n");
	fails("lock_check", KVD_ELOST);
	RUNS(3, "done\n", "kvcli: the lock was lost while the command ran: lock_check failed\n", &cli_lock,
	     "key -- echo done");
	assert_string_equal(made.calls, "lock key -1\nlock_check\nunlock\n");
	fails("session_new", KVD_EBUSY);
	RUNS(3, "", "kvcli: no session\n", &cli_lock, "key -- echo never");
	RUNS(3, "", "kvcli: no session\n", &cli_update, "key -- echo never");
}

/* Commands of a batch stand in its input; those of a terminal's user don't. */
static void standard_input_is_its_own(void **state)
{
	static const char batch[] = "get next\n";
	int was = dup(0), memory = memfd_create("batch", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(write(memory, batch, strlen(batch)), strlen(batch));
	dup2(memory, 0);
	for (int i = 0; i < 3; i++) {
		in_shell = i > 0;
		terminal = i == 2;
		lseek(0, 0, SEEK_SET);
		assert_int_equal(run(&cli_lock, "key -- cat"), 0);
		assert_string_equal(printed_out, i == 0 ? batch : i == 1 ? "OK\n" : "get next\nOK\n");
	}
	dup2(was, 0);
	close(was);
	close(memory);
}

/* ------------------------------------------------------------------ signals */

static volatile int caught;

static void note_signal(int number)
{
	caught = number;
}

/* Passed on; kvcli's own effect of it is there again afterwards. */
static void signals_are_passed_on(void **state)
{
	static const int numbers[] = { SIGTERM, SIGHUP, SIGINT, SIGQUIT };
	struct sigaction action = { .sa_handler = note_signal }, before[4], now;
	char line[64];

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		sigaction(numbers[i], &action, &before[i]);
	for (unsigned i = 0; i < 2; i++) {
		signal_once = numbers[i];
		RUNS(128 + numbers[i], "", "", &cli_lock, "key -- sleep 10");
		assert_int_equal(caught, 0);
	}
	/* The command is over, and its number may soon be another's. */
	signal_late = SIGTERM;
	RUNS(0, "", "", &cli_lock, "key -- true");
	assert_int_equal(signal_late, 0);
	assert_int_equal(misled, 0);
	assert_int_equal(caught, 0);
	/* These the terminal sends to both; the command ends behind them. */
	assert_int_equal(pipe(gate), 0);
	snprintf(line, sizeof line, "key -- sh -c 'read line </dev/fd/%d; echo read'", gate[0]);
	for (unsigned i = 2; i < 4; i++) {
		signal_once = numbers[i];
		RUNS(0, "read\n", "", &cli_lock, line);
		assert_int_equal(signal_once, 0);
		assert_int_equal(caught, 0);
	}
	close(gate[0]);
	close(gate[1]);
	gate[1] = 0;
	for (unsigned i = 0; i < 4; i++) {
		sigaction(numbers[i], NULL, &now);
		assert_ptr_equal(now.sa_handler, note_signal);
		raise(numbers[i]);
		assert_int_equal(caught, numbers[i]);
		caught = 0;
		RUNS(128 + numbers[i], "", "", &cli_lock,
		     numbers[i] == SIGTERM ? "key -- sh -c 'kill -TERM $$'" :
		     numbers[i] == SIGHUP  ? "key -- sh -c 'kill -HUP $$'" :
		     numbers[i] == SIGINT  ? "key -- sh -c 'kill -INT $$'" : "key -- sh -c 'ulimit -c 0; kill -QUIT $$'");
		sigaction(numbers[i], &before[i], NULL);
	}
	/* Nobody is there to pass it on to: it is not sent to some other process. */
	RUNS(0, "", "", &cli_lock, "key -- true");
}

/* One that can't be started changes none of them either. */
static void ignored_ones_stay_so(void **state)
{
	struct sigaction now;
	sigset_t mask;

	(void)state;
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	RUNS(0, "lived\n", "", &cli_lock, "key -- sh -c 'kill -HUP $$; echo lived'");
	RUNS(141, "", "", &cli_lock, "key -- sh -c 'kill -PIPE $$; echo lived'");
	sigaction(SIGHUP, NULL, &now);
	assert_ptr_equal(now.sa_handler, SIG_IGN);
	signal(SIGHUP, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	RUNS(127, "", "kvcli: can't run \"no-such-command\": No such file or directory\n", &cli_lock,
	     "key -- no-such-command");
	for (unsigned i = 0; i < 5; i++) {
		sigaction((int[]){ SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGCHLD }[i], NULL, &now);
		assert_ptr_equal(now.sa_handler, SIG_DFL);
	}
	sigprocmask(SIG_SETMASK, NULL, &mask);
	for (int i = 1; i < 32; i++)
		assert_int_equal(sigismember(&mask, i), 0);
	/* The command's mask is kvcli's. */
	RUNS(0, "SigBlk:\t0000000000000000\n", "", &cli_lock, "key -- grep SigBlk /proc/self/status");
}

/* A shell runs many: no descriptor stays, no memory, and no child. */
static void nothing_is_kept(void **state)
{
	static const char *const lines[] = { "key -- true", "key -- no-such-command", "key -- sh -c 'exit 3'",
					     "key -- true \"a\\x00b\"" };
	int open;

	(void)state;
	made_put("key", "old");
	in_shell = true;
	run(&cli_lock, "key -- true");
	open = count_descriptors();
	for (unsigned i = 0; i < 4; i++) {
		run(&cli_lock, lines[i]);
		run(&cli_update, lines[i]);
		assert_int_equal(count_descriptors(), open);
		keeps_nothing(&cli_lock, lines[i]);
		keeps_nothing(&cli_update, lines[i]);
	}
	fails("lock_get", KVD_EBUSY);
	keeps_nothing(&cli_update, "key -- cat");
	assert_int_equal(count_descriptors(), open);
}

static void no_descriptors(void **state)
{
	int open = count_descriptors();

	(void)state;
	made_put("key", "old");
	no_pipe = true;
	RUNS(2, "", "kvcli: the filter's input: Too many open files\n", &cli_update, "key -- cat");
	assert_int_equal(count_descriptors(), open);
	no_pipe = false;
	no_write = true;
	RUNS(2, "", "kvcli: the filter's input: No space left on device\n", &cli_update, "key -- cat");
	assert_int_equal(count_descriptors(), open);
	assert_string_equal(made_value("key"), "old");
	assert_int_equal(made.locks, 0);
}

static int print_and_lock(struct cli *cli, const struct cli_args *args)
{
	puts("before");
	return cli_lock.run(cli, args);
}

static void what_was_printed_comes_before(void **state)
{
	static const struct cli_command command = { .run = print_and_lock };
	sigset_t one, before;

	(void)state;
	RUNS(0, "before\nout\n", "", &command, "key -- echo out");
	/* What kvcli has blocked, the command has. */
	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	sigprocmask(SIG_BLOCK, &one, &before);
	RUNS(0, "SigBlk:\t0000000000000200\n", "", &cli_lock, "key -- grep SigBlk /proc/self/status");
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/* ------------------------------------------------------------------ update */

static void a_value_is_filtered(void **state)
{
	(void)state;
	made_put("key", "old");
	RUNS(0, "", "", &cli_update, "key -- tr a-z A-Z");
	assert_string_equal(made_value("key"), "OLD");
	assert_string_equal(made.calls, "lock_get key -1\nlocked_get key\nput key\nunlock\n");
	RUNS(0, "", "", &cli_update, "--timeout 2 key -- sh -c 'cat; echo more'");
	assert_string_equal(made_value("key"), "OLDmore\n");
	assert_memory_equal(made.calls, "lock_get key 2000\n", 18);
	RUNS(0, "", "", &cli_update, "none -- sh -c 'cat; printf made'");
	assert_string_equal(made_value("none"), "made");
	RUNS(0, "", "", &cli_update, "none -- true");
	assert_string_equal(made_value("none"), "");
	in_shell = true;
	RUNS(0, "OK\n", "", &cli_update, "key -- cat");
	RUNS(2, "ERROR --timeout wants a time up to 24 hours, as 5, 1.5s, 500ms, or 0 not to wait\n", "",
	     &cli_update, "--timeout x key -- cat");
	assert_int_equal(made.locks, 0);
}

/* The line end behind a number goes, unless the old value had one. */
static void a_counter_stays_one(void **state)
{
	static const char *const cases[][3] = {
		{ "41", "42\\n", "42" }, { "41\n", "42\\n", "42\n" }, { "", "7\\n", "7" },
		{ "41", "-42\\n", "-42" }, { "41", "42\\n\\n", "42\n\n" }, { "41", "42 \\n", "42 \n" },
		{ "41", "x\\n", "x\n" }, { "41", "\\n", "\n" }, { "41", "425", "425" }, { "4\n1", "42\\n", "42" },
	};
	char line[64];

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		made_put("key", cases[i][0]);
		snprintf(line, sizeof line, "key -- printf '%s'", cases[i][1]);
		RUNS(0, "", "", &cli_update, line);
		assert_string_equal(made_value("key"), cases[i][2]);
	}
	RUNS(0, "", "", &cli_update, "none -- echo 5");
	assert_string_equal(made_value("none"), "5");
}

static void a_filter_that_fails_changes_nothing(void **state)
{
	(void)state;
	made_put("key", "old");
	RUNS(3, "", "kvcli: the filter ended with status 3; nothing was stored\n", &cli_update,
	     "key -- sh -c 'echo new; exit 3'");
	assert_string_equal(made.calls, "lock_get key -1\nlocked_get key\nunlock\n");
	RUNS(127, "", "kvcli: can't run \"no-such-command\": No such file or directory\n", &cli_update,
	     "key -- no-such-command");
	assert_string_equal(made.calls, "lock_get key -1\nlocked_get key\nunlock\n");
	fails("lock_get", KVD_EBUSY);
	RUNS(3, "", "kvcli: lock_get failed\n", &cli_update, "key -- cat");
	fails("locked_get", KVD_EINVAL);
	RUNS(2, "", "kvcli: locked_get failed\n", &cli_update, "key -- cat");
	fails("put", KVD_EFULL);
	RUNS(3, "", "kvcli: put failed\n", &cli_update, "key -- echo new");
	assert_string_equal(made_value("key"), "old");
	assert_int_equal(made.locks, 0);
}

/* Longer than the first buffer, and longer again when it is read again. */
static void long_values(void **state)
{
	static char value[70000];

	(void)state;
	memset(value, 'v', sizeof value);
	made_put_bytes("key", 3, value, 65536);
	RUNS(0, "", "", &cli_update, "key -- wc -c");
	assert_string_equal(made.calls, "lock_get key -1\nlocked_get key\nput key\nunlock\n");
	assert_string_equal(made_value("key"), "65536");
	made_put_bytes("key", 3, value, 65537);
	RUNS(0, "", "", &cli_update, "key -- wc -c");
	assert_string_equal(made.calls, "lock_get key -1\nlocked_get key\nlocked_get key\nput key\nunlock\n");
	assert_string_equal(made_value("key"), "65537");
	made_put_bytes("key", 3, value, 69000);
	made.meanwhile = 1000;
	RUNS(0, "", "", &cli_update, "key -- wc -c");
	assert_string_equal(made_value("key"), "70000");
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_command_runs_under_the_lock),
		TEST(the_command_gets_its_words),
		TEST(the_lock_fails),
		TEST(standard_input_is_its_own),
		TEST(signals_are_passed_on),
		TEST(ignored_ones_stay_so),
		TEST(nothing_is_kept),
		TEST(no_descriptors),
		TEST(what_was_printed_comes_before),
		TEST(a_value_is_filtered),
		TEST(a_counter_stays_one),
		TEST(a_filter_that_fails_changes_nothing),
		TEST(long_values),
	};
	const int numbers[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE };

	setenv("TERM", "dumb", 1);
	for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
		signal(numbers[i], SIG_DFL); /* whoever started the test may ignore some */
	return cmocka_run_group_tests(tests, NULL, NULL);
}

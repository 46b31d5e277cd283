/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli top: its lines and its screen, of samples that were made up.  The clock goes on only while
 * it waits; the terminal is none. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>

#include <cmocka.h>

#include "client/cli/command/server.h"
#include "client/cli/session/session.h"
#include "tests/unit/client/printed.h"
#include "tests/unit/poll_chk.h"
#include "tests/unit/read_chk.h"

/* ------------------------------------------------------------------ what is made up */

static struct {
	const char *samples[32]; /* NULL, "gone": it can't be asked */
	unsigned asked;
	uint64_t ns;
	bool terminal[2]; /* standard input, standard output */
	const char *keys; /* one for each wait; '.': none, '\0': there are no more */
	int signal;       /* comes in the first wait */
	struct winsize size;
	tcflag_t modes; /* of the terminal */
	int sessions, waits;
} made;

int clock_gettime(clockid_t id, struct timespec *t)
{
	(void)id;
	t->tv_sec = (time_t)(made.ns / 1000000000);
	t->tv_nsec = (long)(made.ns % 1000000000);
	return 0;
}

time_t time(time_t *to)
{
	(void)to;
	return 3600 * 13 + 60 * 7 + 5;
}

int isatty(int fd)
{
	return fd < 2 && made.terminal[fd];
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list list;

	assert_int_equal(fd, 1);
	assert_true(request == TIOCGWINSZ);
	va_start(list, request);
	*va_arg(list, struct winsize *) = made.size;
	va_end(list);
	return 0;
}

int tcgetattr(int fd, struct termios *t)
{
	(void)fd;
	memset(t, 0, sizeof *t);
	t->c_lflag = made.modes;
	return 0;
}

int tcsetattr(int fd, int when, const struct termios *t)
{
	(void)fd;
	(void)when;
	made.modes = t->c_lflag;
	return 0;
}

/* What was asked for is a millisecond more than what is left. */
int poll(struct pollfd *fds, nfds_t count, int ms)
{
	char key = made.keys && *made.keys ? *made.keys++ : '.';

	assert_int_equal(count, 1);
	assert_true(ms > 0 && ++made.waits < 1000);
	if (made.signal && made.waits == 1) {
		raise(made.signal);
		errno = EINTR;
		return -1;
	}
	if (fds->fd == 0 && key != '.') {
		made.ns += 1000000;
		return 1;
	}
	made.ns += ms > 1 ? (uint64_t)(ms - 1) * 1000000 : 1;
	return 0;
}

ssize_t read(int fd, void *to, size_t bytes)
{
	(void)bytes;
	assert_int_equal(fd, 0);
	*(char *)to = made.keys[-1];
	return made.keys[-1] != '!';
}

int kvd_client_new(const char *server, const struct kvd_options *options, kvd_client **client)
{
	(void)options;
	(void)client;
	return strcmp(server, "nobody") ? KVD_OK : KVD_ECONNECT;
}

void kvd_client_delete(kvd_client **client)
{
	(void)client;
}

int kvd_session_new(kvd_client *client, kvd_session **session)
{
	(void)client;
	*session = (kvd_session *)&made;
	made.sessions++;
	return KVD_OK;
}

void kvd_session_delete(kvd_session **session)
{
	*session = NULL;
}

const char *kvd_strerror(int result)
{
	return result == KVD_ECONNECT ? "nobody is there" : "?";
}

const char *kvd_client_error(const kvd_client *client)
{
	(void)client;
	return "";
}

const char *kvd_session_error(const kvd_session *session)
{
	(void)session;
	return "it went away";
}

int kvd_stats(kvd_session *session, char **json)
{
	const char *sample = made.samples[made.asked];

	(void)session;
	if (made.samples[made.asked + 1])
		made.asked++;
	if (!sample || !strcmp(sample, "gone"))
		return KVD_ECONNECT;
	*json = strdup(sample);
	return KVD_OK;
}

#define FIRST \
	"{\"server\":{\"version\":\"1.5\",\"device\":\"rxe0\",\"uptime_seconds\":93784,\"workers\":3,\"cpu_seconds\":10}," \
	"\"memory\":{\"used_bytes\":524288,\"budget_bytes\":1048576},\"keys\":1234567,\"expiry\":{\"keys\":999}," \
	"\"index\":{\"load\":0.25},\"connections\":12,\"refused\":2,\"protocol_errors\":1," \
	"\"operations\":{\"put\":100,\"get\":200,\"delete\":5,\"touch\":0,\"not_found\":1,\"failed\":2,\"set_aside\":3," \
	"\"pulls\":4,\"pull_bytes\":5000},\"locks\":{\"waits\":7,\"handovers\":8,\"recovered\":9,\"fenced\":10}}"
#define SECOND \
	"{\"server\":{\"version\":\"1.5\",\"device\":\"rxe0\",\"uptime_seconds\":93786,\"workers\":3,\"cpu_seconds\":13}," \
	"\"memory\":{\"used_bytes\":1048576,\"budget_bytes\":1048576},\"keys\":12,\"expiry\":{\"keys\":0}," \
	"\"index\":{\"load\":0.5},\"connections\":1000,\"refused\":2,\"protocol_errors\":1," \
	"\"operations\":{\"put\":2100,\"get\":4000200,\"delete\":6,\"touch\":7,\"not_found\":5,\"failed\":4,\"set_aside\":3," \
	"\"pulls\":8,\"pull_bytes\":2105000},\"locks\":{\"waits\":27,\"handovers\":10,\"recovered\":9,\"fenced\":10}," \
	"\"durability\":{\"mode\":\"sync\",\"refusing\":false,\"changes\":9,\"commits\":4,\"lag_seconds\":0.0125}," \
	"\"cluster\":{\"state\":\"primary\",\"epoch\":4,\"in_sync\":2,\"copies\":3,\"reached\":true,\"fit\":true,\"failovers\":1}," \
	"\"rails\":[{\"device\":\"mlx0\",\"connections\":3,\"workers\":1,\"lost\":false}," \
	"{\"device\":\"mlx1\",\"connections\":4,\"workers\":2,\"lost\":true}]}"

static int set_up(void **state)
{
	(void)state;
	memset(&made, 0, sizeof made);
	made.ns = 1000000000000;
	made.samples[0] = FIRST;
	made.samples[1] = SECOND;
	made.size.ws_col = 120;
	made.size.ws_row = 50;
	made.modes = ICANON | ECHO | ISIG;
	return 0;
}

static int run(const char *line)
{
	struct cli cli = { .server = "here" };

	return printed_run(&cli, cli_top.options, cli_top.run, line);
}

/* ------------------------------------------------------------------ lines */

#define HEAD "time            keys memory%   conns      req/s      put/s      get/s   delete/s  failed/s waits/s\n"
#define LINE "13:07:05          12   100.0    1000    2001004       1000    2000000          0         1      10\n"
#define IDLE "13:07:05          12   100.0    1000          0          0          0          0         0       0\n"

static void a_line_for_each_interval(void **state)
{
	(void)state;
	assert_int_equal(run("-i 2s -n 3"), 0);
	assert_string_equal(printed_out, HEAD LINE IDLE IDLE);
	assert_string_equal(printed_err, "");
	assert_int_equal(made.ns, 1006000000000);
	/* A second is the default; twenty lines have a head. */
	set_up(NULL);
	assert_int_equal(run("-n 21"), 0);
	assert_int_equal(made.ns, 1021000000000);
	assert_int_equal(strlen(printed_out), 2 * strlen(HEAD) + 21 * strlen(LINE));
	assert_non_null(strstr(printed_out + strlen(HEAD) + 20 * strlen(LINE), HEAD));
}

static void what_was_not_told_is_0(void **state)
{
	(void)state;
	made.samples[0] = "{}";
	made.samples[1] = "{\"operations\":{\"put\":1}}";
	assert_int_equal(run("-n 1"), 0);
	assert_string_equal(printed_out, HEAD
			    "13:07:05           0     0.0       0          0          0          0          0         0       0\n");
	/* A kvd that was started again counts from the beginning. */
	set_up(NULL);
	made.samples[0] = SECOND;
	made.samples[1] = FIRST;
	assert_int_equal(run("-n 1"), 0);
	assert_string_equal(printed_out, HEAD
			    "13:07:05     1234567    50.0      12          0          0          0          0         0       0\n");
}

static void it_can_not_be_asked(void **state)
{
	struct cli cli = { .server = "nobody" };

	(void)state;
	assert_int_equal(printed_run(&cli, cli_top.options, cli_top.run, ""), 3);
	assert_string_equal(printed_err, "kvcli: top: nobody is there\n");
	assert_int_equal(made.waits, 0);
	made.samples[0] = made.samples[1] = NULL;
	assert_int_equal(run("-n 5"), 3);
	assert_string_equal(printed_err, "kvcli: top: it went away\n");
	assert_string_equal(printed_out, "");
	made.samples[0] = "{";
	assert_int_equal(run("-n 5"), 3);
	assert_string_equal(printed_err, "kvcli: top: here answered with what is no JSON\n");
}

/* It is tried again, on a new session; what the last one said is the status. */
static void it_goes_away_meanwhile(void **state)
{
	(void)state;
	made.samples[1] = "gone";
	made.samples[2] = SECOND;
	assert_int_equal(run("-i 1s -n 2"), 0);
	assert_string_equal(printed_err, "kvcli: top: it went away\n");
	assert_int_equal(made.sessions, 2);
	assert_string_equal(printed_out,
			    "13:07:05          12   100.0    1000    2001004       1000    2000000          0         1      10\n");
	set_up(NULL);
	made.samples[1] = "gone";
	assert_int_equal(run("-n 2"), 3);
	assert_string_equal(printed_err, "kvcli: top: it went away\nkvcli: top: it went away\n");
}

static void an_interrupt_ends_it(void **state)
{
	static const int signals[] = { SIGINT, SIGTERM };
	struct sigaction is;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		set_up(NULL);
		made.signal = signals[i];
		assert_int_equal(run(""), 0);
		assert_string_equal(printed_out, "");
		assert_int_equal(made.waits, 1);
		assert_int_equal(sigaction(signals[i], NULL, &is), 0);
		assert_true(is.sa_handler == SIG_DFL);
	}
}

static void options_that_are_wrong(void **state)
{
	static const char *const lines[] = { "-i 9ms", "-i 86401s", "-i x", "-n 0", "-n x", "-i 1s -n -1" };

	(void)state;
	for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++) {
		assert_int_equal(run(lines[i]), 2);
		assert_string_equal(printed_err, "kvcli: top --interval wants a time from 10ms to 24 hours, --count a "
						 "whole number from 1\n");
	}
	assert_int_equal(run("-i 10ms -n 1"), 0);
	assert_int_equal(run("-i 24000s -n 1"), 0);
}

/* ------------------------------------------------------------------ the screen */

#define BOLD(text) "\033[1m" text "\033[0m\033[K\r\n"
#define RED(text) "\033[31m" text "\033[0m\033[K\r\n"
#define ROW(text) text "\033[K\r\n"
#define OPENED "\033[?1049h\033[?25l"
#define CLOSED "\033[?25h\033[?1049l"
#define QUIET \
	BOLD("kvd 1.5 at here   rxe0   up 1d 02:03:04   13:07:05") ROW("") \
	ROW("memory       [##########..........] 50 % of 1 MiB") \
	ROW("keys         1,234,567   with expiry 999   load of the index 0.25") \
	ROW("connections  12   refused 2   cut off for an error 1   workers 3   cores busy 0.00") ROW("") \
	BOLD("requests           a second           in all") ROW("  delete                  0                5") \
	ROW("  get                     0              200") ROW("  put                     0              100") \
	ROW("all                       0") ROW("not found                 0   failed 0   set aside 3") \
	ROW("long values               0   0 B/s") \
	ROW("lock waits                0   handed over 0   recovered 9   over their lease 10") ROW("") \
	ROW("GETs by one-sided READ are not among them: kvd does not see them.  q quits.")
#define BUSY \
	BOLD("kvd 1.5 at here   rxe0   up 1d 02:03:06   13:07:05") ROW("") \
	RED("memory       [####################] 100 % of 1 MiB") \
	ROW("keys         12   with expiry 0   load of the index 0.5") \
	ROW("device       mlx0   connections 3   workers 1") \
	RED("device       mlx1   connections 4   workers 2   LOST") \
	ROW("connections  1,000   refused 2   cut off for an error 1   workers 3   cores busy 1.50") \
	ROW("durability   sync   0 changes/s in 0 batches/s   lag 12.5 ms") \
	ROW("cluster      primary   epoch 4   in sync 2   wanted 3   ZooKeeper there   took over 1") ROW("") \
	BOLD("requests           a second           in all") ROW("  get             2,000,000        4,000,200") \
	ROW("  put                 1,000            2,100") ROW("  touch                 3.5                7") \
	ROW("  delete                0.5                6") ROW("all               2,001,004") \
	ROW("not found                 2   failed 1   set aside 3") ROW("long values               2   1.0 MiB/s") \
	ROW("lock waits               10   handed over 1   recovered 9   over their lease 10") ROW("") \
	ROW("GETs by one-sided READ are not among them: kvd does not see them.  q quits.")

static int on_screen(const char *line)
{
	made.terminal[0] = made.terminal[1] = true;
	return run(line);
}

static void a_screen(void **state)
{
	(void)state;
	assert_int_equal(on_screen("-i 2s -n 1"), 0);
	assert_string_equal(printed_out, OPENED "\033[H" QUIET "\033[J\033[H" BUSY "\033[J" CLOSED);
	assert_int_equal(made.modes, ICANON | ECHO | ISIG);
	assert_int_equal(made.ns, 1002000000000);
}

static void what_is_wrong_is_red(void **state)
{
	(void)state;
	made.samples[0] = "{\"server\":{\"version\":\"1.5\"},\"memory\":{\"used_bytes\":2000,\"budget_bytes\":1000},"
			  "\"durability\":{\"mode\":\"sync\",\"refusing\":true,\"changes\":5,\"commits\":2},"
			  "\"cluster\":{\"state\":\"backup\",\"epoch\":4,\"reached\":false,\"fit\":false}}";
	made.samples[1] = "{\"memory\":{\"used_bytes\":950,\"budget_bytes\":1000},"
			  "\"durability\":{\"mode\":\"sync\",\"refusing\":false,\"changes\":25,\"commits\":8},"
			  "\"keys\":12345678901,\"connections\":9.96,\"expiry\":{\"keys\":999999999}}";
	assert_int_equal(on_screen("-i 2s -n 1"), 0);
	assert_non_null(strstr(printed_out, RED("memory       [####################] 200 % of 1000 B")));
	assert_non_null(strstr(printed_out, RED("durability   sync   0 changes/s in 0 batches/s   lag 0.0 ms   REFUSES "
						"CHANGES: is the disk full?")));
	assert_non_null(strstr(printed_out, RED("cluster      backup   epoch 4   in sync ?   wanted ?   ZooKeeper AWAY   "
						"took over ?")));
	assert_non_null(strstr(printed_out, "\033[K\r\n" ROW("memory       [###################.] 95 % of 1000 B")));
	assert_non_null(strstr(printed_out, ROW("durability   sync   10 changes/s in 3 batches/s   lag 0.0 ms")));
	assert_non_null(strstr(printed_out, ROW("keys         1.23e+10   with expiry 999,999,999   load of the index ?")));
}

static void a_small_screen(void **state)
{
	(void)state;
	made.size.ws_col = 16;
	made.size.ws_row = 4;
	made.keys = "q";
	assert_int_equal(on_screen(""), 0);
	assert_string_equal(printed_out, OPENED "\033[H" BOLD("kvd 1.5 at here ") ROW("") ROW("memory       [##")
			    "keys         1,2\033[K\033[J" CLOSED);
	/* One that says nothing has 24 rows of 80. */
	set_up(NULL);
	made.size.ws_col = made.size.ws_row = 0;
	made.samples[0] = SECOND;
	made.keys = "q";
	assert_int_equal(on_screen(""), 0);
	assert_non_null(strstr(printed_out, ROW("connections  1,000   refused 2   cut off for an error 1   workers 3   cores busy")));
}

static void it_is_away(void **state)
{
	(void)state;
	made.samples[0] = NULL;
	made.keys = ".q";
	made.samples[1] = FIRST;
	assert_int_equal(on_screen("-i 3s"), 0);
	assert_string_equal(printed_out, OPENED "\033[H" BOLD("kvd at here") ROW("") RED("it went away")
			    ROW("Trying again.  q quits.") "\033[J\033[H" QUIET "\033[J" CLOSED);
	assert_int_equal(made.ns, 1003001000000);
}

/* q, Q, Ctrl-D or its end end it; any other key is for a new sample at once. */
static void keys_are_obeyed(void **state)
{
	static const char *const ends[] = { "q", "Q", "\004", "!" };

	(void)state;
	for (unsigned i = 0; i < sizeof ends / sizeof *ends; i++) {
		set_up(NULL);
		made.keys = ends[i];
		assert_int_equal(on_screen(""), 0);
		assert_string_equal(printed_out, OPENED "\033[H" QUIET "\033[J" CLOSED);
		assert_int_equal(made.modes, ICANON | ECHO | ISIG);
	}
	set_up(NULL);
	made.keys = "xq";
	assert_int_equal(on_screen(""), 0);
	assert_int_equal(made.waits, 2);
	assert_int_equal(made.ns, 1000002000000);
}

/* A terminal that can do nothing gets lines, and so does what is none. */
static void who_gets_no_screen(void **state)
{
	(void)state;
	setenv("TERM", "dumb", 1);
	assert_int_equal(on_screen("-n 1"), 0);
	unsetenv("TERM");
	assert_true(strncmp(printed_out, "time", 4) == 0);
	assert_int_equal(on_screen("-n 1"), 0);
	assert_true(strncmp(printed_out, "time", 4) == 0);
	setenv("TERM", "xterm", 1);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	setenv("TZ", "UTC", 1);
	setenv("TERM", "xterm", 1);
	unsetenv("NO_COLOR");
	const struct CMUnitTest tests[] = {
		/* Whether there is color is found out once: by a test that has a terminal. */
		TEST(a_screen),
		TEST(what_is_wrong_is_red),
		TEST(a_small_screen),
		TEST(it_is_away),
		TEST(keys_are_obeyed),
		TEST(who_gets_no_screen),
		TEST(a_line_for_each_interval),
		TEST(what_was_not_told_is_0),
		TEST(it_can_not_be_asked),
		TEST(it_goes_away_meanwhile),
		TEST(an_interrupt_ends_it),
		TEST(options_that_are_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * top: a live view of kvd's figures.  On a terminal a screen, until q or an interrupt;
 * elsewhere a line for each interval, as vmstat has them.  Trouble with the server is
 * shown, and the next interval tries again.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/command/server.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/session.h"
#include "client/cli/text/json.h"
#include "common/opt.h"

#define FIGURES_MAX 160
#define BAR_COLUMNS 20
#define HEAD_EVERY 20 /* lines, where it is no terminal */

struct figure {
	char path[48];
	char text[48];
	double value;
};

struct sample {
	struct figure figure[FIGURES_MAX];
	size_t count;
	uint64_t at_ns;
};

struct top {
	struct cli *cli;
	struct sample now, before; /* before.count 0: nothing to compare with */
	bool screen;
	bool color;
	int columns, rows, row;
	struct termios terminal;
};

static volatile int stop;

static void on_signal(int number)
{
	stop = number;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ------------------------------------------------------------------ figures */

static void take(void *arg, const char *path, const char *value)
{
	struct sample *s = arg;
	struct figure *f = &s->figure[s->count];

	if (s->count == FIGURES_MAX || strlen(path) >= sizeof f->path)
		return;
	snprintf(f->path, sizeof f->path, "%s", path);
	snprintf(f->text, sizeof f->text, "%.47s", value);
	f->value = strtod(value, NULL);
	s->count++;
}

static const struct figure *find(const struct sample *s, const char *path)
{
	for (size_t i = 0; i < s->count; i++)
		if (strcmp(s->figure[i].path, path) == 0)
			return &s->figure[i];
	return NULL;
}

static double value(const struct top *t, const char *path)
{
	const struct figure *f = find(&t->now, path);

	return f ? f->value : 0;
}

static const char *text(const struct top *t, const char *path)
{
	const struct figure *f = find(&t->now, path);

	return f ? f->text : "?";
}

/* A second, since the sample before; 0 after a new start of kvd. */
static double rate(const struct top *t, const char *path)
{
	const struct figure *f = find(&t->now, path), *old = find(&t->before, path);
	double seconds = (double)(t->now.at_ns - t->before.at_ns) / 1e9;

	return f && old && f->value > old->value && seconds > 0 ? (f->value - old->value) / seconds : 0;
}

#define OPERATION "operations."

static bool is_operation(const char *path)
{
	static const char *const others[] = { "not_found", "failed", "set_aside", "pulls",
					      "pull_bytes" };

	if (strncmp(path, OPERATION, strlen(OPERATION)) != 0)
		return false;
	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
		if (strcmp(path + strlen(OPERATION), others[i]) == 0)
			return false;
	return true;
}

static double requests(const struct top *t)
{
	double sum = 0;

	for (size_t i = 0; i < t->now.count; i++)
		if (is_operation(t->now.figure[i].path))
			sum += rate(t, t->now.figure[i].path);
	return sum;
}

/* False: `why` says why there are none. */
static bool sample(struct top *t, char *why, size_t why_bytes)
{
	const char *error;
	int result;
	char *json;
	kvd_session *session = cli_session(t->cli, &result, &error);

	if (!session) {
		snprintf(why, why_bytes, "%s", error);
		return false;
	}
	result = kvd_stats(session, &json);
	if (result < 0) {
		snprintf(why, why_bytes, "%s", kvd_session_error(session));
		cli_disconnect(t->cli);
		return false;
	}
	t->before = t->now;
	t->now.count = 0;
	t->now.at_ns = now_ns();
	bool ok = cli_json_each(json, take, &t->now);
	free(json);
	if (!ok)
		snprintf(why, why_bytes, "%s answered with what is no JSON", t->cli->server);
	return ok;
}

/* ------------------------------------------------------------------- screen */

/* 12,345.6 as "12,345"; small ones with a digit behind the point. */
static const char *number(double n, char buf[32])
{
	uint64_t whole = (uint64_t)(n + 0.5);

	if (n < 10 && n != (double)(uint64_t)n)
		snprintf(buf, 32, "%.1f", n);
	else if (whole < 1000)
		snprintf(buf, 32, "%" PRIu64, whole);
	else if (whole < 1000000)
		snprintf(buf, 32, "%" PRIu64 ",%03" PRIu64, whole / 1000, whole % 1000);
	else if (whole < 1000000000)
		snprintf(buf, 32, "%" PRIu64 ",%03" PRIu64 ",%03" PRIu64, whole / 1000000,
			 whole / 1000 % 1000, whole % 1000);
	else
		snprintf(buf, 32, "%.3g", n);
	return buf;
}

/* A row, cut to the width; `style`: an escape sequence, or NULL. */
__attribute__((format(printf, 3, 4)))
static void row(struct top *t, const char *style, const char *format, ...)
{
	char line[512];
	va_list args;

	if (++t->row > t->rows)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	if (t->columns < (int)sizeof line)
		line[t->columns] = '\0';
	style = t->color ? style : NULL;
	printf("%s%s%s\033[K%s", style ? style : "", line, style ? "\033[0m" : "",
	       t->row < t->rows ? "\r\n" : "");
}

#define BOLD "\033[1m"
#define RED "\033[31m"

enum { TOP_INTERVAL, TOP_COUNT };

static const struct cli_option top_options[] = {
	[TOP_INTERVAL] = { "interval", 'i', "TIME", "how often; default 1s" },
	[TOP_COUNT] = { "count", 'n', "N", "end after so many; default never" },
	{ 0 },
};

static void show_head(struct top *t)
{
	uint64_t up = (uint64_t)value(t, "server.uptime_seconds");
	time_t now = time(NULL);
	struct tm tm;
	char clock[16];

	localtime_r(&now, &tm);
	strftime(clock, sizeof clock, "%H:%M:%S", &tm);
	row(t, BOLD, "kvd %s at %s   %s   up %" PRIu64 "d %02u:%02u:%02u   %s", text(t, "server.version"),
	    t->cli->server, text(t, "server.device"), up / 86400, (unsigned)(up / 3600 % 24),
	    (unsigned)(up / 60 % 60), (unsigned)(up % 60), clock);
	row(t, NULL, "%s", "");
}

static void show_table(struct top *t)
{
	double used = value(t, "memory.used_bytes"), budget = value(t, "memory.budget_bytes");
	double part = budget > 0 ? used / budget : 0;
	char bar[BAR_COLUMNS + 1], a[32], b[32];

	memset(bar, '.', BAR_COLUMNS);
	memset(bar, '#', (size_t)((part < 1 ? part : 1) * BAR_COLUMNS));
	bar[BAR_COLUMNS] = '\0';
	row(t, part > 0.95 ? RED : NULL, "memory       [%s] %.0f %% of %s", bar, part * 100,
	    opt_format_size((uint64_t)budget, a, sizeof a));
	row(t, NULL, "keys         %s   with expiry %s   load of the index %s",
	    number(value(t, "keys"), a), number(value(t, "expiry.keys"), b), text(t, "index.load"));
}

/* Where there are several. */
static void show_devices(struct top *t)
{
	char at[4][32], a[32], b[32];

	for (unsigned i = 0; find(&t->now, "rails.1.device"); i++) {
		static const char *const names[] = { "device", "connections", "workers", "lost" };
		for (unsigned n = 0; n < 4; n++)
			snprintf(at[n], sizeof at[n], "rails.%u.%s", i, names[n]);
		if (!find(&t->now, at[0]))
			return;
		bool is_lost = strcmp(text(t, at[3]), "true") == 0;
		row(t, is_lost ? RED : NULL, "device       %s   connections %s   workers %s%s", text(t, at[0]),
		    number(value(t, at[1]), a), number(value(t, at[2]), b), is_lost ? "   LOST" : "");
	}
}

static void show_connections(struct top *t)
{
	char a[32];

	row(t, NULL, "connections  %s   refused %s   cut off for an error %s   workers %s   cores busy %.2f",
	    number(value(t, "connections"), a), text(t, "refused"), text(t, "protocol_errors"),
	    text(t, "server.workers"), rate(t, "server.cpu_seconds"));
	if (find(&t->now, "durability.mode"))
		row(t, strcmp(text(t, "durability.refusing"), "true") == 0 ? RED : NULL,
		    "durability   %s   %.0f changes/s in %.0f batches/s   lag %.1f ms%s",
		    text(t, "durability.mode"), rate(t, "durability.changes"),
		    rate(t, "durability.commits"), value(t, "durability.lag_seconds") * 1e3,
		    strcmp(text(t, "durability.refusing"), "true") == 0 ? "   REFUSES CHANGES: is the disk full?"
									: "");
	if (find(&t->now, "cluster.state"))
		row(t, strcmp(text(t, "cluster.fit"), "true") ? RED : NULL,
		    "cluster      %s   epoch %s   in sync %s   wanted %s   ZooKeeper %s   took over %s",
		    text(t, "cluster.state"), text(t, "cluster.epoch"), text(t, "cluster.in_sync"),
		    text(t, "cluster.copies"),
		    strcmp(text(t, "cluster.reached"), "true") ? "AWAY" : "there",
		    text(t, "cluster.failovers"));
	row(t, NULL, "%s", "");
}

static int compare_rates(const void *a, const void *b)
{
	const struct figure *x = a, *y = b;

	return x->value != y->value ? (x->value < y->value ? 1 : -1) : strcmp(x->path, y->path);
}

static void show_requests(struct top *t)
{
	struct figure sorted[FIGURES_MAX];
	size_t count = 0;
	char a[32], b[32];

	row(t, BOLD, "%-14s %12s %16s", "requests", "a second", "in all");
	for (size_t i = 0; i < t->now.count; i++) {
		if (!is_operation(t->now.figure[i].path) || t->now.figure[i].value == 0)
			continue;
		sorted[count] = t->now.figure[i];
		sorted[count++].value = rate(t, t->now.figure[i].path);
	}
	qsort(sorted, count, sizeof *sorted, compare_rates);
	for (size_t i = 0; i < count; i++)
		row(t, NULL, "  %-12s %12s %16s", sorted[i].path + strlen(OPERATION),
		    number(sorted[i].value, a), number(value(t, sorted[i].path), b));
	row(t, NULL, "%-14s %12s", "all", number(requests(t), a));
	row(t, NULL, "not found      %12s   failed %s   set aside %s", number(rate(t, OPERATION "not_found"), a),
	    number(rate(t, OPERATION "failed"), b), text(t, OPERATION "set_aside"));
	row(t, NULL, "long values    %12s   %s/s", number(rate(t, OPERATION "pulls"), a),
	    opt_format_size((uint64_t)rate(t, OPERATION "pull_bytes"), b, sizeof b));
	row(t, NULL, "lock waits     %12s   handed over %s   recovered %s   over their lease %s",
	    number(rate(t, "locks.waits"), a), number(rate(t, "locks.handovers"), b),
	    text(t, "locks.recovered"), text(t, "locks.fenced"));
	row(t, NULL, "%s", "");
	row(t, NULL, "GETs by one-sided READ are not among them: kvd does not see them.  q quits.");
}

static void show_screen(struct top *t, const char *why)
{
	struct winsize size = { .ws_row = 24, .ws_col = 80 };

	ioctl(1, TIOCGWINSZ, &size);
	t->columns = size.ws_col ? size.ws_col : 80;
	t->rows = size.ws_row ? size.ws_row : 24;
	t->row = 0;
	fputs("\033[H", stdout);
	if (why) {
		row(t, BOLD, "kvd at %s", t->cli->server);
		row(t, NULL, "%s", "");
		row(t, RED, "%s", why);
		row(t, NULL, "Trying again.  q quits.");
	} else {
		show_head(t);
		show_table(t);
		show_devices(t);
		show_connections(t);
		show_requests(t);
	}
	fputs("\033[J", stdout);
	fflush(stdout);
}

/* -------------------------------------------------------------------- lines */

static void show_line(struct top *t, uint64_t line)
{
	double budget = value(t, "memory.budget_bytes");
	time_t now = time(NULL);
	struct tm tm;
	char clock[16];

	localtime_r(&now, &tm);
	strftime(clock, sizeof clock, "%H:%M:%S", &tm);
	if (line % HEAD_EVERY == 0)
		printf("%-8s %11s %7s %7s %10s %10s %10s %10s %9s %7s\n", "time", "keys", "memory%",
		       "conns", "req/s", "put/s", "get/s", "delete/s", "failed/s", "waits/s");
	printf("%-8s %11.0f %7.1f %7.0f %10.0f %10.0f %10.0f %10.0f %9.0f %7.0f\n", clock,
	       value(t, "keys"), budget > 0 ? value(t, "memory.used_bytes") / budget * 100 : 0,
	       value(t, "connections"), requests(t), rate(t, OPERATION "put"),
	       rate(t, OPERATION "get"), rate(t, OPERATION "delete"), rate(t, OPERATION "failed"),
	       rate(t, "locks.waits"));
}

/* --------------------------------------------------------------------- loop */

static void open_screen(struct top *t)
{
	struct termios raw;

	/* Keys come one by one, and are not shown; an interrupt stays one. */
	if (isatty(0) && tcgetattr(0, &t->terminal) == 0) {
		raw = t->terminal;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		tcsetattr(0, TCSANOW, &raw);
	}
	fputs("\033[?1049h\033[?25l", stdout);
}

static void close_screen(struct top *t)
{
	fputs("\033[?25h\033[?1049l", stdout);
	fflush(stdout);
	if (isatty(0))
		tcsetattr(0, TCSANOW, &t->terminal);
}

/* Until the interval is over; true: it is to end. */
static bool wait_interval(struct top *t, int interval_ms)
{
	uint64_t end = now_ns() + (uint64_t)interval_ms * 1000000;
	struct pollfd input = { .fd = t->screen && isatty(0) ? 0 : -1, .events = POLLIN };
	char key;

	for (uint64_t now; !stop && (now = now_ns()) < end;) {
		if (poll(&input, 1, (int)((end - now) / 1000000) + 1) != 1)
			continue;
		if (read(0, &key, 1) != 1 || key == 'q' || key == 'Q' || key == 4)
			return true;
		return false; /* any other key: at once */
	}
	return stop != 0;
}

static int run(struct top *t, int interval_ms, uint64_t count)
{
	char why[512] = "";
	uint64_t lines = 0;
	bool ok = sample(t, why, sizeof why);

	if (!ok && !t->screen)
		return cli_fail(t->cli, CLI_SERVER, "top: %s", why);
	for (;;) {
		if (t->screen)
			show_screen(t, ok ? NULL : why);
		if (count && t->screen && lines++ == count)
			return CLI_DONE;
		if (wait_interval(t, interval_ms))
			return CLI_DONE;
		ok = sample(t, why, sizeof why);
		if (t->screen)
			continue;
		if (ok)
			show_line(t, lines);
		else
			cli_fail(t->cli, CLI_SERVER, "top: %s", why);
		lines++; /* a kvd that stays away doesn't make it go on for ever */
		if (!cli_output_flush(t->cli))
			return CLI_DONE;
		if (count && lines >= count)
			return ok ? CLI_DONE : CLI_SERVER;
	}
}

static int run_top(struct cli *cli, const struct cli_args *args)
{
	struct top *t = calloc(1, sizeof *t);
	struct sigaction action = { .sa_handler = on_signal }, old_int, old_term;
	int interval_ms = 1000, status;
	uint64_t count = 0;

	if (!t)
		return cli_fail(cli, CLI_USAGE, "top: no memory");
	if ((args->given[TOP_INTERVAL] &&
	     !cli_args_time(&args->option[TOP_INTERVAL], 10, &interval_ms)) ||
	    (args->given[TOP_COUNT] &&
	     !cli_args_number(&args->option[TOP_COUNT], 1, INT64_MAX, &count))) {
		free(t);
		return cli_fail(cli, CLI_USAGE, "top --interval wants a time from 10ms to 24 hours, "
						"--count a whole number from 1");
	}
	const char *term = getenv("TERM");
	t->cli = cli;
	t->screen = isatty(1) && term && strcmp(term, "dumb") != 0;
	t->color = cli_color(1);
	stop = 0;
	sigaction(SIGINT, &action, &old_int);
	sigaction(SIGTERM, &action, &old_term);
	if (t->screen)
		open_screen(t);
	status = run(t, interval_ms, count);
	if (t->screen)
		close_screen(t);
	sigaction(SIGINT, &old_int, NULL);
	sigaction(SIGTERM, &old_term, NULL);
	free(t);
	return status;
}

const struct cli_command cli_top = {
	.name = "top",
	.arguments = "",
	.summary = "watch figures of kvd",
	.help = "Shows the figures again and again. A terminal gets a screen, until q. Elsewhere\n"
		"each interval is a line.",
	.options = top_options,
	.run = run_top,
};

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * torture -- clients that do random operations on few keys, are killed and
 * started again, while kvd grows or is stopped; then the check that all they saw
 * is linearizable, and that no byte was wrong.
 *
 * It goes on beyond --seconds, by a minute at most, until it did enough of each kind of
 * what it was told to do to prove anything; short of that something is wrong, too.
 *
 * One line at the end; exit 0 if all is well, 1 if something is wrong, 2 usage.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/opt.h"
#include "tests/lib/history.h"
#include "tests/torture/stop.h"
#include "tests/torture/torture.h"
#include "tests/torture/value.h"

#define END_MS_MAX 30000
#define TOLD_MAX 60
#define LATE_NS 60000000000ull /* beyond --seconds */
/* The least that proves anything: of operations of each kind, kills, stops, filled keys. */
#define DONE_MIN 50u
#define KILLS_MIN 3u
#define STOPS_MIN 2u
#define FILLED_MIN 5000u

struct run {
	struct settings settings;
	struct board *board;
	pid_t pid[CLIENTS_MAX];
	unsigned incarnation[CLIENTS_MAX];
	int kvd_pid;
	int stop_ms;
	const char *history_file;
	const char *until;
	uint64_t random;
	uint64_t kills;
	struct stops stops;
	uint64_t next_kill_ns, next_stop_ns;
};

void history_path(const struct settings *s, int client, int thread, char *path,
		  unsigned path_bytes)
{
	snprintf(path, path_bytes, "%s/history.%d.%d", s->dir, client, thread);
}

static uint64_t roll(struct run *r, uint64_t n)
{
	r->random ^= r->random << 13;
	r->random ^= r->random >> 7;
	r->random ^= r->random << 17;
	return r->random % n;
}

/* --------------------------------------------------------------------- clients */

static void start_client(struct run *r, int i)
{
	fflush(NULL);
	memset(r->board->reading[i], 0, sizeof r->board->reading[i]);
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		client_main(&r->settings, r->board, i, r->incarnation[i]);
	}
	r->incarnation[i]++;
	r->pid[i] = pid;
}

static void wrong(struct run *r, const char *what, int n)
{
	fprintf(stderr, "WRONG: %s %d\n", what, n);
	atomic_fetch_add(&r->board->wrong, 1);
}

/* A client ends by itself only when it is told to. */
static void reap(struct run *r, int i, int options)
{
	int status;

	if (r->pid[i] <= 0 || waitpid(r->pid[i], &status, options) != r->pid[i])
		return;
	r->pid[i] = 0;
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		wrong(r, "a client died of signal", WTERMSIG(status));
	else if (WIFEXITED(status) && WEXITSTATUS(status))
		wrong(r, "a client ended with", WEXITSTATUS(status));
}

static void kill_one(struct run *r)
{
	int i = (int)roll(r, (uint64_t)r->settings.clients);

	if (r->pid[i] <= 0)
		return;
	kill(r->pid[i], SIGKILL);
	reap(r, i, 0);
	r->kills++;
	start_client(r, i);
}

static void end_clients(struct run *r)
{
	uint64_t until = history_now_ns() + END_MS_MAX * 1000000ull;
	int left = 1;

	atomic_store(&r->board->stop, true);
	while (left && history_now_ns() < until) {
		left = 0;
		for (int i = 0; i < r->settings.clients; i++) {
			reap(r, i, WNOHANG);
			left += r->pid[i] > 0;
		}
		poll(NULL, 0, 5);
	}
	for (int i = 0; i < r->settings.clients; i++) {
		if (r->pid[i] <= 0)
			continue;
		wrong(r, "a client doesn't end:", i);
		kill(r->pid[i], SIGKILL);
		reap(r, i, 0);
	}
}

/* ------------------------------------------------------------------------- run */

static uint64_t puts_begun(const struct run *r)
{
	uint64_t n = 0;

	for (int i = 0; i < r->settings.clients; i++)
		for (int k = 0; k < r->settings.threads; k++)
			n += atomic_load(&r->board->next_value[i][k]);
	return n;
}

/* A PUT is four times as frequent as a DEL. */
static bool is_enough(const struct run *r)
{
	const struct settings *s = &r->settings;

	return (s->readers == s->clients || puts_begun(r) >= 8 * DONE_MIN) &&
	       (!s->kill_ms || r->kills >= KILLS_MIN) &&
	       (!r->kvd_pid || r->stops.count >= STOPS_MIN) &&
	       (!r->kvd_pid || !s->readers || atomic_load(&r->board->gets_while_stopped)) &&
	       (!s->fill || atomic_load(&r->board->table_is_full) ||
		atomic_load(&r->board->filled) >= FILLED_MIN);
}

static bool goes_on(const struct run *r, uint64_t now, uint64_t end)
{
	if (atomic_load(&r->board->wrong))
		return false;
	if (r->until)
		return now < end && access(r->until, F_OK);
	return now < end || (now < end + LATE_NS && !is_enough(r));
}

static void run(struct run *r)
{
	uint64_t now = history_now_ns(), end = now + (uint64_t)r->settings.seconds * 1000000000ull;

	r->next_kill_ns = now + (uint64_t)r->settings.kill_ms * 1000000ull;
	r->next_stop_ns = now + (uint64_t)r->stop_ms * 1000000ull;
	for (int i = 0; i < r->settings.clients; i++)
		start_client(r, i);
	while (goes_on(r, now = history_now_ns(), end)) {
		poll(NULL, 0, 5);
		for (int i = 0; i < r->settings.clients; i++)
			reap(r, i, WNOHANG);
		if (r->settings.kill_ms && now >= r->next_kill_ns) {
			kill_one(r);
			r->next_kill_ns = now + (1 + roll(r, 2 * (uint64_t)r->settings.kill_ms)) *
							1000000ull;
		}
		if (r->kvd_pid && now >= r->next_stop_ns) {
			int rc = stop_once(&r->stops, r->board, r->settings.readers, r->pid,
					   r->kvd_pid);
			if (rc)
				wrong(r, "kvd can't be stopped:", rc);
			r->next_stop_ns = history_now_ns() + (uint64_t)r->stop_ms * 1000000ull;
		}
	}
	end_clients(r);
}

/* ----------------------------------------------------------------------- check */

static int collect(struct run *r, struct linear_op **ops, size_t *n)
{
	char path[512];

	for (int i = 0; i < r->settings.clients; i++) {
		for (int k = 0; k < r->settings.threads; k++) {
			struct history *h;
			history_path(&r->settings, i, k, path, sizeof path);
			if (access(path, F_OK))
				continue;
			int rc = history_open(path, RECORDS_MAX, &h);
			if (!rc) {
				rc = history_collect(h, ops, n);
				history_close(&h);
			}
			unlink(path);
			if (rc)
				return rc;
		}
	}
	return 0;
}

static int write_history(const char *path, const struct linear_op *ops, size_t n)
{
	FILE *out = fopen(path, "w");

	if (!out)
		return errno;
	for (size_t i = 0; i < n; i++)
		history_print(out, &ops[i]);
	return fclose(out) ? errno : 0;
}

/* What happened to the key around the operation. */
static void explain(const struct linear_report *report, const struct linear_op *ops, size_t n)
{
	const struct linear_op *bad = &report->op;

	fprintf(stderr, "WRONG: %s:\n", report->why);
	history_print(stderr, bad);
	fprintf(stderr, "around it:\n");
	for (size_t i = 0, told = 0; i < n && told < TOLD_MAX; i++)
		if (ops[i].key == bad->key && ops[i].invoke_ns <= bad->return_ns + 1000000 &&
		    ops[i].return_ns >= bad->invoke_ns - 1000000) {
			history_print(stderr, &ops[i]);
			told++;
		}
}

static int check(struct linear_op *ops, size_t n)
{
	struct linear_report report = { .why = "" };

	if (linear_check(ops, n, &report) == LINEAR_OK)
		return 0;
	explain(&report, ops, n);
	return 1;
}

static void count(const struct linear_op *ops, size_t n, uint64_t *kinds, uint64_t *unknown)
{
	for (size_t i = 0; i < n; i++) {
		kinds[ops[i].kind]++;
		*unknown += ops[i].result == LINEAR_UNKNOWN && ops[i].kind != LINEAR_GET;
	}
}

static bool is_stop_fine(struct run *r)
{
	if (!r->settings.readers)
		return true;
	if (r->stops.silent)
		fprintf(stderr, "WRONG: %" PRIu64 " of %" PRIu64 " stops of kvd without a GET\n",
			r->stops.silent, r->stops.count);
	if (r->stops.no_time)
		fprintf(stderr, "the readers had no time for a GET in %" PRIu64 " of %" PRIu64
			" stops of kvd\n", r->stops.no_time, r->stops.count);
	if (atomic_load(&r->board->blocked))
		fprintf(stderr, "WRONG: %" PRIu64 " GETs waited for a kvd that was stopped\n",
			atomic_load(&r->board->blocked));
	return !r->stops.silent && !atomic_load(&r->board->blocked);
}

static bool has_reached(const char *what, uint64_t n, uint64_t least)
{
	if (n < least)
		fprintf(stderr, "WRONG: it proves nothing: %" PRIu64 " %s, and %" PRIu64 " are the least\n",
			n, what, least);
	return n >= least;
}

static bool is_proof(const struct run *r, const uint64_t *kinds)
{
	const struct settings *s = &r->settings;
	bool ok = has_reached("GETs", kinds[LINEAR_GET], DONE_MIN);

	if (s->readers < s->clients) {
		ok &= has_reached("PUTs", kinds[LINEAR_PUT], DONE_MIN);
		ok &= has_reached("DELs", kinds[LINEAR_DEL], DONE_MIN);
	}
	if (s->kill_ms)
		ok &= has_reached("kills", r->kills, KILLS_MIN);
	if (r->kvd_pid)
		ok &= has_reached("stops of kvd", r->stops.count, STOPS_MIN);
	if (r->kvd_pid && s->readers)
		ok &= has_reached("GETs while kvd was stopped",
				  atomic_load(&r->board->gets_while_stopped), 1);
	if (s->fill && !atomic_load(&r->board->table_is_full))
		ok &= has_reached("filled keys", atomic_load(&r->board->filled), FILLED_MIN);
	return ok;
}

static int report(struct run *r)
{
	uint64_t kinds[3] = { 0 }, unknown = 0;
	struct linear_op *ops = NULL;
	struct board *b = r->board;
	size_t n = 0;
	int rc = collect(r, &ops, &n);

	if (!rc && r->history_file)
		rc = write_history(r->history_file, ops, n);
	if (rc)
		fprintf(stderr, "the history: %s\n", strerror(rc));
	count(ops, n, kinds, &unknown);
	int bad = rc || (!r->settings.is_flipping && check(ops, n)) || !is_stop_fine(r) ||
		  atomic_load(&b->wrong) || !is_proof(r, kinds);
	printf("torture: seed %" PRIu64 ": %zu operations (%" PRIu64 " gets, %" PRIu64 " puts, %" PRIu64
	       " dels, %" PRIu64 " unknown), %" PRIu64 " kills, %" PRIu64 " stops (%" PRIu64
	       " gets), %" PRIu64 " keys filled, %" PRIu64 " retries, %" PRIu64 " fallbacks, %" PRIu64
	       " errors: %s\n", r->settings.seed, n, kinds[LINEAR_GET], kinds[LINEAR_PUT],
	       kinds[LINEAR_DEL], unknown, r->kills, r->stops.count, atomic_load(&b->gets_while_stopped),
	       atomic_load(&b->filled), atomic_load(&b->retries), atomic_load(&b->fallbacks),
	       atomic_load(&b->errors), bad ? "WRONG" : "fine");
	free(ops);
	return bad ? 1 : 0;
}

/* --------------------------------------------------------------------- options */

static struct run the_run = {
	.settings = { .clients = 4, .threads = 1, .keys = 4, .seconds = 5, .seed = 1,
		      .value_bytes_min = VALUE_BYTES_MIN, .value_bytes_max = 200000 },
	.stop_ms = 1000,
};
static int seed = 1;

static const struct opt options[] = {
	{ .name = "", .help = "Random operations on few keys, checked:" },
	{ .name = "server", .letter = 's', .kind = OPT_STRING, .target = &the_run.settings.server,
	  .argument = "ADDR:PORT", .help = "kvd" },
	{ .name = "device", .kind = OPT_STRING, .target = &the_run.settings.device,
	  .argument = "NAME", .help = "RDMA device" },
	{ .name = "dir", .kind = OPT_STRING, .target = &the_run.settings.dir, .argument = "PATH",
	  .help = "folder for the clients' records (.)" },
	{ .name = "clients", .kind = OPT_INT, .target = &the_run.settings.clients, .min = 1,
	  .max = CLIENTS_MAX, .argument = "N", .help = "processes (4)" },
	{ .name = "readers", .kind = OPT_INT, .target = &the_run.settings.readers, .min = 0,
	  .max = CLIENTS_MAX, .argument = "N", .help = "how many of them only GET (0)" },
	{ .name = "threads", .kind = OPT_INT, .target = &the_run.settings.threads, .min = 1,
	  .max = THREADS_MAX, .argument = "N", .help = "of each process (1)" },
	{ .name = "keys", .kind = OPT_INT, .target = &the_run.settings.keys, .min = 1,
	  .max = KEYS_MAX, .argument = "N", .help = "that all work on (4)" },
	{ .name = "seconds", .kind = OPT_INT, .target = &the_run.settings.seconds, .min = 1,
	  .max = 86400, .argument = "N", .help = "how long (5)" },
	{ .name = "seed", .kind = OPT_INT, .target = &seed, .min = 1, .max = INT32_MAX,
	  .argument = "N", .help = "of what clients do (1)" },
	{ .name = "value-min", .kind = OPT_SIZE, .target = &the_run.settings.value_bytes_min,
	  .min = VALUE_BYTES_MIN, .max = VALUE_BYTES_LIMIT, .argument = "SIZE",
	  .help = "shortest value (24)" },
	{ .name = "value-max", .kind = OPT_SIZE, .target = &the_run.settings.value_bytes_max,
	  .min = VALUE_BYTES_MIN, .max = VALUE_BYTES_LIMIT, .argument = "SIZE",
	  .help = "longest value (200000)" },
	{ .name = "kill", .kind = OPT_INT, .target = &the_run.settings.kill_ms, .min = 0,
	  .max = 3600000, .argument = "MS", .help = "kill -9 a client about so often (never)" },
	{ .name = "stop", .kind = OPT_INT, .target = &the_run.kvd_pid, .min = 1, .max = INT32_MAX,
	  .argument = "PID", .help = "SIGSTOP this kvd at times: GETs must go on" },
	{ .name = "stop-every", .kind = OPT_INT, .target = &the_run.stop_ms, .min = 1,
	  .max = 3600000, .argument = "MS", .help = "how often (1000)" },
	{ .name = "fill", .kind = OPT_FLAG, .target = &the_run.settings.fill,
	  .help = "the last client makes new keys, so that kvd's index grows" },
	{ .name = "no-mirror", .kind = OPT_FLAG, .target = &the_run.settings.no_mirror,
	  .help = "clients remember nothing of the index" },
	{ .name = "until", .kind = OPT_STRING, .target = &the_run.until, .argument = "FILE",
	  .help = "or until this file is there" },
	{ .name = "history", .kind = OPT_STRING, .target = &the_run.history_file,
	  .argument = "FILE", .help = "write all operations as lines of JSON" },
	{ .name = NULL },
};

static int usage(const char *why)
{
	fprintf(stderr, "torture: %s\n", why);
	opt_print_help(options);
	return 2;
}

int main(int argc, char **argv)
{
	struct run *r = &the_run;
	struct settings *s = &r->settings;
	char error[256];
	int rc = opt_parse(options, argc, argv, error, sizeof error);

	if (rc < 0)
		return usage(error);
	if (rc != argc || !s->server || s->readers > s->clients ||
	    s->value_bytes_min > s->value_bytes_max)
		return usage("-s ADDR:PORT is needed, and what fits together");
	if (!s->dir)
		s->dir = ".";
	s->seed = (uint64_t)seed;
	s->run_id = (int)getpid();
	const char *faults = getenv("SOFTVERBS_FAULT");
	s->is_faulty = faults != NULL;
	s->is_flipping = faults && strstr(faults, "flip=");
	r->random = s->seed * 0x9e3779b97f4a7c15ull | 1;
	r->board = mmap(NULL, sizeof *r->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (r->board == MAP_FAILED)
		return usage("out of memory");
	run(r);
	return report(r);
}

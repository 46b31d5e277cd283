/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A world from beginning to end: kvd starts, a client makes what is there at first,
 * clients do what they do, are killed and started again, kvd is stopped for moments;
 * then kvd is left alone, what is there is looked at, kvd is asked to end, and the
 * history is checked.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/world.h"

/* Time enough for a lock that is free, and its GET. */
#define LOCK_NS 5000000ull

struct board *board;

static unsigned server;
static unsigned client[CLIENTS_MAX];
static bool runs[CLIENTS_MAX];

int kvd_main(int argc, char **argv);

/* -------------------------------------------------------------------- plan */

static void draw_faults(struct plan *p)
{
	unsigned kind = (unsigned)sim_roll(8), seed = (unsigned)sim_roll(1000000);
	int n = snprintf(p->faults, sizeof p->faults, "seed=%u", seed);
	char *end = p->faults + n;
	size_t left = sizeof p->faults - (size_t)n;

	p->noncoherent = sim_roll(3) == 0;
	p->is_faulty = kind >= 4;
	snprintf(p->server_faults, sizeof p->server_faults, "seed=%u%s", seed,
		 p->noncoherent ? ",noncoherent=1" : "");
	if (p->noncoherent)
		n = snprintf(end, left, ",noncoherent=1"), end += n, left -= (size_t)n;
	if (kind & 1)
		n = snprintf(end, left, ",torn=%u", 100 + (unsigned)sim_roll(900)), end += n,
		left -= (size_t)n;
	if (kind & 2)
		n = snprintf(end, left, ",delay_us=%u", 1 + (unsigned)sim_roll(50)), end += n,
		left -= (size_t)n;
	if (kind >= 4)
		snprintf(end, left, ",ack_lost=%u,error=%u,rnr=%u", (unsigned)sim_roll(100),
			 (unsigned)sim_roll(20), (unsigned)sim_roll(50));
}

static void draw_plan(struct plan *p)
{
	/* Few kinds of deeds at a time meet each other more often. */
	static const uint32_t mixes[][DEEDS] = {
		{ 6, 4, 2, 3, 3, 3, 2, 2, 2 }, /* all */
		{ 5, 4, 2, 0, 0, 0, 0, 0, 0 }, /* a register */
		{ 3, 3, 1, 6, 0, 0, 0, 0, 0 }, /* locks against changes */
		{ 0, 0, 0, 0, 9, 0, 0, 0, 0 }, /* a counter */
		{ 0, 0, 0, 1, 1, 8, 6, 0, 0 }, /* a bank */
		{ 3, 2, 1, 0, 0, 0, 0, 12, 6 }, /* growth */
	};

	draw_faults(p);
	memcpy(p->weight, mixes[sim_roll(6)], sizeof p->weight);
	p->clients = 2 + (int)sim_roll(3);
	p->operations = 10 + (int)sim_roll(40);
	p->keys = 1 + (int)sim_roll(3);
	p->workers = 1 + (int)sim_roll(3);
	p->lease_ms = sim_roll(3) ? 10000 : 10;
	p->is_faulty |= p->lease_ms < 1000;
	p->value_bytes_max = sim_roll(4) ? 300 : 40000;
	p->no_mirror = sim_roll(3) == 0;
	p->kill_ms = sim_roll(3) ? 0 : 1 + (int)sim_roll(20);
	p->kills = 1 + (int)sim_roll(6); /* or nobody gets anywhere */
	p->stop_ms = sim_roll(4) ? 0 : 1 + (int)sim_roll(20);
}

/* ------------------------------------------------------------------ server */

static void redirect(void)
{
	int fd = open(board->log_file ? board->log_file : "/dev/null",
		      O_WRONLY | O_CREAT | O_APPEND, 0644);

	dup2(fd, 2);
	close(fd);
}

static void run_server(void *unused)
{
	char workers[16], lease[16];
	const char *argv[] = { "kvd", "--memory", "16M", "--workers", workers, "--lease", lease,
			       "--log-level", board->log_file ? "debug" : "error", NULL };

	(void)unused;
	snprintf(workers, sizeof workers, "%d", board->plan.workers);
	snprintf(lease, sizeof lease, "%d", board->plan.lease_ms);
	setenv("SOFTVERBS_FAULT", board->plan.server_faults, 1);
	redirect();
	exit(kvd_main((int)(sizeof argv / sizeof argv[0]) - 1, (char **)(uintptr_t)argv));
}

/* ----------------------------------------------------------------- clients */

static void rest_ms(int ms)
{
	poll(NULL, 0, ms);
}

/* How a process ended; `killed`: as it was meant to. */
static void judge_end(const char *what, int number, int status, bool killed)
{
	if (killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return;
	if (WIFSIGNALED(status))
		sim_judge(SIM_WRONG, "%s %d died of signal %d", what, number, WTERMSIG(status));
	else if (WEXITSTATUS(status))
		sim_judge(SIM_WRONG, "%s %d ended with %d", what, number, WEXITSTATUS(status));
}

static void start_client(int i)
{
	client[i] = sim_spawn(false, client_run, (void *)(intptr_t)i);
	runs[i] = true;
}

static bool look_after(int i)
{
	int status;

	if (!runs[i] || !sim_reap(client[i], &status))
		return runs[i];
	judge_end("client", i, status, false);
	return runs[i] = false;
}

static void kill_client(int i)
{
	int status;

	if (!runs[i] || board->kills == (uint64_t)board->plan.kills)
		return;
	board->kills++;
	sim_kill(client[i]);
	if (sim_reap(client[i], &status))
		judge_end("client", i, status, true);
	start_client(i);
}

/* A whole process, to its end. */
static void run_to_end(void (*run)(void *), const char *what)
{
	unsigned p = sim_spawn(false, run, NULL);
	int status;

	while (!sim_reap(p, &status))
		rest_ms(1);
	judge_end(what, 0, status, false);
}

static bool chance(int every_ms)
{
	return every_ms && sim_roll((uint64_t)every_ms) == 0;
}

static void stop_server(void)
{
	sim_stop(server);
	rest_ms(1 + (int)sim_roll(10));
	sim_continue(server);
}

static void run_clients(void)
{
	const struct plan *p = &board->plan;
	int left = 1;

	for (int i = 0; i < p->clients; i++)
		start_client(i);
	while (left) {
		rest_ms(1);
		if (chance(p->kill_ms))
			kill_client((int)sim_roll((uint64_t)p->clients));
		if (chance(p->stop_ms))
			stop_server();
		left = 0;
		for (int i = 0; i < p->clients; i++)
			left += look_after(i);
	}
}

/* What it had is gone; whoever waits for it learns so, and goes on with the next one. */
static void replace_server(void)
{
	int status;

	sim_kill(server);
	if (sim_reap(server, &status))
		judge_end("kvd", 0, status, true);
	server = sim_spawn(true, run_server, NULL);
}

/* The other client did what it can do without kvd. */
static bool was_enough(uint64_t stopped_ns)
{
	const struct plan *p = &board->plan;

	if (p->walk_locks) /* or it waits for the change to end */
		return board->granted || stopped_ns > LOCK_NS;
	return board->read_stopped >= 2 * (uint64_t)p->keys;
}

/* kvd stops wherever the walk is; the other goes on; then it goes on, too, or dies. */
static void run_walk(void)
{
	uint64_t began_ns = sim->now_ns;

	client[0] = sim_spawn(false, walk_change, (void *)0);
	client[1] = sim_spawn(false, board->plan.walk_locks ? walk_lock : walk_read, (void *)1);
	runs[0] = runs[1] = true;
	for (int left = 1; left;) {
		rest_ms(1);
		if (sim->walk_hit && !board->is_stopped) {
			board->is_stopped = board->walk_reached = true;
			began_ns = sim->now_ns;
		}
		/* Bounded: whatever a GET waits for, it is not kvd. */
		if (board->is_stopped && was_enough(sim->now_ns - began_ns)) {
			board->is_stopped = false;
			sim->walk_hit = false;
			if (board->plan.walk_kills)
				replace_server();
			else
				sim_continue(server);
		} else if (board->is_stopped && sim->now_ns - began_ns > 500000000ull) {
			sim_judge(SIM_WRONG, "a GET waits for a kvd that is stopped");
		}
		left = look_after(0) + look_after(1);
	}
	sim_continue(server); /* it may have stopped behind its answer */
}

/* ----------------------------------------------------------------- history */

/* No change took effect between a read and a write under one lock: versions grow. */
static void check_sections(const struct linear_op *ops, size_t n)
{
	unsigned count = board->sections < SECTIONS_MAX ? board->sections : SECTIONS_MAX;

	for (unsigned i = 0; i < count; i++) {
		const struct section *s = &board->section[i];
		for (size_t k = 0; k < n; k++)
			if (ops[k].key == s->key && ops[k].kind == LINEAR_PUT &&
			    ops[k].version > s->read_version && ops[k].version < s->put_version)
				sim_judge(SIM_WRONG, "key %" PRIu64 " had version %" PRIu64
					  " under a lock, then %" PRIu64 ", but somebody stored %" PRIu64
					  " in between", s->key, s->read_version, s->put_version,
					  ops[k].version);
	}
}

static void check_history(void)
{
	struct linear_report report = { .why = "" };
	struct linear_op *ops = malloc(sizeof board->log);
	size_t n = 0;

	for (unsigned i = 0; i < CLIENTS_MAX; i++)
		for (unsigned k = 0; k < board->logged[i]; k++)
			ops[n++] = board->log[i][k];
	for (size_t i = 0; i < n; i++)
		sim->hash = (sim->hash ^ ops[i].return_ns ^ ops[i].value) * 0x100000001b3ull;
	if (linear_check(ops, n, &report) != LINEAR_OK)
		sim_judge(SIM_WRONG, "key %" PRIu64 ", client %u, called at %" PRIu64
			  ", returned at %" PRIu64 ", value %" PRIu64 ": %s", report.op.key,
			  report.op.client, report.op.invoke_ns, report.op.return_ns,
			  report.op.value, report.why);
	check_sections(ops, n);
	free(ops);
}

static void end_server(void)
{
	int status;

	kill(atomic_load(&sim->process[server].pid), SIGTERM);
	sim_io();
	while (!sim_reap(server, &status))
		rest_ms(1);
	judge_end("kvd", 0, status, false);
}

void world_run(void)
{
	char fabric[32];

	atomic_store(&sim->process[0].pid, (int)getpid());
	sim_me = sim_thread_new(0);
	sim_start_undertaker();
	if (!board->plan.is_walk)
		draw_plan(&board->plan);
	snprintf(fabric, sizeof fabric, "sim%07d", (int)getppid() % 10000000);
	setenv("SOFTVERBS_FABRIC", fabric, 1);
	server = sim_spawn(true, run_server, NULL);
	run_to_end(client_prepare, "the first client");
	if (board->plan.is_walk)
		run_walk();
	else
		run_clients();
	sim->is_fair = true;
	sim->reweigh = 1;
	if (board->plan.walk_kills) {
		run_to_end(client_prepare, "a client of the next kvd");
	} else {
		run_to_end(client_conclude, "the last client");
		check_history();
	}
	end_server();
	sim_judge(SIM_FINE, "fine");
	_exit(0);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim -- worlds, one for each seed, until one of them goes wrong; the same seed is the
 * same world, to the last instruction.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/opt.h"
#include "tests/sim/world.h"

/* How long a world may stand still by the clock on the wall: a thread hangs outside of us. */
#define WALL_S_MAX 120

struct shared {
	struct sim sim;
	struct board board;
};

static int seed = 1, seeds = 1, steps = 3000000, walk;
static const char *log_file, *walk_deed;
static bool quiet, batches, walk_kills, walk_locks, walk_absent;

static const struct opt options[] = {
	{ .name = "", .help = "Simulated worlds of kvd and clients:" },
	{ .name = "seed", .kind = OPT_INT, .target = &seed, .min = 1, .max = INT32_MAX,
	  .argument = "N", .help = "the first one (1)" },
	{ .name = "seeds", .kind = OPT_INT, .target = &seeds, .min = 1, .max = INT32_MAX,
	  .argument = "N", .help = "how many, one after the other (1)" },
	{ .name = "steps", .kind = OPT_INT, .target = &steps, .min = 1000, .max = INT32_MAX,
	  .argument = "N", .help = "a world takes no more decisions than that (3000000)" },
	{ .name = "batches", .kind = OPT_FLAG, .target = &batches,
	  .help = "clients have several operations in flight, too" },
	{ .name = "walk", .kind = OPT_INT, .target = &walk, .min = 1, .max = 1000000,
	  .argument = "N", .help = "instead: kvd stops at access N of a change, GETs go on" },
	{ .name = "deed", .kind = OPT_STRING, .target = &walk_deed, .argument = "WHAT",
	  .help = "that change: put, del, lock, update, transfer, fill (put)" },
	{ .name = "kill", .kind = OPT_FLAG, .target = &walk_kills,
	  .help = "kvd is killed there, and another one started" },
	{ .name = "lock", .kind = OPT_FLAG, .target = &walk_locks,
	  .help = "another client takes the lock there: no change takes effect under it" },
	{ .name = "absent", .kind = OPT_FLAG, .target = &walk_absent,
	  .help = "of a key that is not there" },
	{ .name = "log", .kind = OPT_STRING, .target = &log_file, .argument = "FILE",
	  .help = "kvd's log goes there" },
	{ .name = "quiet", .kind = OPT_FLAG, .target = &quiet,
	  .help = "a line only for what is wrong, and at the end" },
	{ .name = NULL },
};

static const char *const verdicts[] = {
	[SIM_UNDECIDED] = "UNDECIDED", [SIM_FINE] = "fine", [SIM_WRONG] = "WRONG",
	[SIM_DEADLOCK] = "DEADLOCK", [SIM_ENDLESS] = "ENDLESS",
};

static int usage(const char *why)
{
	fprintf(stderr, "sim: %s\n", why);
	opt_print_help(options);
	return 2;
}

/* Addresses are the same each time; one core: whoever gets the baton has it warm. The kernel has
 * put an executed program where least is done. */
static void settle(char **argv)
{
	int now = personality(0xffffffff), cpu;
	cpu_set_t one;

	if (now != -1 && !(now & ADDR_NO_RANDOMIZE) && personality((unsigned)now | ADDR_NO_RANDOMIZE) != -1)
		execv("/proc/self/exe", argv);
	cpu = sched_getcpu();
	if (cpu < 0)
		return;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof one, &one);
}

static bool set_deed(struct plan *p)
{
	static const struct { const char *name; enum deed deed; } names[] = {
		{ "put", DEED_PUT }, { "del", DEED_DEL }, { "lock", DEED_LOCK },
		{ "update", DEED_UPDATE }, { "transfer", DEED_TRANSFER }, { "fill", DEED_FILL },
	};

	for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
		if (strcmp(names[i].name, walk_deed ? walk_deed : "put") != 0)
			continue;
		p->walk_deed = names[i].deed;
		return true;
	}
	return false;
}

/* The world's first process; what it starts ends with it. */
static pid_t start_world(struct shared *s, uint64_t of_seed)
{
	memset(&s->board, 0, sizeof s->board);
	sim_begin(&s->sim, of_seed, (uint64_t)steps);
	board = &s->board;
	board->log_file = log_file;
	board->plan.batches = batches;
	if (walk) {
		board->plan = (struct plan){ .is_walk = true, .walk_kills = walk_kills,
					     .walk_locks = walk_locks, .walk_absent = walk_absent,
					     .is_faulty = walk_kills, .operations = walk,
					     .keys = walk_locks ? 1 : 2,
					     .workers = 1, .lease_ms = 10000, .clients = 2,
					     .value_bytes_max = of_seed % 2 ? 200 : 20000 };
		set_deed(&board->plan);
	}
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		world_run();
	}
	return pid;
}

/* What /proc/PID/task/TID/ says in a file, without the line's end. */
static const char *line_of_thread(pid_t pid, const char *tid, const char *name, char text[300])
{
	char path[80];

	snprintf(path, sizeof path, "/proc/%d/task/%.20s/%s", (int)pid, tid, name);
	FILE *file = fopen(path, "r");
	if (!file || !fgets(text, 300, file))
		strcpy(text, "?");
	if (file)
		fclose(file);
	text[strcspn(text, "\n")] = 0;
	return text;
}

/* Where a process's threads are in the kernel, and the time that each ran and waited for a processor. */
static void print_threads(pid_t pid)
{
	char path[80], text[300], ran[300];
	struct dirent *entry;

	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		fprintf(stderr, "  process %d, thread %s: %s; ran and waited, ns, and times: %s\n", (int)pid,
			entry->d_name, line_of_thread(pid, entry->d_name, "syscall", text),
			line_of_thread(pid, entry->d_name, "schedstat", ran));
	}
	if (dir)
		closedir(dir);
}

/* A world that stands still is told of as it stands. */
static void print_stuck(const struct sim *s, pid_t first)
{
	fprintf(stderr, "sim: seed %" PRIu64 " stands still: thread %u has the baton; system calls:\n",
		s->seed, s->running);
	print_threads(first);
	for (unsigned i = 1; i < SIM_PROCESSES_MAX; i++)
		if (s->process[i].pid)
			print_threads(s->process[i].pid);
}

/* It ends by itself, or is ended when it is judged: what is left can't change that. */
static void await_world(struct sim *s, pid_t pid)
{
	time_t end = time(NULL) + WALL_S_MAX;
	uint64_t counted = 0;
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		bool judged = atomic_load(&s->verdict) > SIM_FINE;
		/* A glance at what the world counts: on a busy machine it may take long. */
		uint64_t now = __atomic_load_n(&s->steps, __ATOMIC_RELAXED);
		if (now != counted)
			end = time(NULL) + WALL_S_MAX;
		counted = now;
		if (!judged && time(NULL) < end) {
			poll(NULL, 0, 1);
			continue;
		}
		if (!judged) {
			print_stuck(s, pid);
			snprintf(s->why, sizeof s->why, "thread %u (%s) has the baton and does not go "
				 "on", s->running, s->thread[s->running].where);
		}
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		return;
	}
}

/* Its processes die a moment after it, and with them their addresses. */
static void await_processes(struct sim *s)
{
	for (unsigned i = 1; i < SIM_PROCESSES_MAX; i++)
		while (s->process[i].pid && waitpid(s->process[i].pid, NULL, 0) > 0)
			;
}

static void print_plan(const struct plan *p)
{
	printf("  %d clients with %d operations each on %d keys, %d workers, lease %d ms, values to "
	       "%" PRIu64 " bytes; faults: %s; of kvd: %s; kill %d ms, stop %d ms%s\n", p->clients,
	       p->operations, p->keys, p->workers, p->lease_ms, p->value_bytes_max, p->faults,
	       p->server_faults, p->kill_ms, p->stop_ms, p->no_mirror ? ", no mirror" : "");
}

static bool run_one(struct shared *s, uint64_t of_seed)
{
	await_world(&s->sim, start_world(s, of_seed));
	await_processes(&s->sim);
	bool fine = s->sim.verdict == SIM_FINE;
	if (walk && fine)
		printf("access %d of the change: %s\n", walk,
		       !s->board.walk_reached ? "not reached" : walk_locks ? "nothing changed under a lock that was taken there" :
		       !walk_kills ? "kvd stopped there, GETs went on" :
		       "kvd died there, its clients went on");
	if (!fine || !quiet)
		printf("seed %" PRIu64 ": %s%s%s; %" PRIu64 " operations, %" PRIu64 " decisions, %" PRIu64
		       " us, trace %016" PRIx64 "\n", of_seed, verdicts[s->sim.verdict],
		       fine ? "" : ": ", fine ? "" : s->sim.why, s->board.deeds, s->sim.steps,
		       (s->sim.now_ns - SIM_BEGIN_NS) / 1000, s->sim.hash);
	if (!fine)
		print_plan(&s->board.plan);
	fflush(stdout);
	return fine;
}

int main(int argc, char **argv)
{
	char error[256];
	struct plan plan;
	uint64_t deeds = 0, decisions = 0;
	int rc = opt_parse(options, argc, argv, error, sizeof error);

	if (rc < 0)
		return usage(error);
	if (rc != argc || !set_deed(&plan))
		return usage("options only");
	settle(argv);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
				-1, 0);
	if (s == MAP_FAILED)
		return usage("out of memory");
	for (int i = 0; i < seeds; i++) {
		if (!run_one(s, (uint64_t)seed + (uint64_t)i)) {
			printf("again: sim --seed %d%s\n", seed + i, batches ? " --batches" : "");
			return 1;
		}
		deeds += s->board.deeds;
		decisions += s->sim.steps;
	}
	printf("%d seeds from %d: %" PRIu64 " operations, %" PRIu64 " decisions: fine\n", seeds, seed,
	       deeds, decisions);
	return 0;
}

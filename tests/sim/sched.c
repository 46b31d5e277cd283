/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The baton: struct sim is read and written by whoever has it, and by nobody else.
 *
 * Happy path: the thread that has it decides who is next, says so in that thread's
 * futex, and sleeps on its own.  All in one process's words, so a decision costs two
 * system calls, or none if it stays.
 *
 * Failure: a process that ends with the baton (exit, abort, a crash) is found by the
 * undertaker, which decides in its place; one that is killed by sim_kill() has it not.
 */
#include "tests/sim/sim.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DECISIONS_FINE 5000u
#define MEAN_MAX 30000u
#define SERVER_PAUSE_NS_MAX 50000u
#define HASH_PRIME 0x100000001b3ull

struct sim *sim;
_Thread_local int sim_me = -1;
static _Thread_local unsigned held;

/* --------------------------------------------------------------- generator */

uint64_t sim_random(void)
{
	uint64_t x = sim->random += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

uint64_t sim_roll(uint64_t n)
{
	return sim_random() % n;
}

static void mix(uint64_t value)
{
	sim->hash = (sim->hash ^ value) * HASH_PRIME;
	sim->hash ^= sim->hash >> 29;
}

/* How the order is chosen differs from seed to seed: a race of two instructions wants
 * other orders than a time-out that comes too early. */
void sim_begin(struct sim *s, uint64_t seed, uint64_t steps_max)
{
	static const uint64_t means[] = { 30, 150, 700, 3000, 15000 };
	static const uint32_t pauses[] = { 0, 0, 5, 30 };

	memset(s, 0, sizeof *s);
	sim = s;
	s->seed = seed;
	s->random = seed * 0xd1342543de82ef95ull + 1;
	s->steps_max = steps_max;
	s->now_ns = SIM_BEGIN_NS;
	s->hash = 0xcbf29ce484222325ull;
	s->mean = means[sim_roll(5)];
	s->pause_per_mille = pauses[sim_roll(4)];
	s->pause_ns_max = 1000ull << sim_roll(15); /* to 16 ms */
	s->server_pause_per_mille = sim_roll(3) ? 0 : 150;
	s->countdown = 1;
	s->reweigh = 1;
	atomic_store(&s->running, 0);
}

void sim_judge(enum sim_verdict verdict, const char *format, ...)
{
	va_list args;

	if (atomic_load(&sim->verdict))
		return;
	va_start(args, format);
	vsnprintf(sim->why, sizeof sim->why, format, args);
	va_end(args);
	atomic_store(&sim->verdict, verdict);
	/* The baton stays here: nothing more happens, and that is the same each time. */
	while (verdict != SIM_FINE)
		pause();
}

/* ---------------------------------------------------------------- the baton */

static void futex(_Atomic uint32_t *at, int op, uint32_t value)
{
	syscall(SYS_futex, at, op, value, NULL, NULL, 0);
}

static void give_to(unsigned next)
{
	struct sim_thread *t = &sim->thread[next];

	atomic_store(&sim->running, next);
	atomic_store(&t->go, 1);
	futex(&t->go, FUTEX_WAKE, 1);
}

static void await_turn(void)
{
	struct sim_thread *t = &sim->thread[sim_me];

	while (!atomic_load(&t->go))
		futex(&t->go, FUTEX_WAIT, 0);
	atomic_store(&t->go, 0);
}

static bool can_run(const struct sim_thread *t)
{
	if (t->state == SIM_FREE || sim->process[t->process].stopped ||
	    t->paused_until_ns > sim->now_ns)
		return false;
	return t->state == SIM_RUNNABLE || t->woken || t->deadline_ns <= sim->now_ns ||
	       (t->wants_io && t->io_seen != sim->io_epoch);
}

/* When something comes by itself; SIM_FOREVER: nothing does. */
static uint64_t next_time(void)
{
	uint64_t next = SIM_FOREVER;

	for (unsigned i = 0; i < SIM_THREADS_MAX; i++) {
		const struct sim_thread *t = &sim->thread[i];
		bool ready = t->state == SIM_RUNNABLE || t->woken ||
			     (t->wants_io && t->io_seen != sim->io_epoch);
		if (t->state == SIM_FREE || sim->process[t->process].stopped)
			continue;
		uint64_t at = ready ? t->paused_until_ns : t->deadline_ns;
		if (at < t->paused_until_ns)
			at = t->paused_until_ns;
		if (at < next)
			next = at;
	}
	return next;
}

static void reweigh(void)
{
	static const uint32_t weights[] = { 1, 4, 4, 4, 16, 64 };

	sim->reweigh = 50 + sim_roll(1000);
	for (unsigned i = 0; i < SIM_THREADS_MAX; i++)
		if (sim->thread[i].state != SIM_FREE)
			sim->thread[i].weight = sim->is_fair ? 4 : weights[sim_roll(6)];
}

/* The world can't go on: whoever looks at it from outside ends it. */
__attribute__((noreturn)) static void end_world(enum sim_verdict verdict, const char *why)
{
	char text[sizeof sim->why] = "";
	size_t n = 0;

	for (unsigned i = 0; i < SIM_THREADS_MAX && n < sizeof text - 80; i++) {
		const struct sim_thread *t = &sim->thread[i];
		if (t->state != SIM_FREE)
			n += (size_t)snprintf(text + n, sizeof text - n, " %u(%u%s)%s", i, t->process,
					      sim->process[t->process].stopped ? " stopped" : "",
					      t->state == SIM_RUNNABLE ? " runs" : t->where);
	}
	sim_judge(verdict, "%s:%.900s", why, text);
	abort(); /* it does not return */
}

/* Whose turn it is; the caller's own is fine, unless it says otherwise. */
static unsigned choose(int not_me)
{
	uint64_t sum = 0;

	if (++sim->steps > sim->steps_max)
		end_world(SIM_ENDLESS, "it does not end");
	if (!--sim->reweigh)
		reweigh();
	for (;;) {
		uint64_t next;
		for (unsigned i = 0; i < SIM_THREADS_MAX; i++)
			if ((int)i != not_me && can_run(&sim->thread[i]))
				sum += sim->thread[i].weight;
		if (sum)
			break;
		if (not_me >= 0) {
			not_me = -1;
			continue;
		}
		next = next_time();
		if (next == SIM_FOREVER)
			end_world(SIM_DEADLOCK, "everybody waits for ever");
		if (next > sim->now_ns)
			sim->now_ns = next;
	}
	uint64_t at = sim_roll(sum);
	unsigned i = 0;
	for (;; i++) {
		if ((int)i == not_me || !can_run(&sim->thread[i]))
			continue;
		if (at < sim->thread[i].weight)
			break;
		at -= sim->thread[i].weight;
	}
	mix(i ^ sim->now_ns << 8);
	return i;
}

static void hand_on(int not_me)
{
	unsigned next = choose(not_me);

	if ((int)next == sim_me)
		return;
	give_to(next);
	await_turn();
}

/* A world that goes on for long has had its chances: it gets coarser. */
static void draw_countdown(void)
{
	if (sim->accesses % DECISIONS_FINE == DECISIONS_FINE - 1 && sim->mean < MEAN_MAX)
		sim->mean *= 2;
	sim->accesses++;
	sim->countdown = 1 + (int64_t)sim_roll(2 * sim->mean);
}

void sim_hold(void)
{
	held++;
}

void sim_release(void)
{
	held--;
}

void sim_yield(void)
{
	if (held)
		return;
	draw_countdown();
	hand_on(-1);
}

void sim_yield_to_others(void)
{
	hand_on(sim_me);
}

/* The walk counts accesses of the server's threads, and stops all of it at the last. */
static bool walk(void)
{
	struct sim_process *p = &sim->process[sim->thread[sim_me].process];

	if (!p->is_server || held || --sim->walk_left)
		return false;
	sim->walk_hit = true;
	p->stopped = true;
	return true;
}

/* The thread sleeps for a while, however much it has to do.  What kvd has begun is what
 * others may meet, so its threads rest more often, for about a client's request. */
static void rest(void)
{
	struct sim_thread *t = &sim->thread[sim_me];

	if (sim->pause_per_mille && sim_roll(1000) < sim->pause_per_mille)
		t->paused_until_ns = sim->now_ns + sim_roll(sim->pause_ns_max);
	else if (sim->server_pause_per_mille && sim->process[t->process].is_server &&
		 sim_roll(1000) < sim->server_pause_per_mille)
		t->paused_until_ns = sim->now_ns + sim_roll(SERVER_PAUSE_NS_MAX);
}

void sim_preempt(void)
{
	bool stop = sim->walk_left && walk();

	if (held || (!stop && sim->countdown > 0))
		return;
	draw_countdown();
	if (!sim->is_fair)
		rest();
	hand_on(-1);
}

bool sim_wait(const char *where, const void *address, bool wants_io, uint64_t deadline_ns)
{
	struct sim_thread *t = &sim->thread[sim_me];

	t->where = where;
	t->waits_for = address;
	t->wants_io = wants_io;
	t->io_seen = sim->io_epoch;
	t->deadline_ns = deadline_ns;
	t->woken = false;
	t->state = SIM_WAITING;
	hand_on(-1);
	t->state = SIM_RUNNABLE;
	t->deadline_ns = SIM_FOREVER;
	return t->woken || (wants_io && t->io_seen != sim->io_epoch);
}

void sim_wake(const void *address, bool all)
{
	unsigned process = sim->thread[sim_me].process, n = 0, which;

	for (unsigned pass = 0; pass < 2; pass++) {
		which = pass && !all && n ? (unsigned)sim_roll(n) : 0;
		n = pass ? which + 1 : 0;
		for (unsigned i = 0; i < SIM_THREADS_MAX; i++) {
			struct sim_thread *t = &sim->thread[i];
			if (t->state != SIM_WAITING || t->process != process || t->woken ||
			    !t->waits_for || t->waits_for != address)
				continue;
			if (!pass)
				n++;
			else if (all || --n == 0)
				t->woken = true;
			if (pass && !all && !n)
				return;
		}
	}
}

void sim_io(void)
{
	sim->io_epoch++;
}

/* ------------------------------------------------------------------ threads */

int sim_thread_new(unsigned process)
{
	for (unsigned i = 0; i < SIM_THREADS_MAX; i++) {
		struct sim_thread *t = &sim->thread[i];
		if (t->state != SIM_FREE)
			continue;
		*t = (struct sim_thread){ .state = SIM_RUNNABLE, .process = (uint8_t)process,
					  .weight = 4, .deadline_ns = SIM_FOREVER, .where = "" };
		return (int)i;
	}
	end_world(SIM_WRONG, "too many threads for the simulation");
}

void sim_arrive(int thread)
{
	sim_me = thread;
	await_turn();
}

bool sim_is_over(int thread)
{
	return sim->thread[thread].state == SIM_FREE;
}

void sim_leave(void)
{
	struct sim_thread *t = &sim->thread[sim_me];

	t->state = SIM_FREE;
	sim_wake(t, true);
	unsigned next = choose(-1);
	sim_me = -1;
	give_to(next);
}

/* ---------------------------------------------------------------- processes */

unsigned sim_spawn(bool is_server, void (*run)(void *arg), void *arg)
{
	unsigned p = 0;

	while (sim->process[p].pid)
		if (++p == SIM_PROCESSES_MAX)
			end_world(SIM_WRONG, "too many processes for the simulation");
	int me = sim_me, child = sim_thread_new(p);
	sim->process[p].is_server = is_server;
	sim->process[p].stopped = false;
	fflush(NULL);
	sim_me = -1; /* what fork() runs in the child is real */
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		held = 0;
		sim_arrive(child);
		run(arg);
		fflush(NULL);
		_exit(0);
	}
	sim_me = me;
	atomic_store(&sim->process[p].pid, pid);
	return p;
}

static void forget_threads(unsigned process)
{
	for (unsigned i = 0; i < SIM_THREADS_MAX; i++)
		if (sim->thread[i].state != SIM_FREE && sim->thread[i].process == process)
			sim->thread[i].state = SIM_FREE;
}

void sim_kill(unsigned process)
{
	siginfo_t info;
	pid_t pid = sim->process[process].pid;

	kill(pid, SIGKILL);
	while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) && errno == EINTR)
		;
	forget_threads(process);
	sim_io(); /* its sockets are closed */
}

void sim_stop(unsigned process)
{
	sim->process[process].stopped = true;
}

void sim_continue(unsigned process)
{
	sim->process[process].stopped = false;
}

bool sim_reap(unsigned process, int *status)
{
	pid_t pid = sim->process[process].pid;

	/* Of a process that is about to die the threads are still there: it has the
	 * baton, or will have it. */
	for (unsigned i = 0; i < SIM_THREADS_MAX; i++)
		if (sim->thread[i].state != SIM_FREE && sim->thread[i].process == process)
			return false;
	if (waitpid(pid, status, 0) != pid)
		return false;
	sim->process[process].pid = 0;
	return true;
}

static bool is_dead(pid_t pid)
{
	siginfo_t info = { .si_pid = 0 };

	return pid && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid == pid;
}

/* Whether one of them has died and its threads are still there. */
static bool is_one_unburied(void)
{
	for (unsigned i = 0; i < SIM_THREADS_MAX; i++) {
		const struct sim_thread *t = &sim->thread[i];
		if (t->state != SIM_FREE && t->process && is_dead(atomic_load(&sim->process[t->process].pid)))
			return true;
	}
	return false;
}

/* A child's death wakes it.  One that is dead and has not the baton yet is waited for. */
static void *bury(void *arg)
{
	const struct timespec moment = { .tv_nsec = 200000 };
	const sigset_t *child = arg;

	for (;;) {
		unsigned running = atomic_load(&sim->running);
		unsigned process = sim->thread[running].process;
		if (process && is_dead(atomic_load(&sim->process[process].pid)) &&
		    running == atomic_load(&sim->running)) {
			forget_threads(process);
			sim_io();
			give_to(choose(-1));
		}
		if (is_one_unburied())
			syscall(SYS_nanosleep, &moment, NULL);
		else
			syscall(SYS_rt_sigtimedwait, child, NULL, NULL, _NSIG / 8);
	}
	return arg;
}

void sim_start_undertaker(void)
{
	static sigset_t child;
	int me = sim_me;
	pthread_t thread;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sim_me = -1;
	if (sigprocmask(SIG_BLOCK, &child, NULL) || pthread_create(&thread, NULL, bury, &child))
		sim_judge(SIM_WRONG, "can't start the undertaker");
	sim_me = me;
}

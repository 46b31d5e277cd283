/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim.h -- a world of processes that run one instruction stream at a time, in an order,
 * at times and with failures that follow from one seed.
 *
 * The processes of a world (kvd, its clients, and the one that started them) are real
 * ones, with the real software device between them.  But of all their threads just one
 * has the baton, in memory that they share; it gives it away where it would block, and
 * wherever the generator says so at an atomic operation or other access to memory: the
 * store is compiled with every access told to us (access.c).  Time is counted, not
 * measured.  So whatever happens happens again with the same seed.
 *
 * sched.c: the baton, the clock, the generator.  libc.c: calls that block, or that tell
 * time or randomness.  access.c: accesses to memory.  world.c: who runs.  sim.c: seeds.
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SIM_THREADS_MAX 160
#define SIM_PROCESSES_MAX 48
#define SIM_FOREVER UINT64_MAX
/* CLOCK_MONOTONIC at first. */
#define SIM_BEGIN_NS UINT64_C(1000000000000)
/* CLOCK_REALTIME is so much later than CLOCK_MONOTONIC. */
#define SIM_REALTIME_NS 1800000000000000000ull

enum sim_state {
	SIM_FREE, /* no such thread, or no more */
	SIM_RUNNABLE,
	SIM_WAITING,
};

struct sim_thread {
	_Atomic uint32_t go; /* has the baton; a futex */
	uint8_t state;
	bool woken;
	bool wants_io;
	uint8_t process;
	uint32_t weight;
	uint64_t io_seen;
	uint64_t deadline_ns;
	uint64_t paused_until_ns;
	const void *waits_for; /* an address of its process */
	uint64_t pthread;
	const char *where; /* the call that it waits in, for whoever looks at a hang */
};

struct sim_process {
	_Atomic int pid; /* 0: none */
	bool stopped;
	bool is_server;
};

enum sim_verdict { SIM_UNDECIDED, SIM_FINE, SIM_WRONG, SIM_DEADLOCK, SIM_ENDLESS };

struct sim {
	uint64_t seed;
	uint64_t random;
	uint64_t now_ns;
	uint64_t steps, steps_max; /* how often the baton was thought about */
	uint64_t accesses;
	uint64_t hash;             /* of every decision */
	uint64_t io_epoch;         /* somebody changed what others may poll */
	int64_t countdown;         /* accesses until the next decision */
	uint64_t mean;             /* of them */
	uint32_t pause_per_mille;  /* of the decisions: the thread sleeps for a while */
	uint64_t pause_ns_max;
	uint32_t server_pause_per_mille;
	uint64_t reweigh;          /* decisions until the threads' weights change */
	bool is_fair;              /* no more pauses and weights: things are to end */

	/* The walk: at the n-th access of a worker after it was armed, kvd stops. */
	uint64_t walk_left;
	bool walk_server, walk_hit;

	_Atomic uint32_t running;
	_Atomic int verdict;
	char why[1024];
	struct sim_process process[SIM_PROCESSES_MAX];
	struct sim_thread thread[SIM_THREADS_MAX];
};

extern struct sim *sim;
/* Of the calling thread; -1: it is not one of a world, everything is real to it. */
extern _Thread_local int sim_me;

/* ---- sched.c ---- */
void sim_begin(struct sim *s, uint64_t seed, uint64_t steps_max);
uint64_t sim_random(void);
uint64_t sim_roll(uint64_t n);
/* Ends the world: the first to say so is believed. */
void sim_judge(enum sim_verdict verdict, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The caller goes on when it is its turn again; at once, mostly. */
void sim_yield(void);
/* The same, but it wants somebody else's turn: it can't go on without. */
void sim_yield_to_others(void);
/* Waits; false: the deadline came.  `address`, of the process: see sim_wake(). */
bool sim_wait(const char *where, const void *address, bool wants_io, uint64_t deadline_ns);
/* Wakes one, chosen by the generator, or all. */
void sim_wake(const void *address, bool all);
/* What other processes may poll has changed. */
void sim_io(void);
/* Between the two the baton stays, unless the thread has to wait. */
void sim_hold(void);
void sim_release(void);

/* A slot for a new thread of a process, that waits for its turn: sim_arrive(). */
int sim_thread_new(unsigned process);
void sim_arrive(int thread);
/* The calling thread is over: gives the baton away for good. */
void sim_leave(void);
/* The slot is free again. */
bool sim_is_over(int thread);

/* Starts a process, which begins in its own time; by the world's first thread. */
unsigned sim_spawn(bool is_server, void (*run)(void *arg), void *arg);
/* SIGKILL: gone when this returns. */
void sim_kill(unsigned process);
void sim_stop(unsigned process);
void sim_continue(unsigned process);
/* True, and its status as of waitpid(), if it ended. */
bool sim_reap(unsigned process, int *status);
/* Takes the baton from processes that end with it in their hands; a thread of the
 * world's first process, outside of it. */
void sim_start_undertaker(void);

void sim_preempt(void);

/* A thread's instruction stream went on by so much. */
static inline void sim_access(unsigned cost)
{
	if (sim_me < 0)
		return;
	sim->now_ns += cost;
	sim->countdown -= cost;
	if (sim->countdown <= 0 || sim->walk_left)
		sim_preempt();
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cache/hasher.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/spin.h"

#define TRIES_FOR_LOCK 4096u
#define POLLS 64u /* from one look at the clock to the next */

/* The lock is held by who hashes, and by who takes the value away. */
struct hasher {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	_Atomic pid_t pid; /* the thread's process; 0: none was made yet, -1: none can be */
	bool ending;       /* with the lock held */
	_Atomic(struct value_hash *) value; /* whose turn it is */
	/* Bytes of it that have arrived and are not hashed; 0 without a value.  What its owner
	 * adds, with release, the second thread has seen arrive, with acquire. */
	_Atomic uint64_t left;
	_Atomic bool sleeping; /* the second thread; in one order with `left`, both sides */
	struct spin spin;      /* its own */
};

/* The lock is held. */
static uint64_t hash_step(struct hasher *h, struct value_hash *v)
{
	uint64_t bytes = atomic_load_explicit(&h->left, memory_order_acquire);

	if (bytes > HASHER_STEP_BYTES)
		bytes = HASHER_STEP_BYTES;
	if (!bytes)
		return 0;
	pieces_add(v->pieces, v->hashed, bytes, &v->sum);
	v->hashed += bytes;
	atomic_fetch_sub_explicit(&h->left, bytes, memory_order_relaxed);
	return bytes;
}

/* ---------------------------------------------------------- the second thread */

/* The lock is let go of after each step: somebody may wait for it. */
static bool work(struct hasher *h)
{
	uint64_t bytes = 0;

	pthread_mutex_lock(&h->lock);
	struct value_hash *v = atomic_load_explicit(&h->value, memory_order_relaxed);
	if (v) {
		bytes = hash_step(h, v);
		v->aside += bytes;
	}
	pthread_mutex_unlock(&h->lock);
	return bytes;
}

static bool spin_for_work(struct hasher *h)
{
	uint64_t start = clock_ns();

	spin_start(&h->spin, start);
	do {
		for (unsigned i = 0; i < POLLS; i++) {
			if (atomic_load_explicit(&h->left, memory_order_relaxed))
				return true;
			spin_relax();
		}
	} while (spin_again(&h->spin, start, clock_ns()));
	return false;
}

/* False: it is to end. */
static bool sleep_for_work(struct hasher *h)
{
	pthread_mutex_lock(&h->lock);
	for (;;) {
		atomic_store(&h->sleeping, true);
		if (h->ending || atomic_load(&h->left))
			break;
		pthread_cond_wait(&h->wake, &h->lock);
	}
	atomic_store(&h->sleeping, false);
	bool goes_on = !h->ending;
	pthread_mutex_unlock(&h->lock);
	return goes_on;
}

static void *run(void *arg)
{
	struct hasher *h = arg;
	bool goes_on = true;

	spin_init(&h->spin);
	while (goes_on) {
		while (work(h))
			;
		uint64_t start = clock_ns();
		if (!spin_for_work(h))
			goes_on = sleep_for_work(h);
		spin_learn(&h->spin, clock_ns() - start);
	}
	return NULL;
}

/* Where there is one processor it would only be in the way.  More than fit into a set are
 * many. */
static bool has_processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof set, &set) ? errno == EINVAL : CPU_COUNT(&set) > 1;
}

/* The program's signals are not for it. */
static bool start(struct hasher *h)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int rc = pthread_create(&h->thread, NULL, run, h);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!rc)
		pthread_setname_np(h->thread, "kvd-hash");
	return !rc;
}

/* Whether there is a second thread in this process; the first time it is made. */
static bool has_thread(struct hasher *h)
{
	pid_t pid = atomic_load(&h->pid);

	if (!pid) {
		pthread_mutex_lock(&h->lock);
		pid = atomic_load(&h->pid);
		if (!pid) {
			pid = has_processors() && start(h) ? getpid() : -1;
			atomic_store(&h->pid, pid);
		}
		pthread_mutex_unlock(&h->lock);
	}
	return pid == getpid();
}

struct hasher *hasher_new(void)
{
	struct hasher *h = calloc(1, sizeof *h);

	if (!h)
		return NULL;
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->wake, NULL);
	return h;
}

void hasher_delete(struct hasher *h)
{
	if (!h)
		return;
	/* In a forked child there is no thread, and perhaps its lock is held for ever. */
	if (atomic_load(&h->pid) == getpid()) {
		pthread_mutex_lock(&h->lock);
		h->ending = true;
		pthread_cond_signal(&h->wake);
		pthread_mutex_unlock(&h->lock);
		pthread_join(h->thread, NULL);
	}
	free(h);
}

/* ------------------------------------------------------------ a value's owner */

void value_hash_begin(struct value_hash *v, struct hasher *h, const struct pieces *pieces,
		      uint64_t bytes)
{
	struct value_hash *none = NULL;

	v->pieces = pieces;
	v->by = NULL;
	v->hashed = v->aside = 0;
	if (h && bytes >= HASHER_BYTES_MIN && !atomic_load_explicit(&h->value, memory_order_relaxed) &&
	    has_thread(h) && atomic_compare_exchange_strong(&h->value, &none, v))
		v->by = h;
}

/* What the second thread has not got round to; if it is about to, it shall. */
static void catch_up(struct hasher *h, struct value_hash *v)
{
	if (pthread_mutex_trylock(&h->lock))
		return;
	while (atomic_load_explicit(&h->left, memory_order_relaxed) > HASHER_BEHIND_MAX)
		hash_step(h, v);
	pthread_mutex_unlock(&h->lock);
}

static void wake(struct hasher *h)
{
	if (!atomic_load(&h->sleeping) || !atomic_exchange(&h->sleeping, false))
		return;
	pthread_mutex_lock(&h->lock);
	pthread_cond_signal(&h->wake);
	pthread_mutex_unlock(&h->lock);
}

void value_hash_add(struct value_hash *v, uint64_t bytes)
{
	struct hasher *h = v->by;

	if (!h) {
		pieces_add(v->pieces, v->hashed, bytes, &v->sum);
		v->hashed += bytes;
		return;
	}
	uint64_t left = atomic_fetch_add(&h->left, bytes) + bytes;
	wake(h);
	if (left > HASHER_BEHIND_MAX)
		catch_up(h, v);
}

/* The other thread holds it for a step. */
static void take_lock(struct hasher *h)
{
	for (unsigned i = 0; i < TRIES_FOR_LOCK; i++) {
		if (!pthread_mutex_trylock(&h->lock))
			return;
		spin_relax();
	}
	pthread_mutex_lock(&h->lock);
}

/* The lock is held. */
static void let_go(struct hasher *h, struct value_hash *v)
{
	v->by = NULL;
	atomic_store(&h->left, 0);
	atomic_store(&h->value, NULL);
	pthread_mutex_unlock(&h->lock);
}

void value_hash_end(struct value_hash *v)
{
	struct hasher *h = v->by;

	if (!h)
		return;
	take_lock(h);
	while (hash_step(h, v))
		;
	let_go(h, v);
}

void value_hash_drop(struct value_hash *v)
{
	struct hasher *h = v->by;

	if (!h)
		return;
	if (atomic_load(&h->pid) != getpid()) { /* forked: see hasher_delete() */
		v->by = NULL;
		return;
	}
	take_lock(h);
	let_go(h, v);
}

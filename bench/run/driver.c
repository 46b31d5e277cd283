/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A run: every worker connects; all meet; the warm-up; all meet, and the server's
 * figures are taken; all meet, and the measurement begins.  The main thread then
 * ticks once a second until the last worker is through.  A failure anywhere lets
 * everybody go through the remaining meetings with nothing to do.
 */
#include "bench/run/driver.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench/measure/stopwatch.h"
#include "bench/run/meeting.h"
#include "bench/run/worker.h"
#include "bench/store/noop.h"

#define TICK_NS 1000000000u

struct driver {
	const struct driver_config *config;
	struct worker_shared shared;
	struct worker *workers;
	struct thread {
		pthread_t id;
		struct driver *driver;
		struct worker *worker;
	} *threads;
	unsigned started;
	bool ready; /* what follows is there */
	struct meeting meeting;
	int through;  /* an eventfd(2): how many workers have done their share */
	uint64_t end; /* of the operations' indexes */

	struct store_session *session; /* for the server's figures */
	struct store_stats before;
	double cpu_before;

	struct histogram total[OP_KINDS], last[OP_KINDS], interval[OP_KINDS];
	double tick_seconds;
};

static double cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* ------------------------------------------------------------------- threads */

static void measure(struct driver *d, struct worker *w)
{
	const struct store_ops *ops = d->config->store->ops;
	struct kvd_counters before, *c = &w->counters;

	ops->counters(w->session, &before);
	worker_run(w, d->end, true);
	ops->counters(w->session, c);
	c->gets -= before.gets;
	c->changes -= before.changes;
	c->reads -= before.reads;
	c->read_bytes -= before.read_bytes;
	c->atomics -= before.atomics;
	c->messages -= before.messages;
	c->message_bytes -= before.message_bytes;
	c->retries -= before.retries;
	c->mirror_hits -= before.mirror_hits;
	c->fallbacks -= before.fallbacks;
	c->reconnects -= before.reconnects;
}

static void *thread_main(void *arg)
{
	struct thread *t = arg;
	struct driver *d = t->driver;
	struct worker *w = t->worker;

	if (worker_init(w, &d->shared, (unsigned)(w - d->workers)) < 0) {
		w->failed = true;
		atomic_store(&d->shared.stop, true);
	}
	meeting_wait(&d->meeting); /* all are connected */
	if (!w->failed && !atomic_load(&d->shared.stop))
		worker_run(w, d->config->warmup, false);
	meeting_wait(&d->meeting); /* all are warm */
	meeting_wait(&d->meeting); /* the measurement begins */
	if (!w->failed && !atomic_load(&d->shared.stop))
		measure(d, w);
	eventfd_write(d->through, 1);
	return NULL;
}

/* Workers get no signals: the main thread takes them. */
static int start_threads(struct driver *d, struct err *err)
{
	sigset_t all, before;
	int rc = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (; d->started < d->config->threads && rc == 0; d->started += rc == 0) {
		struct thread *t = &d->threads[d->started];
		t->driver = d;
		t->worker = &d->workers[d->started];
		rc = pthread_create(&t->id, NULL, thread_main, t);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0)
		return 0;
	atomic_store(&d->shared.stop, true);
	meeting_expect(&d->meeting, d->started + 1);
	return err_set_errno(err, -1, rc, "cannot start %u threads", d->config->threads);
}

static void join_threads(struct driver *d)
{
	for (unsigned i = 0; i < d->started; i++)
		pthread_join(d->threads[i].id, NULL);
	d->started = 0;
}

/* ---------------------------------------------------------------------- ticks */

static double planned_share(const struct driver *d, uint64_t operations, double seconds)
{
	const struct driver_config *c = d->config;
	double by_time = c->seconds > 0 ? seconds / c->seconds : 0;
	double by_count = 0, done;

	if (d->end != UINT64_MAX)
		by_count = (double)operations / (double)(d->end - c->warmup);
	done = by_time > by_count ? by_time : by_count;
	return done < 1 ? done : 1;
}

/* What was counted since the last tick. */
static void gather(struct driver *d, struct driver_tick *tick)
{
	for (int kind = 0; kind < OP_KINDS; kind++) {
		histogram_clear(&d->total[kind]);
		for (unsigned i = 0; i < d->config->threads; i++)
			histogram_merge(&d->total[kind], &d->workers[i].op[kind].latency);
		histogram_difference(&d->interval[kind], &d->total[kind], &d->last[kind]);
		d->last[kind] = d->total[kind];
		tick->interval[kind] = &d->interval[kind];
		tick->operations += d->total[kind].count;
	}
	for (unsigned i = 0; i < d->config->threads; i++)
		tick->errors += __atomic_load_n(&d->workers[i].errors, __ATOMIC_RELAXED);
}

static void tick(struct driver *d, bool last)
{
	struct driver_tick t = { .from_seconds = d->tick_seconds, .last = last };

	if (d->config->tick == NULL)
		return;
	t.to_seconds = (double)(stopwatch_ns() - d->shared.start_ns) / 1e9;
	gather(d, &t);
	t.operations += t.errors;
	t.done = planned_share(d, t.operations, t.to_seconds);
	d->tick_seconds = t.to_seconds;
	d->config->tick(d->config->arg, &t);
}

/* Until all workers are through. */
static void watch(struct driver *d)
{
	uint64_t next_ns = d->shared.start_ns + TICK_NS;
	eventfd_t through = 0, more;

	while (through < d->started) {
		struct pollfd fd = { .fd = d->through, .events = POLLIN };
		uint64_t now_ns = clock_ns(), left_ns = next_ns > now_ns ? next_ns - now_ns : 0;
		struct timespec left = { (time_t)(left_ns / TICK_NS), (long)(left_ns % TICK_NS) };
		int ready = ppoll(&fd, 1, &left, NULL);
		if (ready > 0 && eventfd_read(d->through, &more) == 0) {
			through += more;
		} else if (ready == 0) {
			tick(d, false);
			next_ns += TICK_NS;
		}
		if (d->config->interrupted != NULL && *d->config->interrupted)
			atomic_store(&d->shared.stop, true);
	}
}

/* ------------------------------------------------------------------ the result */

static void add_counters(struct kvd_counters *to, const struct kvd_counters *from)
{
	to->gets += from->gets;
	to->changes += from->changes;
	to->reads += from->reads;
	to->read_bytes += from->read_bytes;
	to->atomics += from->atomics;
	to->messages += from->messages;
	to->message_bytes += from->message_bytes;
	to->retries += from->retries;
	to->mirror_hits += from->mirror_hits;
	to->fallbacks += from->fallbacks;
	to->reconnects += from->reconnects;
}

static void add_operations(struct op_result *to, const struct op_result *from, bool paced)
{
	histogram_merge(&to->latency, &from->latency);
	histogram_merge(&to->service, paced ? &from->service : &from->latency);
	to->ok += from->ok;
	to->not_found += from->not_found;
	to->errors += from->errors;
}

static void add_worker(const struct driver *d, struct result *r, const struct worker *w)
{
	double seconds;

	for (int kind = 0; kind < OP_KINDS; kind++)
		add_operations(&r->op[kind], &w->op[kind], d->config->target > 0);
	for (int kind = 0; kind < PAIR_KINDS; kind++) {
		histogram_merge(&r->pair[kind].store, &w->pair[kind].store);
		histogram_merge(&r->pair[kind].raw, &w->pair[kind].raw);
	}
	r->verify.ok += w->verify.ok;
	r->verify.wrong += w->verify.wrong;
	r->verify.missing += w->verify.missing;
	r->busy += w->busy;
	seconds = (double)(w->end_ns - d->shared.start_ns) / 1e9;
	if (w->end_ns > d->shared.start_ns && seconds > r->seconds)
		r->seconds = seconds;
	add_counters(&r->counters, &w->counters);
	if (r->err.text[0] == '\0')
		r->err = w->err;
	/* Also in the warm-up, where nothing else counts them. */
	if (w->failed || w->errors > 0)
		r->failed = true;
}

/* What the run made of a figure that only grows; -1 where it isn't told. */
static double growth(double after, double before)
{
	return after < 0 || before < 0 ? -1 : after - before;
}

static void read_server(struct driver *d, struct result *r)
{
	if (d->session->ops->stats(d->session, &r->server) < 0)
		r->server = (struct store_stats){ -1, -1, -1, -1 };
	r->server.cpu_seconds = growth(r->server.cpu_seconds, d->before.cpu_seconds);
	r->server.gets_served = growth(r->server.gets_served, d->before.gets_served);
}

static void collect(struct driver *d, struct result *r)
{
	r->client_cpu_seconds = cpu_seconds() - d->cpu_before;
	for (int kind = 0; kind < OP_KINDS; kind++) {
		histogram_clear(&r->op[kind].latency);
		histogram_clear(&r->op[kind].service);
	}
	for (int kind = 0; kind < PAIR_KINDS; kind++) {
		histogram_clear(&r->pair[kind].store);
		histogram_clear(&r->pair[kind].raw);
	}
	for (unsigned i = 0; i < d->config->threads; i++)
		add_worker(d, r, &d->workers[i]);
	for (int kind = 0; kind < OP_KINDS; kind++)
		r->operations += op_result_count(&r->op[kind]);
	if (r->verify.wrong > 0 || r->verify.missing > 0)
		r->failed = true;
	r->interrupted = d->config->interrupted != NULL && *d->config->interrupted;
	read_server(d, r);
}

/* -------------------------------------------------------------------- the run */

static int driver_init(struct driver *d, const struct driver_config *c, struct err *err)
{
	d->config = c;
	d->shared.config = c;
	d->shared.deadline_ns = UINT64_MAX;
	d->end = c->operations > 0 ? c->warmup + c->operations : UINT64_MAX;
	d->workers = calloc(c->threads, sizeof *d->workers);
	d->threads = calloc(c->threads, sizeof *d->threads);
	if (d->workers == NULL || d->threads == NULL)
		return err_set(err, -1, "out of memory for %u threads", c->threads);
	for (int kind = 0; kind < OP_KINDS; kind++)
		histogram_clear(&d->last[kind]);
	d->through = eventfd(0, EFD_CLOEXEC);
	if (d->through < 0)
		return err_set_errno(err, -1, errno, "eventfd");
	meeting_init(&d->meeting, c->threads + 1);
	d->ready = true;
	return 0;
}

static void driver_clear(struct driver *d)
{
	if (d->session != NULL)
		d->session->ops->session_delete(d->session);
	for (unsigned i = 0; d->workers != NULL && i < d->config->threads; i++)
		worker_clear(&d->workers[i]);
	if (d->ready) {
		meeting_clear(&d->meeting);
		close(d->through);
	}
	free(d->workers);
	free(d->threads);
}

static int first_failure(const struct driver *d, struct err *err)
{
	for (unsigned i = 0; i < d->config->threads; i++) {
		if (d->workers[i].failed && d->workers[i].session == NULL) {
			*err = d->workers[i].err;
			return -1;
		}
	}
	return 0;
}

static void begin_measurement(struct driver *d)
{
	const struct driver_config *c = d->config;

	if (d->session->ops->stats(d->session, &d->before) < 0)
		d->before = (struct store_stats){ -1, -1, -1, -1 };
	d->cpu_before = cpu_seconds();
	d->shared.start_ns = stopwatch_ns();
	if (c->seconds > 0)
		d->shared.deadline_ns = d->shared.start_ns + (uint64_t)(c->seconds * 1e9);
}

static int run_threads(struct driver *d, struct result *result, struct err *err)
{
	int rc = start_threads(d, err);

	meeting_wait(&d->meeting);
	meeting_wait(&d->meeting);
	if (rc == 0)
		rc = first_failure(d, err);
	begin_measurement(d);
	meeting_wait(&d->meeting);
	watch(d);
	join_threads(d);
	if (rc < 0)
		return rc;
	collect(d, result);
	tick(d, true);
	return 0;
}

int driver_run(const struct driver_config *config, struct result *result, struct err *err)
{
	struct driver *d = calloc(1, sizeof *d);
	int rc = -1;

	memset(result, 0, sizeof *result);
	if (d == NULL)
		return err_set(err, -1, "out of memory");
	if (driver_init(d, config, err) < 0)
		goto out;
	if (config->store->ops->session_new(config->store, &d->session, err) < 0)
		goto out;
	rc = run_threads(d, result, err);
out:
	driver_clear(d);
	free(d);
	return rc;
}

/* ------------------------------------------------------------------- own cost */

#define COST_ROUNDS 5
#define COST_WARMUP 2000u
#define COST_OPERATIONS 20000u

/* One measurement; negative if there is no memory. */
static double cost_round(const struct workload *workload, unsigned depth, struct result *result)
{
	struct workload copy = *workload; /* with records of its own to insert */
	struct store_config store_config = { .depth = (int)depth };
	struct driver_config config = {
		.workload = &copy, .threads = 1, .depth = depth,
		.warmup = COST_WARMUP, .operations = COST_OPERATIONS,
	};
	double ns = -1;
	struct err err;

	copy.inserts = sequence_new(workload->record_count);
	if (copy.inserts != NULL && store_noop_open(&store_config, &config.store, &err) == 0 &&
	    driver_run(&config, result, &err) == 0)
		ns = result->seconds * 1e9 / COST_OPERATIONS;
	store_delete(&config.store);
	sequence_delete(&copy.inserts);
	return ns;
}

/* The least of some rounds: what other programs do in between is no cost of ours. */
double driver_cost(const struct workload *workload, unsigned depth)
{
	struct result *result = malloc(sizeof *result);
	double least = -1;

	for (int i = 0; i < COST_ROUNDS && result != NULL; i++) {
		double ns = cost_round(workload, depth, result);
		if (ns > 0 && (least < 0 || ns < least))
			least = ns;
	}
	free(result);
	return least;
}

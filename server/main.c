/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kvd: starts everything in order, serves until a signal, and takes it apart in
 * the reverse order.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/doctor.h"
#include "common/log.h"
#include "common/opt.h"
#include "server/event.h"
#include "server/http.h"
#include "server/init.h"
#include "server/notify.h"
#include "server/options.h"
#include "server/server.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

static int take_signals(struct server *s, struct err *err)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (pthread_sigmask(SIG_BLOCK, &set, NULL))
		return err_set(err, -1, "can't block signals");
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signal_fd < 0 ? err_set_errno(err, -1, errno, "signalfd") : 0;
}

/* A connection takes a few descriptors on some devices: as many as may be had. */
static void raise_descriptors(void)
{
	struct rlimit lim;

	if (!getrlimit(RLIMIT_NOFILE, &lim) && lim.rlim_cur < lim.rlim_max) {
		lim.rlim_cur = lim.rlim_max;
		setrlimit(RLIMIT_NOFILE, &lim);
	}
}

/* Half the CPUs that it may use, so that clients on this machine have some. */
static unsigned default_workers(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return cpus < 4 ? 1 : cpus > 8 ? 4 : (unsigned)cpus / 2;
}

static int open_device(struct server *s, struct err *err)
{
	if (addr_parse(&s->addr, s->options.listen, err) ||
	    device_choose(&s->device, s->options.device, &s->addr, err))
		return -1;
	s->verbs = s->device.verbs;
	if (listen_start(s, err) || link_query(s->verbs, s->ctx, 1, &s->limits, err))
		return -1;
	if (!s->limits.atomics)
		log_warn("%s has no atomics: no locks", s->ctx->device->name);
	if (gate_new(s, &s->gate, err))
		return -1;
	s->pd = s->verbs->alloc_pd(s->ctx);
	if (!s->pd)
		return err_set_errno(err, -1, errno, "can't allocate a protection domain");
	return 0;
}

static void wake_workers(void *arg)
{
	struct server *s = arg;

	for (unsigned i = 0; i < s->worker_count; i++)
		worker_wake(&s->workers[i]);
}

static int make_store(struct server *s, struct err *err)
{
	s->worker_count = s->options.workers ? (unsigned)s->options.workers : default_workers();
	if (table_new(s->verbs, s->options.memory_bytes, s->worker_count, &s->table, err))
		return -1;
	affinity_bind_memory(s);
	if (table_register(s->table, s->pd, err) || store_new(s->table, &s->store, err))
		return -1;
	if (s->options.durable.dir && durable_open(&s->options.durable, &s->durable, err))
		return -1;
	s->store->wake = wake_workers;
	s->store->wake_arg = s;
	s->fates = fates_new();
	s->news = news_new();
	s->workers = calloc(s->worker_count, sizeof *s->workers);
	if (!s->workers || !s->fates || !s->news)
		return err_set(err, -1, "out of memory");
	for (unsigned i = 0; i < s->worker_count; i++)
		if (worker_new(s, &s->workers[i], i, err))
			return -1;
	return s->limits.atomics ? locker_new(s, &s->locker, err) : 0;
}

/* A signal to end: they are blocked, and read by listen_run() only. */
static bool is_to_stop(void *arg)
{
	sigset_t pending;

	(void)arg;
	return !sigpending(&pending) &&
	       (sigismember(&pending, SIGTERM) || sigismember(&pending, SIGINT));
}

/* The table as it was, from the disk. */
static int load(struct server *s, struct err *err)
{
	struct store_worker *workers[LAYOUT_WORKERS_MAX];

	if (!s->durable)
		return 0;
	for (unsigned i = 0; i < s->worker_count; i++)
		workers[i] = &s->workers[i].store;
	if (durable_load(s->durable, s->store, workers, s->worker_count, is_to_stop, s, err) ||
	    durable_start(s->durable, s->store, err))
		return -1;
	s->store->durable = s->durable;
	return 0;
}

static int start(struct server *s, struct err *err)
{
	for (unsigned i = 0; i < s->worker_count; i++)
		if (worker_start(&s->workers[i], err))
			return -1;
	if (s->verbs->listen(s->listener, 128)) {
		if (errno == EADDRINUSE)
			return err_set(err, -1, "%s is in use: another kvd serves it; use another port, "
				       "or port 0 for any", s->addr.text);
		return err_set_errno(err, -1, errno, "can't listen on %s", s->addr.text);
	}
	if (s->options.metrics)
		return http_new(s, s->options.metrics, &s->http, err);
	return 0;
}

/* Whole or not at all: written beside, then renamed. */
static int write_ready_file(const struct server *s, struct err *err)
{
	const char *path = s->options.ready_file;
	char tmp[4096];

	if (!path)
		return 0;
	if (snprintf(tmp, sizeof tmp, "%s.tmp", path) >= (int)sizeof tmp)
		return err_set(err, -1, "--ready-file: the path is too long");
	FILE *f = fopen(tmp, "we");
	if (!f)
		return err_set_errno(err, -1, errno, "can't write the ready file %s", path);
	bool ok = fprintf(f, "%s\n", s->addr.text) > 0;
	ok &= fclose(f) == 0;
	if (!ok || rename(tmp, path))
		return err_set_errno(err, -1, errno, "can't write the ready file %s", path);
	return 0;
}

static void say_ready(const struct server *s)
{
	char size[32];

	log_info("%s", s->device.line);
	if (s->options.insecure)
		log_warn("%s", gate_line(s->gate));
	else
		log_info("%s", gate_line(s->gate));
	if (!s->durable)
		log_info("not durable: what is stored is gone when kvd ends (see --data-dir)");
	else if (s->options.durable.durability == DURABILITY_SYNC)
		log_info("durable in %s: a change is on disk before it is answered or readable",
			 s->options.durable.dir);
	else
		log_info("durable in %s: if this machine dies, changes of the last %d ms and of one sync "
			 "may be lost; if kvd dies, none", s->options.durable.dir,
			 s->options.durable.lag_ms);
	log_info("serving %s: %s of memory, %u worker%s, %llu lock stripes", s->addr.text,
		 opt_format_size(s->options.memory_bytes, size, sizeof size), s->worker_count,
		 s->worker_count == 1 ? "" : "s", (unsigned long long)s->table->stripes);
}

/* A heap's cache has memory of the others: it goes back before the first heap ends. */
static void delete_workers(struct server *s)
{
	for (unsigned i = 0; i < s->worker_count; i++)
		if (s->workers[i].store.heap)
			heap_trim(s->workers[i].store.heap);
	for (unsigned i = 0; i < s->worker_count; i++)
		worker_delete(&s->workers[i]);
}

static void take_apart(struct server *s)
{
	durable_close(&s->durable);
	if (s->workers)
		delete_workers(s);
	free(s->workers);
	fates_delete(&s->fates);
	news_delete(&s->news);
	store_delete(&s->store);
	table_delete(&s->table);
	if (s->pd)
		s->verbs->dealloc_pd(s->pd);
	gate_delete(&s->gate);
	if (s->done_fd > 0)
		close(s->done_fd);
	close(s->signal_fd);
}

int main(int argc, char **argv)
{
	static struct server server;
	struct server *s = &server;
	struct err err;
	int status;

	log_open("kvd", LOG_LEVEL_INFO);
	if (argc > 1 && !strcmp(argv[1], "init"))
		return init_run(argc - 1, argv + 1);
	if (options_parse(&s->options, argc, argv, &status))
		return status;
	if (s->options.check)
		return doctor_examine(stdout, s->options.memory_bytes) ? 1 : 0;
	log_set_level((enum log_level)s->options.log_level);
	if (log_direct((enum log_to)s->options.log_to, &err)) {
		log_error("%s", err.text);
		return 1;
	}
	s->start_ns = clock_ns();
	s->timed = s->options.metrics || s->options.slow_ms;
	raise_descriptors();
	if (getrandom(&s->instance, sizeof s->instance, 0) != sizeof s->instance)
		s->instance = s->start_ns;
	pthread_mutex_init(&s->done_lock, NULL);
	pthread_mutex_init(&s->conns_lock, NULL);
	if (take_signals(s, &err) || open_device(s, &err) || make_store(s, &err) ||
	    load(s, &err) || start(s, &err) || write_ready_file(s, &err)) {
		log_error("%s", err.text);
		if (s->store && !s->store->durable) /* or workers run that use it */
			durable_close(&s->durable);
		return 1;
	}
	say_ready(s);
	notify_manager("READY=1\nSTATUS=Serving %s\nMAINPID=%d\n", s->addr.text, (int)getpid());
	status = listen_run(s) ? EVENT_STATUS : 0;
	http_delete(&s->http);
	listen_stop(s);
	if (s->options.ready_file)
		unlink(s->options.ready_file);
	take_apart(s);
	log_info("stopped");
	return status;
}

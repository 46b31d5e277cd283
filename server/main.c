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
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/addr.h"
#include "common/beside.h"
#include "common/clock.h"
#include "common/rdma/doctor.h"
#include "common/log.h"
#include "common/log_limit.h"
#include "common/opt.h"
#include "server/host/device_event.h"
#include "server/metrics/http.h"
#include "server/clustered.h"
#include "server/init.h"
#include "server/host/listener.h"
#include "server/platform/sd_notify.h"
#include "server/options.h"
#include "server/platform/privileges.h"
#include "server/platform/hugepages.h"
#include "server/access/gate.h"
#include "server/access/rate_limit.h"
#include "server/host/host.h"
#include "server/host/loop.h"
#include "server/host/rails.h"
#include "server/host/server.h"
#include "server/metrics/stats.h"
#include "server/table/table.h"
#include "server/worker/context.h"
#include "server/host/device_events.h"

#include "config.h"

static int take_signals(struct host *h, struct err *err)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (pthread_sigmask(SIG_BLOCK, &set, NULL))
		return err_set(err, -1, "can't block signals");
	h->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return h->signal_fd < 0 ? err_set_errno(err, -1, errno, "signalfd") : 0;
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

/* kvd on the software device is for this machine only, whatever its address. */
static int check_reach(const struct server *s, struct err *err)
{
	if (!s->verbs->soft || addr_is_loopback(&s->addr) || s->options->device)
		return 0;
	return err_set(err, -1, "--listen %s: this machine has no RDMA device, so that no other machine "
		       "could reach kvd there; the software device serves this machine alone: leave "
		       "--listen out, or say --device soft", s->options->listen);
}

/* Who has another way to go to is to know soon that one is cut: in a quarter of a second, where the
 * user says nothing else.  Less is too little for a machine whose processors are slow or busy. */
static void tune(const struct host *h, struct device_tuning *t)
{
	if (h->listener_count > 1 && t->ack_timeout == DEVICE_UNSET)
		t->ack_timeout = 13;
}

static int open_device(struct host *h, struct err *err)
{
	struct server *s = h->servers;
	char buf[192];
	const char *spec = device_spec(s->options->device, s->options->bootstrap, buf, sizeof buf);

	if (listeners_parse(h, s->options->listen, err) ||
	    device_choose(&s->device, spec, &s->addr, err))
		return -1;
	s->verbs = s->device.verbs;
	tune(h, &s->device.tuning);
	if (check_reach(s, err))
		return -1;
	return listen_start(h, err) || rails_query(h, err) ? -1 : 0;
}

/* Where some have to prove who they are and some have not, it is too easy to be wrong
 * about which are which. */
static int check_users(const struct host *h, struct err *err)
{
	const struct server *first = h->servers;

	for (unsigned i = 1; i < h->server_count; i++)
		if (!h->servers[i].options->users != !first->options->users)
			return err_set(err, -1, first->options->users
				? "--namespace %s: it has no users, and the table without a name has: give it "
				  "users=FILE (see kvd init)"
				: "--namespace %s: it has users, and the table without a name has none: give "
				  "that one --users FILE (see kvd init)", h->servers[i].name);
	return 0;
}

/* All namespaces, with nobody served yet. */
static int make_servers(struct host *h, struct err *err)
{
	struct server *first = h->servers;

	for (unsigned i = 0; i < first->options->namespace_count; i++, h->server_count++)
		server_name(&h->servers[h->server_count], first, &h->options[h->server_count],
			    &first->options->namespaces[i]);
	if (check_users(h, err) || clustered_prepare(first, err) || server_new(first, err))
		return -1;
	h->knock = knock_new(first->options->handshakes);
	if (!h->knock)
		return err_set(err, -1, "out of memory");
	for (unsigned i = 1; i < h->server_count; i++)
		if (server_new(&h->servers[i], err))
			return -1;
	for (unsigned i = 0; i < h->server_count; i++)
		h->servers[i].knock = h->knock;
	for (unsigned i = 0; i < h->server_count; i++)
		if (server_load(&h->servers[i], err))
			return -1;
	return clustered_new(first, err);
}

static int start(struct host *h, struct err *err)
{
	const struct server *s = h->servers;

	for (unsigned i = 0; i < h->server_count; i++)
		if (server_start(&h->servers[i], err))
			return -1;
	if (watch_new(h, &h->watch, err))
		return -1;
	if (listeners_listen(h, err) || clustered_start(h->servers, err))
		return -1;
	if (s->options->metrics)
		return http_new(h, s->options->metrics, &h->http, err);
	return 0;
}

/* Whole or not at all: written beside, then renamed. */
static int write_ready_file(const struct host *h, struct err *err)
{
	const char *path = h->servers->options->ready_file;
	char tmp[4096];

	if (!path)
		return 0;
	int fd = beside_create(AT_FDCWD, path, 0666, tmp, sizeof tmp);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f)
		return err_set_errno(err, -1, errno, "can't write the ready file %s", path);
	bool ok = true;
	for (unsigned i = 0; i < h->listener_count; i++)
		ok &= fprintf(f, "%s\n", h->listeners[i].addr.text) > 0;
	ok &= fclose(f) == 0;
	if (ok && !rename(tmp, path))
		return 0;
	err_set_errno(err, -1, errno, "can't write the ready file %s", path);
	unlink(tmp);
	return -1;
}

static void say_who(const struct server *s)
{
	if (s->options->insecure)
		log_warn("%s", gate_line(s->gate));
	else
		log_info("%s", gate_line(s->gate));
}

static void say_ready(const struct host *h)
{
	const struct server *s = h->servers;
	char size[32], addresses[LISTENERS_MAX * (ADDR_TEXT_BYTES + 2)];
	char devices[RAILS_MAX * 66];

	log_info("%s", s->device.line);
	if (s->rail_count > 1)
		log_info("%u devices (%s): locks are words of the first one, for which clients of the "
			 "others ask kvd", s->rail_count, rails_text(s, devices, sizeof devices));
	if (s->verbs->soft && !addr_is_loopback(&s->addr))
		log_warn("the software device serves this machine alone: no other one reaches %s",
			 s->addr.text);
	say_who(s);
	if (!s->durable)
		log_info("not durable: what is stored is gone when kvd ends (see --data-dir)");
	else if (s->options->durable.durability == DURABILITY_SYNC)
		log_info("durable in %s: a change is on disk before it is answered or readable",
			 s->options->durable.dir);
	else
		log_info("durable in %s: if this machine dies, changes of the last %d ms and of one sync "
			 "may be lost; if kvd dies, none", s->options->durable.dir,
			 s->options->durable.lag_ms);
	if (!s->verbs->soft) /* whose memory is shared, and populated as it is used */
		hugepages_tell(s->table->base, s->table->bytes);
	for (unsigned i = 1; i < h->server_count; i++) {
		const struct server *n = &h->servers[i];
		log_info("namespace %s: %s of memory, %u worker%s, %llu lock stripes; %s", n->name,
			 opt_format_size(n->options->memory_bytes, size, sizeof size), n->worker_count,
			 n->worker_count == 1 ? "" : "s", (unsigned long long)n->table->stripes,
			 gate_line(n->gate));
	}
	if (s->options->evict)
		log_info("a cache: when memory is full, the keys used least are removed");
	log_info("serving %s: %s of memory, %u worker%s, %llu lock stripes",
		 listeners_text(h, addresses, sizeof addresses),
		 opt_format_size(s->options->memory_bytes, size, sizeof size), s->worker_count,
		 s->worker_count == 1 ? "" : "s", (unsigned long long)s->table->stripes);
}

static void take_apart(struct host *h)
{
	while (h->server_count)
		server_delete(&h->servers[--h->server_count]);
	knock_delete(&h->knock);
	if (h->done_fd > 0)
		close(h->done_fd);
	close(h->signal_fd);
}

/* Until a signal; the status to exit with. */
static int serve(struct host *h)
{
	const struct server *s = h->servers;

	say_ready(h);
	notify_manager("READY=1\nSTATUS=Serving %s\nMAINPID=%d\n", s->addr.text, (int)getpid());
	int status = listen_run(h) ? EVENT_STATUS : 0;
	http_delete(&h->http);
	clustered_stop(h->servers);
	listen_stop(h);
	clustered_delete(h->servers);
	watch_delete(&h->watch);
	if (s->options->ready_file)
		unlink(s->options->ready_file);
	take_apart(h);
	log_limit_tell(clock_ns(), true);
	log_info("stopped");
	return status;
}

int main(int argc, char **argv)
{
	static struct server servers[1 + NAMESPACES_MAX];
	static struct host host = { .servers = servers, .server_count = 1,
				    .read_options = options_again };
	struct server *s = servers;
	struct err err;
	int status;

	s->options = host.options;
	log_open("kvd", LOG_LEVEL_INFO);
	if (argc > 1 && !strcmp(argv[1], "init"))
		return init_run(argc - 1, argv + 1);
	if (options_parse(s->options, argc, argv, &status))
		return status;
	if (s->options->check)
		return doctor_examine(stdout, options_memory_bytes(s->options)) ? 1 : 0;
	log_set_level((enum log_level)s->options->log_level);
	raise_descriptors();
	privileges_seal();
	if ((s->options->user && privileges_shed(s->options->user, &err)) ||
	    log_direct((enum log_to)s->options->log_to, &err)) {
		log_error("%s", err.text);
		return 1;
	}
	s->host = &host;
	s->start_ns = clock_ns();
	s->hooks.stats = stats_json;
	pthread_mutex_init(&host.done_lock, NULL);
	if (take_signals(&host, &err) || open_device(&host, &err) || make_servers(&host, &err) ||
	    start(&host, &err) || write_ready_file(&host, &err)) {
		log_error("%s", err.text);
		for (unsigned i = 0; i < host.server_count; i++)
			server_abandon(&servers[i]);
		return 1;
	}
	return serve(&host);
}

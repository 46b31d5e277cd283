/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kvfront: starts everything in order, serves until a signal, and takes it apart in the
 * reverse order.
 */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client/kvd.h"
#include "common/addr.h"
#include "common/beside.h"
#include "common/log.h"
#include "front/conn/auth.h"
#include "front/listener.h"
#include "front/loop.h"
#include "front/metrics.h"
#include "front/options.h"
#include "front/stats.h"

#define SIGNALS 2u
#define DEPTH 128 /* requests in flight of one session */

struct program {
	struct options options;
	struct front front;
	struct loop *loops[OPTIONS_THREADS_MAX];
	kvd_client *client;
	struct event_base *base;
	struct event *signals[SIGNALS];
	struct listeners *listeners;
	struct metrics *metrics;
};

/* A connection takes a descriptor. */
static void raise_descriptors(void)
{
	struct rlimit lim;

	if (!getrlimit(RLIMIT_NOFILE, &lim) && lim.rlim_cur < lim.rlim_max) {
		lim.rlim_cur = lim.rlim_max;
		setrlimit(RLIMIT_NOFILE, &lim);
	}
}

static int become_user(const char *name, struct err *err)
{
	const struct passwd *pw = name && !geteuid() ? getpwnam(name) : NULL;

	if (!name || geteuid())
		return 0;
	if (!pw)
		return err_set(err, -1, "--user: there is no user %.100s", name);
	if (initgroups(pw->pw_name, pw->pw_gid) ||
	    setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) ||
	    setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid))
		return err_set_errno(err, -1, errno, "--user: can't become %.100s", name);
	return 0;
}

/* --------------------------------------------------------------------- kvd */

/* Connects once, to say what can only be a mistake.  A kvd that is not there may come. */
static int try_kvd(struct program *p, struct err *err)
{
	kvd_session *session = NULL;
	int rc = kvd_session_new(p->client, &session);

	kvd_session_delete(&session);
	if (rc == KVD_ECONNECT || rc == KVD_ETIMEDOUT || rc == KVD_EBUSY) {
		log_warn("no kvd yet: %s", kvd_client_error(p->client));
		return 0;
	}
	return rc ? err_set(err, -1, "%s", kvd_client_error(p->client)) : 0;
}

static int open_client(struct program *p, struct err *err)
{
	const struct options *o = &p->options;
	const struct kvd_options k = {
		.size = sizeof k,
		.device = o->device,
		.timeout_ms = (int)(o->timeout_s * 1000),
		.depth = DEPTH,
		.mirror_bytes = o->mirror_bytes ? o->mirror_bytes : SIZE_MAX,
		.credentials = o->credentials,
		.namespace_name = o->namespace_name,
	};
	const char *server = o->server ? o->server : addr_server_default();

	if (kvd_client_new(server, &k, &p->client))
		return err_set(err, -1, "%s",
			       p->client ? kvd_client_error(p->client) : "out of memory");
	log_info("kvd at %s; %s", server, kvd_client_device(p->client));
	return try_kvd(p, err);
}

/* -------------------------------------------------------------------- start */

static void on_shutdown(void)
{
	kill(getpid(), SIGINT);
}

static void on_signal(evutil_socket_t signal, short what, void *arg)
{
	(void)signal;
	(void)what;
	event_base_loopbreak(arg);
}

static int take_signals(struct program *p, struct err *err)
{
	static const int all[SIGNALS] = { SIGTERM, SIGINT };

	signal(SIGPIPE, SIG_IGN);
	p->base = event_base_new();
	if (!p->base)
		return err_set(err, -1, "can't make an event loop");
	for (unsigned i = 0; i < SIGNALS; i++) {
		p->signals[i] = evsignal_new(p->base, all[i], on_signal, p->base);
		if (!p->signals[i] || event_add(p->signals[i], NULL))
			return err_set(err, -1, "can't take signals");
	}
	return 0;
}

static void set_front(struct program *p)
{
	const struct options *o = &p->options;
	struct front *f = &p->front;

	f->rules = (struct command_rules){ o->may_shut_down, o->may_flush };
	f->item_bytes_max = o->item_bytes_max;
	f->timeout_ns = (uint64_t)(o->timeout_s * 1e9);
	f->idle_ns = (uint64_t)(o->idle_s * 1e9);
	f->stall_ns = (uint64_t)(o->stall_s * 1e9);
	f->budget.max = o->buffer_bytes;
	f->loops = p->loops;
	f->on_shutdown = on_shutdown;
	f->stats = stats_text;
}

static int start_loops(struct program *p, struct err *err)
{
	for (int i = 0; i < p->options.threads; i++) {
		int rc = loop_new(&p->front, p->client, &p->loops[i], err);
		p->front.loop_count += p->loops[i] != NULL;
		if (rc)
			return rc;
	}
	for (unsigned i = 0; i < p->front.loop_count; i++)
		if (loop_start(p->loops[i], err))
			return -1;
	return 0;
}

/* Whole or not at all: written beside, then renamed. */
static int write_ready_file(const struct program *p, struct err *err)
{
	const char *path = p->options.ready_file;
	char tmp[4096];

	if (!path)
		return 0;
	int fd = beside_create(AT_FDCWD, path, 0666, tmp, sizeof tmp);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	if (f && fputs(listeners_text(p->listeners), f) >= 0 && !fclose(f) && !rename(tmp, path))
		return 0;
	return err_set_errno(err, -1, errno, "can't write the ready file %s", path);
}

static int start(struct program *p, struct err *err)
{
	const struct options *o = &p->options;

	raise_descriptors();
	set_front(p);
	stats_begin(o);
	if ((o->auth_file && auth_load(o->auth_file, &p->front.auth, err)) ||
	    take_signals(p, err) ||
	    listeners_new(o, &p->front, p->base, &p->listeners, err) ||
	    become_user(o->user, err) || open_client(p, err) ||
	    clerk_new(p->client, &p->front.clerk, err) || start_loops(p, err) ||
	    (o->metrics && metrics_new(&p->front, p->base, o->metrics, &p->metrics, err)))
		return -1;
	return write_ready_file(p, err);
}

static void stop(struct program *p)
{
	metrics_delete(&p->metrics);
	listeners_delete(&p->listeners);
	for (unsigned i = 0; i < p->front.loop_count; i++)
		loop_stop(p->loops[i]);
	clerk_delete(&p->front.clerk);
	for (unsigned i = 0; i < p->front.loop_count; i++)
		loop_delete(&p->loops[i]);
	kvd_client_delete(&p->client);
	for (unsigned i = 0; i < SIGNALS; i++)
		if (p->signals[i])
			event_free(p->signals[i]);
	if (p->base)
		event_base_free(p->base);
	auth_delete(&p->front.auth);
	libevent_global_shutdown();
	opt_forget_strings();
}

int main(int argc, char **argv)
{
	static struct program p;
	struct err err;
	int status;

	if (options_parse(&p.options, argc, argv, &status))
		return status;
	log_open("kvfront", (enum log_level)p.options.log_level);
	if (log_direct((enum log_to)p.options.log_to, &err)) {
		log_error("%s", err.text);
		return 1;
	}
	status = start(&p, &err);
	if (status) {
		log_error("%s", err.text);
	} else {
		log_info("serves %s", p.options.socket ? p.options.socket : p.options.listen);
		event_base_dispatch(p.base);
		log_info("ends");
	}
	stop(&p);
	return status ? 1 : 0;
}

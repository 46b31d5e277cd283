/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/loop.h"

#include <event2/event.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "front/conn/conn.h"
#include "front/conn/request.h"

/* Without anything new, before it asks for an event: kvd's answer is often nearer. */
#define SPINS 16u
/* In a row, then the sockets have their turn. */
#define ROUNDS_MAX 64u
#define LOOK_MS 500
/* While something is in flight: that is what notices a kvd that does not answer. */
#define WATCH_MS 20
#define END_NS 1000000000ull

struct runner {
	struct loop loop; /* first */
	kvd_client *client;
	pthread_t thread;
	bool has_thread;
	_Atomic bool stop; /* set by the main thread; the mailbox wakes */
	struct event *mail, *look, *watch, *gets, *changes;
};

static struct runner *runner_of(struct loop *loop)
{
	return (struct runner *)loop;
}

/* ------------------------------------------------------------------ events */

static void on_mail(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;

	(void)fd;
	(void)what;
	loop->now_ns = clock_ns();
	mailbox_open(&loop->box);
}

static void on_link(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	link_readable(arg);
}

static void set(struct loop *loop, enum counter counter, uint64_t value)
{
	atomic_store_explicit(&loop->counters.value[counter], value, memory_order_relaxed);
}

static void count_links(struct loop *loop)
{
	uint64_t reads = 0, doorbells = 0;

	set(loop, COUNTER_kvd_losses, link_losses(loop->gets) + link_losses(loop->changes));
	if (!link_count(loop->gets, &reads, &doorbells) ||
	    !link_count(loop->changes, &reads, &doorbells))
		return;
	set(loop, COUNTER_kvd_reads, reads);
	set(loop, COUNTER_kvd_doorbells, doorbells);
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;

	(void)fd;
	(void)what;
	loop->now_ns = clock_ns();
	conns_look(loop);
	count_links(loop);
}

static void on_watch(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg; /* the round polls */
}

static struct event *add_event(struct loop *loop, int fd, short what,
			       void (*call)(evutil_socket_t, short, void *), void *arg, int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };
	struct event *e = event_new(loop->base, fd, what, call, arg);

	if (e && event_add(e, ms ? &tv : NULL)) {
		event_free(e);
		e = NULL;
	}
	return e;
}

/* The descriptor of a link, once it has one. */
static void watch_link(struct loop *loop, struct link *link, struct event **event)
{
	if (!*event && link_fd(link) >= 0)
		*event = add_event(loop, link_fd(link), EV_READ | EV_PERSIST, on_link, link, 0);
}

/* ------------------------------------------------------------------ rounds */

static void make_memory(struct runner *r)
{
	struct loop *loop = &r->loop;

	if (loop->memory.asked || !link_is_up(loop->gets))
		return;
	const char *why = memory_make(&loop->memory, r->client);
	if (why)
		log_warn("values are copied: %s", why);
}

/* Whether there was something. */
static bool poll_all(struct loop *loop)
{
	loop->now_ns = clock_ns();
	unsigned ended = link_poll(loop->gets, loop->now_ns);

	ended += link_poll(loop->changes, loop->now_ns);
	return conns_run(loop) || ended;
}

static bool is_busy(const struct loop *loop)
{
	return link_in_flight(loop->gets) || link_in_flight(loop->changes);
}

/* Until nothing is to be done without an event. */
static void settle(struct loop *loop)
{
	unsigned spins = 0;

	for (unsigned i = 0; i < ROUNDS_MAX; i++) {
		if (poll_all(loop)) {
			spins = 0;
			continue;
		}
		if (is_busy(loop) && ++spins < SPINS)
			continue;
		bool gets = link_arm(loop->gets), changes = link_arm(loop->changes);
		if (!gets && !changes)
			return;
	}
}

/* What waits for kvd has a time. */
static void watch(struct runner *r)
{
	struct timeval soon = { 0, WATCH_MS * 1000 };

	if (!conns_are_quiet(&r->loop) && !event_pending(r->watch, EV_TIMEOUT, NULL))
		event_add(r->watch, &soon);
}

static void *run(void *arg)
{
	struct runner *r = arg;
	struct loop *loop = &r->loop;
	uint64_t end_ns = 0;

	while (!end_ns || (clock_ns() < end_ns && !conns_are_quiet(loop))) {
		settle(loop);
		make_memory(r);
		watch_link(loop, loop->gets, &r->gets);
		watch_link(loop, loop->changes, &r->changes);
		watch(r);
		/* Once also then: a link stays readable until it is polled, and libevent would go
		 * on for as long as anything is. */
		event_base_loop(loop->base, EVLOOP_ONCE | (loop->dirty ? EVLOOP_NONBLOCK : 0));
		if (!end_ns && atomic_load_explicit(&r->stop, memory_order_acquire))
			end_ns = clock_ns() + END_NS;
	}
	conns_close(loop);
	return NULL;
}

/* ------------------------------------------------------------- from and to */

struct arrival {
	struct letter letter; /* first */
	struct loop *loop;
	int fd;
};

static void on_arrival(struct letter *letter)
{
	struct arrival *a = (struct arrival *)letter;

	conn_new(a->loop, a->fd);
	free(a);
}

int loop_adopt(struct loop *loop, int fd)
{
	struct arrival *a = malloc(sizeof *a);

	if (!a) {
		close(fd);
		return -1;
	}
	*a = (struct arrival){ .letter.open = on_arrival, .loop = loop, .fd = fd };
	mailbox_send(&loop->box, &a->letter);
	return 0;
}

static int make_events(struct runner *r, struct err *err)
{
	struct loop *loop = &r->loop;
	struct event_config *config = event_config_new();

	/* No other thread touches it. */
	if (config && !event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK))
		loop->base = event_base_new_with_config(config);
	if (config)
		event_config_free(config);
	if (!loop->base)
		return err_set(err, -1, "can't make an event loop");
	r->mail = add_event(loop, loop->box.fd, EV_READ | EV_PERSIST, on_mail, loop, 0);
	r->look = add_event(loop, -1, EV_PERSIST, on_look, loop, LOOK_MS);
	r->watch = add_event(loop, -1, 0, on_watch, loop, WATCH_MS);
	return r->mail && r->look && r->watch ? 0 : err_set(err, -1, "can't make an event");
}

int loop_new(struct front *front, kvd_client *client, struct loop **loop, struct err *err)
{
	struct runner *r = calloc(1, sizeof *r);

	*loop = NULL;
	if (!r)
		return err_set(err, -1, "out of memory");
	r->loop.front = front;
	r->client = client;
	r->loop.now_ns = clock_ns();
	if (mailbox_init(&r->loop.box, err)) {
		free(r);
		return -1;
	}
	*loop = &r->loop;
	memory_init(&r->loop.memory, &front->budget);
	return make_events(r, err) || link_new(client, &r->loop.box, &r->loop.gets, err) ||
			       link_new(client, &r->loop.box, &r->loop.changes, err)
		       ? -1
		       : 0;
}

int loop_start(struct loop *loop, struct err *err)
{
	struct runner *r = runner_of(loop);
	int rc = pthread_create(&r->thread, NULL, run, r);

	r->has_thread = !rc;
	return rc ? err_set_errno(err, -1, rc, "can't start a thread") : 0;
}

static void free_event(struct event *e)
{
	if (e)
		event_free(e);
}

void loop_stop(struct loop *loop)
{
	if (!loop || !runner_of(loop)->has_thread)
		return;
	atomic_store_explicit(&runner_of(loop)->stop, true, memory_order_release);
	mailbox_wake(&loop->box);
	pthread_join(runner_of(loop)->thread, NULL);
	runner_of(loop)->has_thread = false;
}

void loop_delete(struct loop **loop)
{
	if (!*loop)
		return;
	struct runner *r = runner_of(*loop);
	mailbox_open(&r->loop.box); /* what came too late */
	conns_close(&r->loop);
	link_delete(&r->loop.gets);
	link_delete(&r->loop.changes);
	requests_free_all(&r->loop);
	memory_destroy(&r->loop.memory);
	free_event(r->mail);
	free_event(r->look);
	free_event(r->watch);
	free_event(r->gets);
	free_event(r->changes);
	if (r->loop.base)
		event_base_free(r->loop.base);
	mailbox_destroy(&r->loop.box);
	free(r);
	*loop = NULL;
}

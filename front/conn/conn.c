/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/conn/conn.h"

#include <event2/event.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "front/conn/answer.h"
#include "front/conn/input.h"
#include "front/conn/output.h"
#include "front/conn/request.h"
#include "front/conn/special.h"

/* Turns of one connection before others have theirs. */
#define TURNS_MAX 8u
/* GETs of a loop that are on their way, before it looks which of them are there. */
#define FLIGHT_MAX 32u

static void conn_close(struct conn *c)
{
	struct loop *loop = c->loop;

	requests_forget(c);
	output_drop(&c->out, &loop->memory);
	input_drop(c);
	event_free(c->readable);
	event_free(c->writable);
	close(c->fd);
	*c->prev = c->next;
	if (c->next)
		c->next->prev = c->prev;
	atomic_fetch_sub_explicit(&loop->front->connections, 1, memory_order_relaxed);
	count_add(loop, COUNTER_curr_connections, (uint64_t)-1);
	free(c);
}

/* ------------------------------------------------------------------ answers */

static bool has_answer(const struct conn *c)
{
	return c->first && c->first->state == REQUEST_DONE;
}

/* Whether it is the error of one of a line's keys: then it is the answer to the whole line. */
static bool fails_keys(const struct request *r)
{
	return r->command.verb >= VERB_GET && r->command.verb <= VERB_GATS &&
	       (r->outcome == OUTCOME_TEXT || r->outcome == OUTCOME_ERROR);
}

/* Whether it is passed over, for an earlier one has failed. */
static bool skip(struct conn *c)
{
	bool skips = c->skips;

	if (skips)
		c->skips = !c->first->ends_keys;
	else
		c->skips = fails_keys(c->first);
	return skips;
}

/* Those in front that are there, as far as there is room. */
static bool answer(struct conn *c)
{
	bool any = false;

	while (has_answer(c)) {
		if (!c->mute && !output_has_room(&c->out))
			break;
		if (output_is_empty(&c->out))
			c->moved_ns = c->loop->now_ns; /* from now on it has something to take */
		if (!skip(c) && !c->mute)
			answer_write(c->first, &c->out);
		request_pop(c);
		any = true;
	}
	return any;
}

/* Whether something went, so that there is room for what had none. */
static bool send_out(struct conn *c)
{
	if (output_is_empty(&c->out)) {
		output_drop(&c->out, &c->loop->memory); /* a buffer that nothing was put into */
		c->moved_ns = c->loop->now_ns;
		return false;
	}
	ssize_t sent = output_send(&c->out, c->fd, &c->loop->memory);
	if (sent < 0) {
		c->mute = true; /* what it asked for is done all the same */
		output_drop(&c->out, &c->loop->memory);
	} else if (sent > 0) {
		c->moved_ns = c->loop->now_ns;
		count_add(c->loop, COUNTER_bytes_written, (uint64_t)sent);
	}
	return sent;
}

/* Those that waited for one that has ended. */
static void start_waiting(struct conn *c)
{
	for (struct request *r = c->first; r && c->wait_count;) {
		struct request *next = r->next;
		if (r->state == REQUEST_WAITS && !request_must_wait(r)) {
			c->wait_count--;
			special_start(r);
		}
		r = next;
	}
}

/* ---------------------------------------------------------------------- run */

static void want(struct event *e, bool *is, bool wanted)
{
	if (*is == wanted)
		return;
	if (wanted ? event_add(e, NULL) : event_del(e))
		return;
	*is = wanted;
}

static bool is_over(const struct conn *c)
{
	bool no_more = c->closing || (c->ended && (!c->in_bytes || c->request_count == 0));

	return no_more && !c->request_count && output_is_empty(&c->out);
}

/* Until it waits for somebody. */
static void run(struct conn *c)
{
	unsigned turns = 0;
	bool more = true;

	c->runs = true;
	while (more && ++turns <= TURNS_MAX) {
		more = input_take(c);
		if (c->wait_count)
			start_waiting(c);
		more |= answer(c);
		more |= send_out(c) && (has_answer(c) || c->wait_count);
	}
	input_keep(c);
	c->runs = false;
	if (more) {
		count(c->loop, COUNTER_conn_yields);
		conn_mark(c);
	}
	if (is_over(c)) {
		if (!c->is_dirty)
			conn_close(c);
		return;
	}
	want(c->readable, &c->reads,
	     !c->ended && !c->closing && c->in_bytes < IN_BYTES && output_is_empty(&c->out) &&
		     c->request_count < REQUESTS_MAX);
	want(c->writable, &c->writes, !output_is_empty(&c->out));
}

bool conns_run(struct loop *loop)
{
	struct conn *c = loop->dirty;
	bool any = c;

	loop->dirty = NULL;
	while (c) {
		struct conn *next = c->next_dirty;
		c->is_dirty = false;
		run(c);
		c = next;
	}
	return any;
}

/* Values that are on their way are sent before others are asked for: so they are still in the
 * cache, and registered memory is enough for them.  The other events stay active. */
static void pause_events(struct loop *loop)
{
	if (link_in_flight(loop->gets) >= FLIGHT_MAX)
		event_base_loopbreak(loop->base);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;

	(void)fd;
	(void)what;
	struct loop *loop = c->loop;

	input_read(c);
	run(c); /* it may be gone then */
	pause_events(loop);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;

	(void)fd;
	(void)what;
	run(c);
}

/* ------------------------------------------------------------ from and to */

int conn_new(struct loop *loop, int fd)
{
	struct conn *c = calloc(1, sizeof *c);

	if (!c)
		goto no_conn;
	c->readable = event_new(loop->base, fd, EV_READ | EV_PERSIST, on_readable, c);
	c->writable = event_new(loop->base, fd, EV_WRITE | EV_PERSIST, on_writable, c);
	if (!c->readable || !c->writable || event_add(c->readable, NULL))
		goto no_event;
	c->reads = true;
	c->loop = loop;
	c->fd = fd;
	c->last = &c->first;
	c->authorised = !loop->front->auth;
	c->heard_ns = c->moved_ns = loop->now_ns;
	c->next = loop->conns;
	c->prev = &loop->conns;
	if (c->next)
		c->next->prev = &c->next;
	loop->conns = c;
	count(loop, COUNTER_curr_connections);
	count(loop, COUNTER_total_connections);
	return 0;

no_event:
	if (c->readable)
		event_free(c->readable);
	if (c->writable)
		event_free(c->writable);
	free(c);
no_conn:
	close(fd);
	atomic_fetch_sub_explicit(&loop->front->connections, 1, memory_order_relaxed);
	return -1;
}

static bool is_stalled(const struct conn *c)
{
	return !output_is_empty(&c->out) &&
	       c->loop->now_ns - c->moved_ns > c->loop->front->stall_ns;
}

static bool is_idle(const struct conn *c)
{
	uint64_t idle_ns = c->loop->front->idle_ns;

	return idle_ns && !c->request_count && c->loop->now_ns - c->heard_ns > idle_ns;
}

void conns_look(struct loop *loop)
{
	struct conn *c = loop->conns;

	while (c) {
		struct conn *next = c->next;
		if (c->is_dirty) {
			/* it runs first */
		} else if (is_stalled(c)) {
			count(loop, COUNTER_stalled_kicks);
			conn_close(c);
		} else if (is_idle(c)) {
			count(loop, COUNTER_idle_kicks);
			conn_close(c);
		}
		c = next;
	}
}

void conns_close(struct loop *loop)
{
	while (loop->conns)
		conn_close(loop->conns);
	loop->dirty = NULL;
}

bool conns_are_quiet(const struct loop *loop)
{
	for (const struct conn *c = loop->conns; c; c = c->next)
		if (c->request_count || !output_is_empty(&c->out))
			return false;
	return true;
}

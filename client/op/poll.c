/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/op/poll.h"

#include <poll.h>
#include <string.h>
#include <sys/timerfd.h>

#include "client/op/engine.h"
#include "client/op/look.h"
#include "client/op/message.h"
#include "client/op/operation.h"
#include "client/op/operation_impl.h"
#include "client/op/post.h"
#include "common/rdma/link.h"

#define BATCH 32
#define CM_LOOK_NS 1000000ull
#define PROBE_NS 100000000ull
/* A device gives up a READ within 1.1 s with the time-out of who has another way (connect.c). */
#define HUNG_NS 3000000000ull
#define PROBE_INDEX 0xfffeu /* in the place of an operation's, in a wr_id */
/* From one look at the clock to the next, while it spins: the clock costs as much as a
 * few polls, and what comes meanwhile is found that much later. */
#define SPIN_POLLS 8u
/* Polls that found something until who is never idle looks at what no completion tells. */
#define BUSY_POLLS 64u

static bool is_receive(const struct ibv_wc *wc)
{
	return wc->wr_id < 1u << 16;
}

static const uint8_t *rx_message(const struct engine *e, uint64_t buffer)
{
	return e->rx + (size_t)buffer * RX_STRIDE_BYTES;
}

/* The receives of a batch of completions, in one chain. */
static void repost(struct engine *e, const struct ibv_wc *wc, int n)
{
	struct ibv_sge sge[BATCH];
	struct ibv_recv_wr wr[BATCH], *bad;
	int count = 0;

	for (int i = 0; i < n; i++) {
		if (!is_receive(&wc[i]))
			continue;
		sge[count] = (struct ibv_sge){ (uintptr_t)rx_message(e, wc[i].wr_id),
					       WIRE_MESSAGE_BYTES_MAX, e->memory_mr->lkey };
		wr[count] = (struct ibv_recv_wr){ .wr_id = wc[i].wr_id,
						  .sg_list = &sge[count],
						  .num_sge = 1,
						  .next = &wr[count + 1] };
		count++;
	}
	wr[count - 1].next = NULL;
	int rc = ibv_post_recv(e->qp, wr, &bad);
	if (rc)
		health_fail(&e->health, KVD_ECONNECT, "posting a receive failed: %s", strerror(rc));
}

/* `now`: when it was polled. */
static void got_reply(struct engine *e, const uint8_t *message, uint32_t bytes, uint64_t now)
{
	const struct wire_reply *reply = (const struct wire_reply *)message;
	struct op *op;

	if (bytes >= sizeof *reply && reply->request_id == WIRE_NOTICE_ID) {
		health_noticed(&e->health, reply->status);
		return;
	}
	if (bytes < sizeof *reply || reply->request_id % OPS_MAX >= e->depth) {
		health_fail(&e->health, KVD_EPROTOCOL, "%s sent a malformed reply", e->health.peer);
		return;
	}
	op = &e->ops[reply->request_id % OPS_MAX];
	if (op->phase != PHASE_REPLY || op->done || op->ended ||
	    op->request_id != reply->request_id) {
		health_fail(&e->health, KVD_EPROTOCOL, "%s answered a request that nobody made",
			    e->health.peer);
		return;
	}
	clock_learn(&e->table.clock, reply->clock_ms, op->sent_ns, now);
	if (e->table.grant.is_told)
		grant_told(&e->table.grant, reply->lease_ms, op->asked_ns);
	e->silences = 0;
	op->phase = PHASE_BUSY;
	op->out.reply = *reply;
	op->out.payload_bytes = bytes - (uint32_t)sizeof *reply;
	op->class->reply(op, message + sizeof *reply);
}

/* With what the device has counted of trouble since the session's beginning. */
static void fail_completion(struct engine *e, const struct ibv_wc *wc)
{
	char changes[256] = "";

	if (!e->registrar.verbs->soft)
		hwcount_changes(e->health.ctx->device->name, e->health.port, &e->counted, changes,
				sizeof changes);
	health_fail(&e->health, KVD_ECONNECT,
		    "the connection to %s broke: %s (vendor error 0x%x)%s%s", e->health.peer,
		    ibv_wc_status_str(wc->status), wc->vendor_err,
		    *changes ? "; the device counted since: " : "", changes);
}

static void completed(struct engine *e, const struct ibv_wc *wc, uint64_t now)
{
	if (wc->status != IBV_WC_SUCCESS) {
		fail_completion(e, wc);
		return;
	}
	if (is_receive(wc)) {
		got_reply(e, rx_message(e, wc->wr_id), wc->byte_len, now);
		return;
	}
	e->sq_done = wc->wr_id >> 17;
	if (wc->wr_id & 1u << 16) {
		struct op *op = &e->ops[wc->wr_id & 0xffff];
		op->reads--;
		if (!op->ended)
			op->class->advance(op);
		else if (!op->reads)
			op_done(op, op->out.result);
	} else if ((wc->wr_id & 0xffff) == LOOK_INDEX) {
		look_seen(e);
	}
}

/* Fetches into the cache what a reply to a change will write: its entry in the mirror. */
static void prefetch(const struct engine *e, const struct ibv_wc *wc)
{
	const struct wire_reply *reply = (const struct wire_reply *)rx_message(e, wc->wr_id);

	if (wc->byte_len >= sizeof *reply && reply->bucket != ~0ull)
		mirror_prefetch_word(e->table.mirror, reply->bucket, reply->flags & WIRE_SLOT_MASK);
}

void engine_completed(struct engine *e, const struct ibv_wc *wc, int n)
{
	uint64_t now = 0;

	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS || !is_receive(&wc[i]))
			continue;
		if (!now)
			now = clock_ns();
		if (n > 1)
			prefetch(e, &wc[i]);
	}
	for (int i = 0; i < n && !e->health.broken; i++)
		completed(e, &wc[i], now);
	if (now && !e->health.broken)
		repost(e, wc, n);
}

int engine_take(struct engine *e)
{
	struct ibv_wc wc[BATCH];
	int n = ibv_poll_cq(e->cq, BATCH, wc);

	if (n < 0)
		return health_fail(&e->health, KVD_ECONNECT, "polling the completion queue failed");
	if (n > 0) {
		engine_completed(e, wc, n);
		engine_flush(e);
	}
	return n;
}

/* rdma_cm tells of the peer's death; a completion queue alone may never. */
static void look_at_cm(struct engine *e)
{
	struct rdma_cm_event *event;
	char words[256];

	if (e->registrar.verbs->get_cm_event(e->channel, &event))
		return;
	enum rdma_cm_event_type type = event->event;
	link_event_words(event, words, sizeof words);
	e->registrar.verbs->ack_cm_event(event);
	e->health.device_lost |= type == RDMA_CM_EVENT_DEVICE_REMOVAL;
	if (e->health.device_lost)
		health_fail(&e->health, KVD_ECONNECT,
			    "the RDMA device that led to %s was taken away", e->health.peer);
	else if (type == RDMA_CM_EVENT_DISCONNECTED)
		health_fail(&e->health, KVD_ECONNECT, "%s ended the connection (%s)",
			    e->health.peer, words);
}

/* Changes that kvd was too busy for. */
static void look_for_later(struct engine *e)
{
	if (e->later_ns && health_is_good(&e->health))
		messages_look(e, clock_ns());
}

/* The channel does not block: false if it has no event. */
static bool take_event(struct engine *e)
{
	struct ibv_cq *cq;
	void *context;

	if (e->registrar.verbs->get_cq_event(e->comp, &cq, &context))
		return false;
	if (++e->events == 64) {
		e->registrar.verbs->ack_cq_events(e->cq, e->events);
		e->events = 0;
	}
	return true;
}

/*
 * When the first of what was asked makes a cluster's primary count as silent: UINT64_MAX for never.
 * It may be frozen, or cut off, and another one serve: who asks elsewhere finds out.  It is asked
 * again all the same, with twice the patience.
 */
static uint64_t silent_ns(const struct engine *e)
{
	uint64_t first_ns = UINT64_MAX;

	for (uint32_t i = 0; i < e->depth && e->patience_ns; i++) {
		const struct op *op = &e->ops[i];
		/* A long value takes its time. */
		if (op->phase == PHASE_REPLY && !op->done && !op->value.registered &&
		    op->sent_ns + e->patience_ns < first_ns)
			first_ns = op->sent_ns + e->patience_ns;
	}
	return first_ns;
}

/* When the connection is to be tried, as something is in flight; UINT64_MAX: not at all. */
static uint64_t probe_ns(const struct engine *e)
{
	return e->probes && e->in_flight > e->adrift ? e->probed_ns + PROBE_NS : UINT64_MAX;
}

/* When something is to be done that no completion wakes for; UINT64_MAX: nothing. */
static uint64_t timer_ns(const struct engine *e)
{
	uint64_t probe = probe_ns(e);

	return e->later_ns && e->later_ns < probe ? e->later_ns : probe;
}

/* Whether the next completion will wake who sleeps; else the connection is broken. */
static bool ask_to_be_woken(struct engine *e)
{
	int rc = ibv_req_notify_cq(e->cq, 0);

	if (rc)
		health_fail(&e->health, KVD_ECONNECT, "arming the completion queue failed: %s",
			    strerror(rc));
	return !rc;
}

static void sleep_until(struct engine *e, uint64_t until_ns)
{
	struct pollfd fds[2] = { { .fd = e->comp->fd, .events = POLLIN },
				 { .fd = e->channel->fd, .events = POLLIN } };
	uint64_t now = clock_ns(), silent = silent_ns(e), timer = timer_ns(e);

	if (timer < until_ns)
		until_ns = timer;
	if (silent < until_ns)
		until_ns = silent;
	uint64_t ms = until_ns > now ? (until_ns - now + 999999) / 1000000 : 0;

	if (!ask_to_be_woken(e) || engine_take(e) != 0)
		return;
	if (poll(fds, 2, ms > 1000 ? 1000 : (int)ms) <= 0)
		return;
	if (fds[0].revents & POLLIN)
		take_event(e);
	if (fds[1].revents & POLLIN)
		look_at_cm(e);
}

/* When a loop is to be woken; 0: by nothing but a completion. */
static uint64_t alarm_ns(const struct engine *e)
{
	uint64_t now, first = e->later_ns ? e->later_ns : UINT64_MAX;

	if (!e->probes)
		return e->later_ns;
	now = clock_ns();
	/* One that is soon enough may stay: to set it is a system call. */
	if (e->timer_ns > now && e->timer_ns <= first)
		return e->timer_ns;
	if (e->in_flight > e->adrift && now + PROBE_NS < first)
		first = now + PROBE_NS;
	return first == UINT64_MAX ? 0 : first;
}

/* The descriptor of kvd_fd() is readable then. */
static void arm_timer(struct engine *e)
{
	uint64_t ns = alarm_ns(e);
	const struct itimerspec at = { .it_value = { (time_t)(ns / 1000000000),
						     (long)(ns % 1000000000) } };

	if (e->timer_fd < 0 || e->timer_ns == ns)
		return;
	if (!timerfd_settime(e->timer_fd, TFD_TIMER_ABSTIME, &at, NULL))
		e->timer_ns = ns;
}

void engine_arm(struct engine *e)
{
	int n = 0;

	look_for_later(e);
	engine_flush(e);
	if (e->health.connected && !e->health.broken) {
		while (take_event(e))
			;
		look_at_cm(e);
	}
	/* What completes between the request and the look may have used it up. */
	do {
		if (!e->health.connected || e->health.broken || e->done)
			break;
		n = ask_to_be_woken(e) ? engine_take(e) : -1;
	} while (n > 0);
	arm_timer(e);
}

/* An operation that takes too long ends the session: its fate is open. */
static void check_deadlines(struct engine *e, uint64_t now)
{
	for (uint32_t i = 0; i < e->depth; i++) {
		const struct op *op = &e->ops[i];
		if (op->phase != PHASE_FREE && op->phase != PHASE_ADRIFT && !op->done &&
		    op->deadline_ns <= now) {
			health_fail(&e->health, KVD_ETIMEDOUT, "%s did not answer within %d ms",
				    e->health.peer, e->options->timeout_ms + op->more_ms);
			return;
		}
	}
}

static void check_patience(struct engine *e, uint64_t now)
{
	if (e->health.broken || now < silent_ns(e))
		return;
	e->silences++;
	e->health.silent = true;
	health_fail(&e->health, KVD_ECONNECT, "%s is silent", e->health.peer);
}

/*
 * Whether the device ends nothing any more, with an error either.  It has tried one READ since
 * tried_ns; where its port is down nobody waits for its verdict.
 */
static bool is_hung(struct engine *e, uint64_t now)
{
	if (!e->tried_ns || e->sq_done != e->tried_done) {
		e->tried_ns = now;
		e->tried_done = e->sq_done;
		return false;
	}
	return now - e->tried_ns >= HUNG_NS || health_port_is_down(&e->health);
}

/*
 * Who waits for kvd's answer alone learns from nothing that the way is cut: a READ that is not
 * answered either breaks the connection.
 */
static void probe(struct engine *e, uint64_t now)
{
	if (now < probe_ns(e) || e->health.broken)
		return;
	e->probed_ns = now;
	if (is_hung(e, now)) {
		health_fail(&e->health, KVD_ECONNECT,
			    "the RDMA device has ended no READ from %s for %llu ms", e->health.peer,
			    (unsigned long long)((now - e->tried_ns) / 1000000));
	} else if (engine_room(e)) {
		engine_read(e, PROBE_INDEX, e->table.welcome.table_addr, e->look, sizeof(uint64_t));
		engine_flush(e);
	}
}

/* What no completion tells. */
static void look_around(struct engine *e, uint64_t now)
{
	if (e->later_ns && now >= e->later_ns) {
		messages_look(e, now);
		engine_flush(e);
	}
	if (now - e->last_cm_look_ns <= CM_LOOK_NS)
		return;
	e->last_cm_look_ns = now;
	look_at_cm(e);
	check_deadlines(e, now);
	check_patience(e, now);
	probe(e, now);
	e->is_homesick = e->home_ns && now >= e->home_ns;
}

/* A poll found something.  One that always does would never look around: others' READs complete
 * while kvd is frozen and answers nothing. */
static void look_if_busy(struct engine *e)
{
	if (++e->busy_polls < BUSY_POLLS)
		return;
	e->busy_polls = 0;
	if (!e->health.broken)
		look_around(e, clock_ns());
}

bool engine_take_now(struct engine *e)
{
	if (e->later_ns)
		return false; /* a look has to be taken at those, too */
	engine_flush(e);
	if (engine_take(e) > 0)
		look_if_busy(e);
	return e->done;
}

int engine_look(struct engine *e)
{
	engine_flush(e);
	if (!e->health.broken && engine_take(e) == 0)
		look_around(e, clock_ns());
	return e->health.broken ? e->health.broken_code : 0;
}

/* 0: nothing came. */
static int poll_for_a_while(struct engine *e, unsigned polls)
{
	int n = 0;

	for (unsigned i = 0; i < polls && !n; i++)
		n = engine_take(e);
	return n;
}

/* Until until_ns; 0: for wait_ns from the first time on that nothing has come, so that no
 * clock is asked where something has. */
static int poll_until(struct engine *e, uint64_t until_ns, uint64_t wait_ns)
{
	int policy = e->options->poll;
	uint64_t now = 0, start = 0;
	unsigned polls = policy == KVD_POLL_EVENT ? 1 : SPIN_POLLS;
	bool spinning = false, slept = false;

	look_for_later(e);
	engine_flush(e);
	while (!e->done && !e->health.broken && e->in_flight > e->adrift &&
	       !(e->may_drift && e->health.moved)) {
		int n = poll_for_a_while(e, polls);
		if (n > 0) {
			spinning = false;
			look_if_busy(e);
			continue;
		}
		now = clock_ns();
		if (!start)
			start = now;
		if (!until_ns)
			until_ns = now + wait_ns;
		if (!spinning)
			spin_start(&e->spin, now);
		spinning = true;
		look_around(e, now);
		if (now >= until_ns || e->health.broken || e->done)
			break;
		if (policy == KVD_POLL_EVENT ||
		    (policy == KVD_POLL_ADAPTIVE && !spin_again(&e->spin, start, now))) {
			sleep_until(e, until_ns);
			slept = true;
			spinning = false;
		}
	}
	/* One that only spun is over a few polls after the last look. */
	if (start && policy != KVD_POLL_BUSY)
		spin_learn(&e->spin, (slept ? clock_ns() : now) - start);
	return e->done ? 0 : e->health.broken ? e->health.broken_code : 0;
}

int engine_poll(struct engine *e, uint64_t until_ns)
{
	return poll_until(e, until_ns, 0);
}

int engine_poll_for(struct engine *e, uint64_t wait_ns)
{
	return poll_until(e, 0, wait_ns);
}

int engine_await(struct engine *e, const struct op *op, const struct op *other)
{
	bool may_drift = e->may_drift;
	int rc = 0;

	/* This connection answers them, also while it is to be left: they look where to. */
	e->may_drift = false;
	ops_forget_done(e); /* they may be done */
	while (!rc && (!op->done || (other && !other->done))) {
		rc = engine_poll(e, (op->done ? other : op)->deadline_ns);
		ops_forget_done(e);
	}
	e->may_drift = may_drift;
	return rc;
}

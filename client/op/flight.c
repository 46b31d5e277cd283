/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is in flight: work requests are collected while operations advance, and
 * posted with one doorbell; completions advance operations.
 *
 * wr_id: bit 0..15 the operation, 16 set if it waits for this (a GET's READ, a SEND
 * from the caller's memory), 17..63 how many work requests were posted up to this
 * one, which are all complete when this one is.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/op/session.h"

#define BATCH 32
#define SIGNAL_EVERY 16u
#define CM_LOOK_NS 1000000ull
/* From one look at the clock to the next, while it spins: the clock costs as much as a
 * few polls, and what comes meanwhile is found that much later. */
#define SPIN_POLLS 8u

uint64_t session_deadline_ns(const struct kvd_session *s)
{
	return s->call_end_ns ? s->call_end_ns
			      : clock_ns() + (uint64_t)s->client->options.timeout_ms * 1000000;
}

/* Within the time of the call that it is a part of, if it is of one. */
static void set_times(struct op *op)
{
	const struct kvd_session *s = op->session;

	op->begun_ns = s->call_end_ns ? s->call_begun_ns : clock_coarse_ns();
	op->deadline_ns = s->call_end_ns ? s->call_end_ns
					 : op->begun_ns + s->client->clock_tick_ns +
						   (uint64_t)s->client->options.timeout_ms * 1000000;
}

/* -------------------------------------------------------------- operations */

struct op *op_new(struct kvd_session *s, const struct op_class *class, const void *key,
		  size_t key_bytes)
{
	struct op *op = s->free_ops;

	if (!op)
		return NULL;
	s->free_ops = op->next;
	s->in_flight++;
	op->class = class;
	op->phase = PHASE_IDLE;
	op->ended = op->done = false;
	op->tag = NULL;
	op->value.count = 0;
	op->value.bytes = 0;
	op->value.registered = false;
	op->allocated = NULL;
	op->reads = 0;
	op->token = 0;
	op->payload_bytes = 0;
	set_times(op);
	op->key_bytes = (uint32_t)key_bytes;
	if (key_bytes) {
		memcpy(op->key, key, key_bytes);
		op->hash = hash_key(s->table.welcome.hash_seed, key, key_bytes);
	}
	return op;
}

void op_free(struct op *op)
{
	struct kvd_session *s = op->session;

	op->phase = PHASE_IDLE;
	op->next = s->free_ops;
	s->free_ops = op;
	s->in_flight--;
}

void op_done(struct op *op, int result)
{
	struct kvd_session *s = op->session;

	pieces_release(&op->value, s->verbs);
	if (result != KVD_OK) {
		free(op->allocated);
		op->allocated = NULL;
	}
	op->result = result;
	if (op->reads && !s->broken) {
		op->ended = true;
		return;
	}
	if (op->class->detached) {
		op_free(op);
		return;
	}
	op->done = true;
	op->next = NULL;
	*s->done_end = op;
	s->done_end = &op->next;
}

/* ----------------------------------------------------------- work requests */

uint32_t flight_room(const struct kvd_session *s)
{
	return s->sq_depth - (uint32_t)(s->sq_posted - s->sq_done);
}

static struct ibv_send_wr *new_wr(struct op *op, bool awaited, bool signal)
{
	struct kvd_session *s = op->session;
	struct ibv_send_wr *wr = &s->wr[s->wr_count];

	*wr = (struct ibv_send_wr){
		.wr_id = flight_wr_id(s, op, awaited),
		.sg_list = s->sge + (size_t)s->wr_count * s->sge_max,
		.num_sge = 1,
		.send_flags = signal ? IBV_SEND_SIGNALED : 0,
	};
	if (s->wr_count)
		s->wr[s->wr_count - 1].next = wr;
	s->wr_count++;
	s->unsignaled = signal ? 0 : s->unsignaled + 1;
	return wr;
}

static void new_read(struct op *op, uint64_t remote, uint32_t rkey, uint32_t bytes, bool last,
		     struct ibv_send_wr **wr)
{
	struct kvd_session *s = op->session;

	*wr = new_wr(op, true, last);
	(*wr)->opcode = IBV_WR_RDMA_READ;
	(*wr)->wr.rdma.remote_addr = remote;
	(*wr)->wr.rdma.rkey = rkey;
	s->counters.round_trips += last && !op->reads;
	op->reads += last;
	s->counters.reads++;
	s->counters.read_bytes += bytes;
}

void op_read(struct op *op, uint64_t remote, uint32_t rkey, void *to, uint32_t bytes, bool last)
{
	struct ibv_send_wr *wr;

	new_read(op, remote, rkey, bytes, last, &wr);
	wr->sg_list[0] =
		(struct ibv_sge){ (uintptr_t)to, bytes, op->session->memory_mr->lkey };
}

void op_cas(struct op *op, uint64_t remote, uint32_t rkey, uint64_t expected, uint64_t desired)
{
	struct kvd_session *s = op->session;
	struct ibv_send_wr *wr = new_wr(op, true, true);

	wr->sg_list[0] = (struct ibv_sge){ (uintptr_t)op->memory->small, 8, s->memory_mr->lkey };
	wr->opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr->wr.atomic.remote_addr = remote;
	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.compare_add = expected;
	wr->wr.atomic.swap = desired;
	op->reads++;
	s->counters.atomics++;
}

uint32_t op_read_item(struct op *op, uint64_t remote, uint32_t rkey, uint64_t from,
		      uint32_t head_bytes, uint32_t bytes)
{
	struct kvd_session *s = op->session;
	struct ibv_send_wr *wr;
	struct ibv_sge sge[SGE_MAX];
	uint32_t head = from < head_bytes ? head_bytes - (uint32_t)from : 0, covered = 0;
	unsigned n = 0;

	if (head > bytes)
		head = bytes;
	if (head)
		sge[n++] = (struct ibv_sge){ (uintptr_t)op->memory->item + from, head,
					     s->memory_mr->lkey };
	if (bytes > head)
		n += pieces_sge(&op->value, from + head - head_bytes, bytes - head, sge + n,
				s->sge_max - n, &covered);
	new_read(op, remote, rkey, head + covered, true, &wr);
	memcpy(wr->sg_list, sge, n * sizeof *sge);
	wr->num_sge = (int)n;
	return head + covered;
}

/*
 * A short value that stands in registered memory is gathered from there, and then
 * the operation ends only after the send has completed too: the memory is the
 * caller's again.
 */
void op_send(struct op *op, uint32_t bytes, bool gather)
{
	struct kvd_session *s = op->session;
	struct ibv_send_wr *wr = new_wr(op, gather, gather || s->unsignaled + 1 >= SIGNAL_EVERY);
	uint32_t covered = 0;

	wr->sg_list[0] = (struct ibv_sge){ (uintptr_t)op->memory->message, bytes,
					   s->memory_mr->lkey };
	if (gather) {
		wr->num_sge += (int)pieces_sge(&op->value, 0, (uint32_t)op->value.bytes,
					       wr->sg_list + 1, s->sge_max - 1, &covered);
		op->reads++;
	}
	wr->opcode = IBV_WR_SEND;
	if (bytes + covered <= s->inline_bytes)
		wr->send_flags |= IBV_SEND_INLINE;
	s->counters.messages++;
	s->counters.message_bytes += bytes + covered;
}

int flight_flush(struct kvd_session *s)
{
	struct ibv_send_wr *bad;

	if (!s->wr_count)
		return 0;
	s->wr_count = 0;
	if (s->broken || !s->connected)
		return s->broken_code;
	int rc = ibv_post_send(s->qp, s->wr, &bad);
	return rc ? session_fail(s, KVD_ECONNECT, "posting to %s failed: %s", s->client->addr.text,
				 strerror(rc))
		  : 0;
}

/* ------------------------------------------------------------- completions */

static bool is_receive(const struct ibv_wc *wc)
{
	return wc->wr_id < 1u << 16;
}

static const uint8_t *rx_message(const struct kvd_session *s, uint64_t buffer)
{
	return s->rx + (size_t)buffer * RX_STRIDE_BYTES;
}

/* The receives of a batch of completions, in one chain. */
static void repost(struct kvd_session *s, const struct ibv_wc *wc, int n)
{
	struct ibv_sge sge[BATCH];
	struct ibv_recv_wr wr[BATCH], *bad;
	int count = 0;

	for (int i = 0; i < n; i++) {
		if (!is_receive(&wc[i]))
			continue;
		sge[count] = (struct ibv_sge){ (uintptr_t)rx_message(s, wc[i].wr_id),
					       WIRE_MESSAGE_BYTES_MAX, s->memory_mr->lkey };
		wr[count] = (struct ibv_recv_wr){ .wr_id = wc[i].wr_id, .sg_list = &sge[count],
						  .num_sge = 1, .next = &wr[count + 1] };
		count++;
	}
	wr[count - 1].next = NULL;
	int rc = ibv_post_recv(s->qp, wr, &bad);
	if (rc)
		session_fail(s, KVD_ECONNECT, "posting a receive failed: %s", strerror(rc));
}

/* `now`: when it was polled. */
static void got_reply(struct kvd_session *s, const uint8_t *message, uint32_t bytes, uint64_t now)
{
	const struct wire_reply *reply = (const struct wire_reply *)message;
	struct op *op;

	if (bytes >= sizeof *reply && reply->request_id == WIRE_NOTICE_ID) {
		session_noticed(s, reply->status);
		return;
	}
	if (bytes < sizeof *reply || reply->request_id % OPS_MAX >= s->depth) {
		session_fail(s, KVD_EPROTOCOL, "%s sent a malformed reply", s->client->addr.text);
		return;
	}
	op = &s->ops[reply->request_id % OPS_MAX];
	if (op->phase != PHASE_REPLY || op->done || op->ended || op->request_id != reply->request_id) {
		session_fail(s, KVD_EPROTOCOL, "%s answered a request that nobody made",
			     s->client->addr.text);
		return;
	}
	clock_learn(&s->table.clock, reply->clock_ms, op->sent_ns, now);
	op->reply = *reply;
	op->payload_bytes = bytes - (uint32_t)sizeof *reply;
	op->class->reply(op, message + sizeof *reply);
}

/* With what the device has counted of trouble since the session's beginning. */
static void fail_completion(struct kvd_session *s, const struct ibv_wc *wc)
{
	char changes[256] = "";

	if (!s->verbs->soft)
		hwcount_changes(s->client->ctx->device->name, s->port, &s->counted, changes,
				sizeof changes);
	session_fail(s, KVD_ECONNECT, "the connection to %s broke: %s (vendor error 0x%x)%s%s",
		     s->client->addr.text, ibv_wc_status_str(wc->status), wc->vendor_err,
		     *changes ? "; the device counted since: " : "", changes);
}

static void completed(struct kvd_session *s, const struct ibv_wc *wc, uint64_t now)
{
	if (wc->status != IBV_WC_SUCCESS) {
		fail_completion(s, wc);
		return;
	}
	if (is_receive(wc)) {
		got_reply(s, rx_message(s, wc->wr_id), wc->byte_len, now);
		return;
	}
	s->sq_done = wc->wr_id >> 17;
	if (wc->wr_id & 1u << 16) {
		struct op *op = &s->ops[wc->wr_id & 0xffff];
		op->reads--;
		if (!op->ended)
			op->class->advance(op);
		else if (!op->reads)
			op_done(op, op->result);
	}
}

/* Fetches into the cache what a reply to a change will write: its entry in the mirror. */
static void prefetch(const struct kvd_session *s, const struct ibv_wc *wc)
{
	const struct wire_reply *reply = (const struct wire_reply *)rx_message(s, wc->wr_id);

	if (wc->byte_len >= sizeof *reply && reply->bucket != ~0ull)
		mirror_prefetch_word(s->table.mirror, reply->bucket, reply->flags & WIRE_SLOT_MASK);
}

void flight_completed(struct kvd_session *s, const struct ibv_wc *wc, int n)
{
	uint64_t now = 0;

	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS || !is_receive(&wc[i]))
			continue;
		if (!now)
			now = clock_ns();
		if (n > 1)
			prefetch(s, &wc[i]);
	}
	for (int i = 0; i < n && !s->broken; i++)
		completed(s, &wc[i], now);
	if (now && !s->broken)
		repost(s, wc, n);
}

int flight_take(struct kvd_session *s)
{
	struct ibv_wc wc[BATCH];
	int n = ibv_poll_cq(s->cq, BATCH, wc);

	if (n < 0)
		return session_fail(s, KVD_ECONNECT, "polling the completion queue failed");
	if (n > 0) {
		flight_completed(s, wc, n);
		flight_flush(s);
	}
	return n;
}

/* rdma_cm tells of the peer's death; a completion queue alone may never. */
static void look_at_cm(struct kvd_session *s)
{
	struct rdma_cm_event *e;
	char words[256];

	if (s->verbs->get_cm_event(s->channel, &e))
		return;
	enum rdma_cm_event_type type = e->event;
	link_event_words(e, words, sizeof words);
	s->verbs->ack_cm_event(e);
	s->device_lost |= type == RDMA_CM_EVENT_DEVICE_REMOVAL;
	if (s->device_lost)
		session_fail(s, KVD_ECONNECT, "the RDMA device that led to %s was taken away",
			     s->client->addr.text);
	else if (type == RDMA_CM_EVENT_DISCONNECTED)
		session_fail(s, KVD_ECONNECT, "%s ended the connection (%s)", s->client->addr.text,
			     words);
}

/* The channel does not block: false if it has no event. */
static bool take_event(struct kvd_session *s)
{
	struct ibv_cq *cq;
	void *context;

	if (s->verbs->get_cq_event(s->comp, &cq, &context))
		return false;
	if (++s->events == 64) {
		s->verbs->ack_cq_events(s->cq, s->events);
		s->events = 0;
	}
	return true;
}

static void sleep_until(struct kvd_session *s, uint64_t until_ns)
{
	struct pollfd fds[2] = { { .fd = s->comp->fd, .events = POLLIN },
				 { .fd = s->channel->fd, .events = POLLIN } };
	uint64_t now = clock_ns();
	uint64_t ms = until_ns > now ? (until_ns - now + 999999) / 1000000 : 0;

	if (ibv_req_notify_cq(s->cq, 0) || flight_take(s) != 0)
		return;
	if (poll(fds, 2, ms > 1000 ? 1000 : (int)ms) <= 0)
		return;
	if (fds[0].revents & POLLIN)
		take_event(s);
	if (fds[1].revents & POLLIN)
		look_at_cm(s);
}

void flight_arm(struct kvd_session *s)
{
	int n = 0;

	flight_flush(s);
	if (s->connected && !s->broken) {
		while (take_event(s))
			;
		look_at_cm(s);
	}
	/* What completes between the request and the look may have used it up. */
	do {
		if (!s->connected || s->broken || s->done)
			break;
		n = ibv_req_notify_cq(s->cq, 0) ? -1 : flight_take(s);
	} while (n > 0);
}

/* An operation that takes too long ends the session: its fate is open. */
static void check_deadlines(struct kvd_session *s, uint64_t now)
{
	for (uint32_t i = 0; i < s->depth; i++) {
		const struct op *op = &s->ops[i];
		if (op->phase != PHASE_IDLE && !op->done && op->deadline_ns <= now) {
			session_fail(s, KVD_ETIMEDOUT, "%s did not answer within %d ms",
				     s->client->addr.text, s->client->options.timeout_ms);
			return;
		}
	}
}

/* What no completion tells. */
static void look_around(struct kvd_session *s, uint64_t now)
{
	if (now - s->last_cm_look_ns <= CM_LOOK_NS)
		return;
	s->last_cm_look_ns = now;
	look_at_cm(s);
	check_deadlines(s, now);
}

int flight_look(struct kvd_session *s)
{
	flight_flush(s);
	if (!s->broken && flight_take(s) == 0)
		look_around(s, clock_ns());
	return s->broken ? s->broken_code : 0;
}

/* 0: nothing came. */
static int poll_for_a_while(struct kvd_session *s, unsigned polls)
{
	int n = 0;

	for (unsigned i = 0; i < polls && !n; i++)
		n = flight_take(s);
	return n;
}

/* Until until_ns; 0: for wait_ns from the first time on that nothing has come, so that no
 * clock is asked where something has. */
static int poll_until(struct kvd_session *s, uint64_t until_ns, uint64_t wait_ns)
{
	int policy = s->client->options.poll;
	uint64_t now = 0, start = 0;
	unsigned polls = policy == KVD_POLL_EVENT ? 1 : SPIN_POLLS;
	bool spinning = false, slept = false;

	flight_flush(s);
	while (!s->done && !s->broken && s->in_flight) {
		int n = poll_for_a_while(s, polls);
		if (n > 0) {
			spinning = false;
			continue;
		}
		now = clock_ns();
		if (!start)
			start = now;
		if (!until_ns)
			until_ns = now + wait_ns;
		if (!spinning)
			spin_start(&s->spin, now);
		spinning = true;
		look_around(s, now);
		if (now >= until_ns || s->broken)
			break;
		if (policy == KVD_POLL_EVENT || (policy == KVD_POLL_ADAPTIVE &&
						   !spin_again(&s->spin, start, now))) {
			sleep_until(s, until_ns);
			slept = true;
			spinning = false;
		}
	}
	/* One that only spun is over a few polls after the last look. */
	if (start && policy != KVD_POLL_BUSY)
		spin_learn(&s->spin, (slept ? clock_ns() : now) - start);
	return s->done ? 0 : s->broken ? s->broken_code : 0;
}

int flight_poll(struct kvd_session *s, uint64_t until_ns)
{
	return poll_until(s, until_ns, 0);
}

int flight_poll_for(struct kvd_session *s, uint64_t wait_ns)
{
	return poll_until(s, 0, wait_ns);
}

void flight_abort(struct kvd_session *s)
{
	int code = s->broken_code;

	s->wr_count = 0;
	for (uint32_t i = 0; i < s->depth; i++) {
		struct op *op = &s->ops[i];
		if (op->phase == PHASE_IDLE || op->done)
			continue;
		bool unknown = op->class->changes &&
			       (code == KVD_ECONNECT || code == KVD_ETIMEDOUT);
		op_done(op, op->ended ? op->result : unknown ? KVD_EUNKNOWN : code);
	}
}

uint32_t flight_detached(const struct kvd_session *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->depth; i++)
		n += s->ops[i].phase != PHASE_IDLE && s->ops[i].class->detached;
	return n;
}

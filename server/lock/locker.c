/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The locker.
 *
 * Happy path: a client lost a compare-and-swap and asks to wait.  The locker sets
 * WAIT in the word; the holder's unlock (a compare-and-swap of its bare token)
 * then fails, and it says WIRE_UNLOCK instead; the locker writes the first waiter's
 * token into the word and answers it.  First come, first served: while somebody
 * waits the word is never free, so nobody can jump the queue.  (protocols.md, 8.)
 *
 * A holder that is gone: a connection's words are released only after its queue
 * pair is destroyed, when nothing that it sent can take effect any more (7).  Where
 * somebody waits that is seen at the next look; all the others a sweep finds (sweep.h).
 *
 * A holder that is silent: an unlock may have failed because of WAIT, and its
 * process is doing something else now.  So the locker READs the tokens that the
 * holder says it holds from its memory, which needs no help from its CPU: not among
 * them, and the lock is handed over.  Still among them after the lease: it is
 * fenced (its connection is closed) and the lock released as of the dead.
 *
 * A word that names nobody (a client may write anything there) is released (9), every second,
 * as not all that it keeps waiting asks for it: expiry and eviction pass on to other keys, and
 * must not have the holder of a lock fenced that nobody wants.
 *
 * Changes without a lock wait aside in the workers, which tell of those that a lock
 * keeps away for long.  The locker then looks after that stripe as if a client waited
 * there; and if clients do, the changes have their turn among them: a word of WAIT
 * alone, which is nobody's lock, but which nobody can take (8).
 */
#include "server/lock/locker.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/log_limit.h"
#include "server/lock/inbox.h"
#include "server/lock/lease.h"
#include "server/lock/sweep.h"
#include "server/lock/word.h"

#define WATCH_NS 100000000ull /* how long a change counts as waiting after it was told of */
#define LOOK_MS 1   /* between two looks at the queues */
#define LOOK_NS (LOOK_MS * 1000000ull / 2) /* at the least */
#define REST_MS 500 /* where there are none */
#define SWEEP_NS 1000000000ull /* a word of nobody stays for as long, and a bit */

struct locker {
	struct lockwords words; /* the thread's own, as is the next */
	struct sweep sweep;
	struct inbox inbox;
	pthread_t thread;
	bool started;
	_Atomic uint64_t waits, released;
};

/* ------------------------------------------------------ what others tell it */

struct locker_note *locker_note_new(void)
{
	return calloc(1, sizeof(struct locker_note));
}

/* At once: a message could come behind others that the thread has at hand, which would
 * then see a word of somebody who is not alive yet, and take the lock away (7). */
uint64_t locker_born(struct locker *l, struct locker_note *note, uint64_t number,
		     enum locker_role role)
{
	struct holder *h = &note->holder;

	h->number = number;
	h->may_write = role >= LOCKER_WRITES;
	h->may_hold = role >= LOCKER_HOLDS;
	return holders_add(&l->words.holders, h) ? h->id : 0;
}

void locker_dead(struct locker *l, struct locker_note **note)
{
	struct locker_note *n = *note;

	*note = NULL;
	if (!n->holder.id) { /* nothing was ever said of it */
		free(n);
		return;
	}
	n->message.kind = MSG_DEAD;
	inbox_append(&l->inbox, &n->message);
}

bool locker_wait(struct locker *l, struct conn *conn, const struct wire_request *request)
{
	return inbox_post(&l->inbox, &(struct message){ .kind = MSG_WAIT, .conn = conn, .request = *request });
}

/* Dropped: the token is not among those that its holder says it holds, so that the lock
 * goes to whoever waits at the next look at it. */
void locker_unlock(struct locker *l, uint64_t stripe, uint64_t token)
{
	inbox_post(&l->inbox, &(struct message){ .kind = MSG_UNLOCK, .stripe = stripe, .token = token });
}

/* Dropped: told again in a moment, as long as the change waits. */
void locker_watch(struct locker *l, uint64_t stripe)
{
	inbox_post(&l->inbox, &(struct message){ .kind = MSG_WATCH, .stripe = stripe });
}

void locker_forget(struct locker *l, struct conn *conn, struct locker_note *note)
{
	note->message.kind = MSG_FORGET;
	note->message.conn = conn;
	inbox_append(&l->inbox, &note->message);
}

/* Dropped: there will be another look. */
void locker_held(struct locker *l, uint64_t connection_id, uint64_t look,
		 const struct layout_held *held)
{
	struct message m = { .kind = MSG_HELD, .connection_id = connection_id, .look = look };

	memcpy(m.held, held, sizeof m.held);
	inbox_post(&l->inbox, &m);
}

/* ---------------------------------------------------------------- messages */

static void on_wait(struct locker *l, const struct message *m)
{
	uint64_t now = clock_ns(), word = lockword_get(&l->words, m->request.version);

	/* It has it: in a cluster an answer may have been withheld. */
	if ((word & ~LAYOUT_LOCK_WAIT) == m->request.token) {
		l->words.config.hooks.answer(m->conn, &m->request, WIRE_OK);
		return;
	}
	struct queue *q = queue_get(&l->words.queues, m->request.version);

	if (!q || !queue_push(&l->words.queues, q, m->conn, &m->request, now)) {
		l->words.config.hooks.answer(m->conn, &m->request, WIRE_EBUSY);
		return;
	}
	atomic_fetch_add_explicit(&l->waits, 1, memory_order_relaxed);
	lockword_serve(&l->words, q, now);
}

static void on_unlock(struct locker *l, const struct message *m)
{
	struct queue *q = queue_find(&l->words.queues, m->stripe);
	uint64_t word = lockword_get(&l->words, m->stripe);

	if ((word & ~LAYOUT_LOCK_WAIT) != m->token)
		return; /* it was handed over already */
	if (q)
		lockword_hand_over(&l->words, q, word);
	else
		lockword_swap(&l->words, m->stripe, word, 0);
	if (q)
		lockword_serve(&l->words, q, clock_ns());
}

static void on_watch(struct locker *l, const struct message *m)
{
	struct queue *q = queue_get(&l->words.queues, m->stripe);
	uint64_t now = clock_ns();

	if (!q)
		return;
	q->watched_ns = now + WATCH_NS;
	lockword_serve(&l->words, q, now);
}

/* The note whose part it is. */
static void forget_note(struct holder *h)
{
	free(h->leases);
	free((char *)h - offsetof(struct locker_note, holder));
}

static void on_forget(struct locker *l, struct conn *conn)
{
	queues_forget(&l->words.queues, conn);
	l->words.config.hooks.forgotten(conn);
}

static bool is_among(const struct layout_held *held, uint64_t stripe, uint64_t token)
{
	for (unsigned i = 0; i < LAYOUT_HELD_MAX; i++)
		if (held[i].token == token && held[i].stripe == stripe)
			return true;
	return false;
}

static void on_held(struct locker *l, const struct message *m)
{
	for (unsigned i = 0; i < QUEUES; i++) {
		for (struct queue *q = l->words.queues.at[i], *next; q; q = next) {
			uint64_t word = lockword_get(&l->words, q->stripe);
			struct holder *h = lockword_holder(&l->words, word);
			next = q->next;
			/* Only for the very word that was looked at, and by a READ that was
			 * posted after it had been seen: an earlier one may not know of it. */
			if (!h || h->id != m->connection_id ||
			    (word & ~LAYOUT_LOCK_WAIT) != q->seen || m->look < q->asked)
				continue;
			if (is_among(m->held, q->stripe, q->seen)) {
				q->since_ns = lease_since(&l->words, h, q->stripe, q->seen,
							  q->since_ns);
				continue;
			}
			atomic_fetch_add_explicit(&l->released, 1, memory_order_relaxed);
			lockword_hand_over(&l->words, q, word);
			lockword_serve(&l->words, q, clock_ns());
		}
	}
}

static void handle(struct locker *l, struct message *m)
{
	switch (m->kind) {
	case MSG_DEAD:
		sweep_ended(&l->sweep, &((struct locker_note *)m)->holder);
		break;
	case MSG_WAIT:
		on_wait(l, m);
		break;
	case MSG_UNLOCK:
		on_unlock(l, m);
		break;
	case MSG_WATCH:
		on_watch(l, m);
		break;
	case MSG_FORGET:
		on_forget(l, m->conn);
		break;
	case MSG_HELD:
		on_held(l, m);
		break;
	}
}

/* ------------------------------------------------------------------ thread */

static void take_messages(struct locker *l)
{
	bool is_busy = l->words.queues.count || sweep_is_due(&l->sweep);

	for (struct message *m = inbox_take(&l->inbox, is_busy ? LOOK_MS : REST_MS), *next; m;
	     m = next) {
		next = m->next;
		/* Afterwards a note may be in the inbox again, or is the sweep's. */
		bool is_note = m->kind == MSG_FORGET || m->kind == MSG_DEAD;
		handle(l, m);
		if (!is_note)
			free(m);
	}
}

static void serve_all(struct lockwords *l, uint64_t now)
{
	for (unsigned i = 0; l->queues.count && i < QUEUES; i++)
		for (struct queue *q = l->queues.at[i], *next; q; q = next) {
			next = q->next;
			lockword_serve(l, q, now);
		}
}

static void *run(void *arg)
{
	struct locker *l = arg;
	uint64_t served_ns = 0, swept_ns = 0;

	while (!inbox_is_closed(&l->inbox)) {
		take_messages(l);
		uint64_t now = clock_ns();
		/* Many messages are no reason to look more often. */
		if (now - served_ns >= LOOK_NS) {
			serve_all(&l->words, now);
			served_ns = now;
		}
		if (now - swept_ns >= SWEEP_NS) {
			l->words.wants_sweep = true;
			swept_ns = now;
		}
		sweep_step(&l->sweep, now);
	}
	return NULL;
}

int locker_new(const struct locker_config *config, struct locker **locker, struct err *err)
{
	struct locker *l = calloc(1, sizeof *l);

	if (!l)
		return err_set(err, -1, "out of memory");
	inbox_init(&l->inbox);
	if (lockwords_init(&l->words, config, err))
		goto fail;
	l->sweep = (struct sweep){ .words = &l->words, .forget = forget_note };
	int rc = pthread_create(&l->thread, NULL, run, l);
	if (rc) {
		err_set_errno(err, -1, rc, "can't start the locker");
		goto fail;
	}
	l->started = true;
	*locker = l;
	return 0;
fail:
	locker_delete(&l);
	return -1;
}

/* After every connection was forgotten. */
void locker_delete(struct locker **locker)
{
	struct locker *l = *locker;

	if (!l)
		return;
	if (l->started) {
		inbox_close(&l->inbox);
		pthread_join(l->thread, NULL);
	}
	if (l->sweep.words)
		sweep_drop(&l->sweep);
	lockwords_fini(&l->words);
	inbox_fini(&l->inbox);
	free(l);
	*locker = NULL;
}

void locker_stats(const struct locker *l, struct locker_stats *stats)
{
	*stats = (struct locker_stats){
		.waits = atomic_load_explicit(&l->waits, memory_order_relaxed),
		.handovers = atomic_load_explicit(&l->words.handovers, memory_order_relaxed),
		.recovered = atomic_load_explicit(&l->words.recovered, memory_order_relaxed),
		.released = atomic_load_explicit(&l->released, memory_order_relaxed),
		.fenced = atomic_load_explicit(&l->words.fenced, memory_order_relaxed),
	};
}

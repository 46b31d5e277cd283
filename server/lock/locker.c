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
 * pair is destroyed, when nothing that it sent can take effect any more (7).
 *
 * A holder that is silent: an unlock may have failed because of WAIT, and its
 * process is doing something else now.  So the locker READs the tokens that the
 * holder says it holds from its memory, which needs no help from its CPU: not among
 * them, and the lock is handed over.  Still among them after the lease: it is
 * fenced (its connection is closed) and the lock released as of the dead.
 *
 * A word that names nobody (a client may write anything there) is released (9).
 *
 * Changes without a lock wait aside in the workers, which tell of those that a lock
 * keeps away for long.  The locker then looks after that stripe as if a client waited
 * there; and if clients do, the changes have their turn among them: a word of WAIT
 * alone, which is nobody's lock, but which nobody can take (8).
 */
#include "server/lock/locker.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/log_limit.h"
#include "server/lock/inbox.h"
#include "server/lock/word.h"

#define WATCH_NS 100000000ull /* how long a change counts as waiting after it was told of */
#define LOOK_MS 1   /* between two looks at the queues */
#define REST_MS 500 /* where there are none */

struct locker {
	struct lockwords words; /* the thread's own */
	struct inbox inbox;
	pthread_t thread;
	bool started;
	_Atomic uint64_t waits, recovered, released;
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
	if (n->holder.may_write) {
		n->message.kind = MSG_DEAD;
		inbox_append(&l->inbox, &n->message);
		return;
	}
	/* No word can have its token, but one that somebody else wrote. */
	if (n->holder.id)
		holders_remove(&l->words.holders, &n->holder);
	free(n);
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
	uint64_t now = clock_ns();
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

/* Everything that the dead connection held: one look at every word. */
static void on_dead(struct locker *l, struct holder *h)
{
	uint64_t id = h->id & LAYOUT_LOCK_CONNECTION_MASK, now = clock_ns();
	unsigned count = 0;

	holders_end(h);
	for (uint64_t i = 0; i < l->words.config.stripes; i++) {
		uint64_t word = lockword_get(&l->words, i);
		if (!word || layout_token_connection(word) != id)
			continue;
		struct queue *q = queue_find(&l->words.queues, i);
		if (q)
			lockword_hand_over(&l->words, q, word);
		else
			lockword_swap(&l->words, i, word, 0);
		if (q)
			lockword_serve(&l->words, q, now);
		count++;
	}
	atomic_fetch_add_explicit(&l->recovered, count, memory_order_relaxed);
	if (count)
		log_limited(LOG_LEVEL_INFO, "locks of a connection that is gone released",
			    "released %u lock%s of connection %llu, which is gone", count,
			    count == 1 ? "" : "s", (unsigned long long)h->number);
	/* No word has its token any more: another may have its low bits. */
	holders_remove(&l->words.holders, h);
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
			const struct holder *h = lockword_holder(&l->words, word);
			next = q->next;
			/* Only for the very word that was looked at, and by a READ that was
			 * posted after it had been seen: an earlier one may not know of it. */
			if (!h || h->id != m->connection_id ||
			    (word & ~LAYOUT_LOCK_WAIT) != q->seen || m->look < q->asked ||
			    is_among(m->held, q->stripe, q->seen))
				continue;
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
		on_dead(l, &((struct locker_note *)m)->holder);
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

static void *run(void *arg)
{
	struct locker *l = arg;

	while (!inbox_is_closed(&l->inbox)) {
		for (struct message *m = inbox_take(&l->inbox, l->words.queues.count ? LOOK_MS : REST_MS),
				    *next; m; m = next) {
			next = m->next;
			/* Afterwards a note may be in the inbox again. */
			bool is_note = m->kind == MSG_FORGET;
			handle(l, m);
			if (!is_note)
				free(m);
		}
		uint64_t now = clock_ns();
		for (unsigned i = 0; l->words.queues.count && i < QUEUES; i++)
			for (struct queue *q = l->words.queues.at[i], *next; q; q = next) {
				next = q->next;
				lockword_serve(&l->words, q, now);
			}
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
		.recovered = atomic_load_explicit(&l->recovered, memory_order_relaxed),
		.released = atomic_load_explicit(&l->released, memory_order_relaxed),
		.fenced = atomic_load_explicit(&l->words.fenced, memory_order_relaxed),
	};
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the locker does with one lock word: WAIT, hand-over, the look at a silent holder,
 * the turn of changes.  When and why: locker.c.
 */
#include "server/lock/word.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/layout.h"
#include "common/log.h"
#include "common/log_limit.h"

#define LOOK_NS 5000000ull /* how often a silent holder is looked at */
#define TURN_NS 10000000ull /* how often changes have their turn, where clients wait too */
#define OPEN_NS 2000000ull  /* and for how long */
#define AGAIN_NS 1000000000ull /* between two tries to have a way to the words */
#define TRIES_MAX 8u /* at a word that changes between look and swap; the next look goes on */

struct holder *lockword_holder(struct lockwords *l, uint64_t word)
{
	struct holder *h = holders_find(&l->holders, layout_token_connection(word));

	return h && h->may_hold && !h->has_ended ? h : NULL;
}

static void answer(struct lockwords *l, struct waiter *w, enum wire_status status)
{
	l->config.hooks.answer(w->conn, &w->request, status);
	free(w);
}

uint64_t lockword_get(const struct lockwords *l, uint64_t stripe)
{
	return atomic_load_explicit(&l->config.loopback.locks[stripe], memory_order_acquire);
}

/* It can't be made while the device's port is down, and is made again when it is up. */
bool lockwords_are_reached(struct lockwords *l)
{
	struct err err;

	if (l->loopback)
		return true;
	if (clock_ns() < l->again_ns)
		return false;
	if (loopback_new(&l->config.loopback, &l->loopback, &err)) {
		if (!l->is_cut)
			log_error("no way to the lock words, so locks wait (is the port of the first device "
				  "down?): %s", err.text);
		l->is_cut = true;
		l->again_ns = clock_ns() + AGAIN_NS;
		return false;
	}
	if (l->is_cut)
		log_info("there is a way to the lock words again");
	l->is_cut = false;
	return true;
}

/* Swaps a lock word; true if it was `expected`. */
bool lockword_swap(struct lockwords *l, uint64_t stripe, uint64_t expected, uint64_t desired)
{
	struct err err;
	uint64_t old;

	if (!lockwords_are_reached(l))
		return false;
	if (!loopback_cas(l->loopback, stripe, expected, desired, &old, &err)) {
		l->has_failed = false;
		return old == expected;
	}
	log_limited(LOG_LEVEL_ERROR, "no way to the lock words", "%s", err.text);
	loopback_delete(&l->loopback); /* what it had posted has taken effect, or never will */
	l->failures++;
	/* At once, but where that failed too: each try may take half a second. */
	l->again_ns = clock_ns() + (l->has_failed ? AGAIN_NS : 0);
	l->has_failed = true;
	return lockword_get(l, stripe) == desired; /* tokens never repeat: it was ours */
}

/* The turn of changes that wait: they are tried again at once. */
static bool open_to_changes(struct lockwords *l, struct queue *q, uint64_t word, uint64_t now)
{
	if (!lockword_swap(l, q->stripe, word, LAYOUT_LOCK_WAIT))
		return false;
	q->opened_ns = now;
	l->config.hooks.wake_all(l->config.hooks.arg);
	return true;
}

/* Gives the lock to the first waiter, or frees it if there is none. */
bool lockword_hand_over(struct lockwords *l, struct queue *q, uint64_t word)
{
	uint64_t next = 0, now = clock_ns();

	if (q->first && now < q->watched_ns && now - q->opened_ns > TURN_NS)
		return open_to_changes(l, q, word, now);
	if (q->first)
		next = q->first->request.token | (q->first->next ? LAYOUT_LOCK_WAIT : 0);
	if (!lockword_swap(l, q->stripe, word, next))
		return false;
	if (q->first) {
		atomic_fetch_add_explicit(&l->handovers, 1, memory_order_relaxed);
		answer(l, queue_pop(&l->queues, q), WIRE_OK);
	}
	return true;
}

/* A word that named nobody was released. */
static void count_cleared(struct lockwords *l, uint64_t word)
{
	struct holder *h = holders_find(&l->holders, layout_token_connection(word));

	if (!h || !h->has_ended)
		return;
	h->released++;
	atomic_fetch_add_explicit(&l->recovered, 1, memory_order_relaxed);
}

bool lockword_clear(struct lockwords *l, uint64_t stripe)
{
	struct queue *q = queue_find(&l->queues, stripe);
	uint64_t word = lockword_get(l, stripe);

	/* WAIT alone may be the turn of changes: where there is a queue it is looked after. */
	if (!word || lockword_holder(l, word) || (word == LAYOUT_LOCK_WAIT && q))
		return false;
	if (!(q ? lockword_hand_over(l, q, word) : lockword_swap(l, stripe, word, 0)))
		return false;
	count_cleared(l, word);
	return true;
}

static void fence(struct lockwords *l, struct queue *q, struct holder *h)
{
	log_limited(LOG_LEVEL_WARN, "a lock held for longer than its lease",
		    "connection %llu holds a lock for longer than its lease and others wait: it is cut "
		    "off", (unsigned long long)h->number);
	atomic_fetch_add_explicit(&l->fenced, 1, memory_order_relaxed);
	l->config.hooks.fence(l->config.hooks.arg, h->id);
	q->since_ns = clock_ns(); /* until it is dead */
	free(h->leases);
	h->leases = NULL;
}

static void look_at_holder(struct lockwords *l, struct queue *q, struct holder *h,
			   uint64_t word, uint64_t now)
{
	if (q->seen != word) {
		q->seen = word;
		q->asked = UINT64_MAX;
		q->since_ns = q->looked_ns = now;
		return;
	}
	if (now - q->since_ns > l->config.lease_ns) {
		fence(l, q, h);
		return;
	}
	if (now - q->looked_ns < LOOK_NS)
		return;
	if (q->asked == UINT64_MAX)
		q->asked = l->looks + 1;
	/* One look tells of all that it holds. */
	if (now - h->looked_ns < LOOK_NS)
		return;
	q->looked_ns = h->looked_ns = now;
	l->looks++;
	l->config.hooks.read_held(l->config.hooks.arg, h->id, l->looks);
}

/* Goes on with one stripe; it is dropped when nobody waits and WAIT is off. */
void lockword_serve(struct lockwords *l, struct queue *q, uint64_t now)
{
	for (struct waiter *w; (w = queue_expired(&l->queues, q, now));)
		answer(l, w, WIRE_EBUSY);
	for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
		uint64_t word = lockword_get(l, q->stripe), token = word & ~LAYOUT_LOCK_WAIT;
		struct holder *holder = token ? lockword_holder(l, token) : NULL;
		if (!q->first && (!word || now >= q->watched_ns)) {
			/* Nobody waits any more: WAIT off, or the holder's own business. */
			if (!(word & LAYOUT_LOCK_WAIT) || lockword_swap(l, q->stripe, word, token)) {
				queue_drop(&l->queues, q);
				return;
			}
		} else if (!token && now - q->opened_ns < OPEN_NS) {
			return;
		} else if (!holder) {
			l->wants_sweep |= token != 0;
			if (lockword_hand_over(l, q, word))
				count_cleared(l, word);
		} else if (word & LAYOUT_LOCK_WAIT) {
			look_at_holder(l, q, holder, token, now);
			return;
		} else {
			lockword_swap(l, q->stripe, word, word | LAYOUT_LOCK_WAIT);
		}
	}
}

/* -------------------------------------------------------------- start and end */

/* A device whose atomics the CPU does not see would let two hold one lock. */
static int litmus(struct lockwords *l, struct err *err)
{
	uint64_t old, token = layout_token(LAYOUT_LOCK_CONNECTION_MASK, 1);

	if (loopback_cas(l->loopback, 0, 0, token, &old, err))
		return -1;
	if (old != 0 || lockword_get(l, 0) != token)
		return err_set(err, -1, "the CPU does not see a compare-and-swap of the device: it can't "
					"serve locks");
	return loopback_cas(l->loopback, 0, token, 0, &old, err);
}

int lockwords_init(struct lockwords *l, const struct locker_config *config, struct err *err)
{
	l->config = *config;
	holders_init(&l->holders, LAYOUT_LOCK_CONNECTION_BITS, config->last_id);
	return loopback_new(&config->loopback, &l->loopback, err) || litmus(l, err) ? -1 : 0;
}

void lockwords_fini(struct lockwords *l)
{
	queues_clear(&l->queues);
	loopback_delete(&l->loopback);
	holders_fini(&l->holders);
}

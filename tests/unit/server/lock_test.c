/* SPDX-License-Identifier: BSD-2-Clause */
/* The locker, as clients see it: who gets a lock, when, and from whom it is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/hash.h"
#include "tests/lib/group.h"
#include "tests/lib/peer.h"

#define LONG_MS 60000u /* no wait is as long */
#define QUIET_MS 30    /* that nothing comes in, where nothing may */
#define PEERS 4u
/* Enough for a slow machine to ask for figures under a lock. */
#define LEASE "4000"
#define LEASE_MS 4000u

static struct kvd kvd;
static struct peer peer[PEERS];
static struct peer *const a = &peer[0], *const b = &peer[1], *const c = &peer[2], *const d = &peer[3];
static bool gone[PEERS];
static uint64_t stripe, tokens;

static int begin(void **state)
{
	(void)state;
	kvd_start(&kvd, (const char *const[]){ "--memory", "32M", "--workers", "2", "--lease", LEASE,
					       "--log-level", "error", "--handshakes", "0", NULL });
	return 0;
}

static int end(void **state)
{
	(void)state;
	kvd_stop(&kvd);
	return 0;
}

static bool is_any_held(void)
{
	const struct wire_welcome *w = &d->c.welcome;
	uint64_t bytes = w->stripes * sizeof(uint64_t);

	for (uint64_t at = 0; at < bytes; at += RAW_REACH) {
		uint32_t n = bytes - at < RAW_REACH ? (uint32_t)(bytes - at) : RAW_REACH;
		assert_int_equal(raw_reach(&d->c, IBV_WR_RDMA_READ, w->lock_addr + at, w->lock_rkey, n),
				 IBV_WC_SUCCESS);
		for (uint32_t i = 0; i < n; i++)
			if (d->raw.reach[i])
				return true;
	}
	return false;
}

/* Each test has a stripe of its own, and begins when kvd has noticed that the peers of those before it left,
 * and released what they held. */
static int enter(void **state)
{
	(void)state;
	for (unsigned i = 0; i < PEERS; i++) {
		peer_enter(&peer[i], &kvd);
		gone[i] = false;
	}
	for (uint64_t end_ms = raw_now_ms() + PEER_PATIENCE_MS;
	     peer_stat(d, "connections") > PEERS || is_any_held();)
		assert_true(raw_now_ms() < end_ms);
	stripe++;
	return 0;
}

static void leave_one(struct peer *p)
{
	if (!gone[p - peer])
		peer_leave(p);
	gone[p - peer] = true;
}

static int leave(void **state)
{
	(void)state;
	for (unsigned i = 0; i < PEERS; i++)
		leave_one(&peer[i]);
	return 0;
}

static void say_it_holds(struct peer *p, uint64_t token)
{
	p->held[0].stripe = stripe;
	__atomic_store_n(&p->held[0].token, token, __ATOMIC_RELEASE);
}

/* As a client does when the lock is free. */
static uint64_t take(struct peer *p)
{
	uint64_t token = peer_token(p, ++tokens);

	say_it_holds(p, token);
	assert_true(peer_lock_swap(p, stripe, 0, token));
	return token;
}

/* Asks for the lock, and does not wait for the answer. */
static uint64_t wait_for(struct peer *p, uint64_t ttl_ms)
{
	struct wire_request q = { .op = WIRE_LOCK, .version = stripe, .token = peer_token(p, ++tokens),
				  .ttl_ms = ttl_ms };

	say_it_holds(p, q.token);
	assert_true(peer_say(p, &q, NULL, NULL));
	return q.token;
}

static int unlock(struct peer *p, uint64_t token)
{
	say_it_holds(p, 0);
	return peer_ask_text(p, (struct wire_request){ .op = WIRE_UNLOCK, .version = stripe,
						       .token = token }, NULL, NULL);
}

static int hear(struct peer *p)
{
	return peer_hear(p, PEER_PATIENCE_MS);
}

static bool hears_nothing(struct peer *p)
{
	return peer_hear(p, QUIET_MS) == -1 && !p->c.gone;
}

/* Until the word is that, without regard to WAIT or with it. */
static void wait_word(struct peer *p, uint64_t word)
{
	uint64_t end_ms = raw_now_ms() + PEER_PATIENCE_MS, now;

	while ((now = peer_lock_word(p, stripe)) != word && raw_now_ms() < end_ms)
		;
	assert_int_equal(now, word);
}

/* ------------------------------------------------------------------------- ids */

/* Who says no good hello spends none. */
static void test_ids(void **state)
{
	uint64_t last = d->c.welcome.connection_id, number;

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		leave_one(c);
		peer_connect(c, &kvd);
		gone[2] = false;
	}
	leave_one(c);
	peer_enter(c, &kvd);
	gone[2] = false;
	number = c->c.welcome.connection_id;
	assert_int_equal(number, last + 1);
}

/* ------------------------------------------------------------------- in order */

static void test_nobody_waits(void **state)
{
	(void)state;
	uint64_t token = wait_for(a, LONG_MS);
	assert_int_equal(hear(a), WIRE_OK);
	assert_int_equal(a->reply.op, WIRE_LOCK);
	/* Nobody else waits: it can be unlocked without kvd. */
	assert_true(peer_lock_swap(a, stripe, token, 0));
}

static void test_hand_over(void **state)
{
	uint64_t handovers = peer_stat(d, "locks.handovers"), waits = peer_stat(d, "locks.waits");

	(void)state;
	uint64_t first = take(a), second = wait_for(b, LONG_MS);
	wait_word(c, first | LAYOUT_LOCK_WAIT);
	assert_true(hears_nothing(b));
	/* The holder's own unlock fails, and it tells kvd. */
	assert_false(peer_lock_swap(a, stripe, first, 0));
	assert_int_equal(unlock(a, first), WIRE_OK);
	assert_int_equal(hear(b), WIRE_OK);
	assert_int_equal(peer_lock_word(b, stripe), second);
	assert_true(peer_lock_swap(b, stripe, second, 0));
	assert_int_equal(peer_stat(d, "locks.handovers"), handovers + 1);
	assert_true(peer_stat(d, "locks.waits") > waits);
}

static void test_order(void **state)
{
	uint64_t token[PEERS];

	(void)state;
	token[0] = take(a);
	uint64_t waits = peer_stat(a, "locks.waits");
	for (unsigned i = 1; i < PEERS; i++) {
		token[i] = wait_for(&peer[i], LONG_MS);
		assert_true(peer_wait_stat(a, "locks.waits", waits + i));
	}
	for (unsigned i = 1; i < PEERS; i++) {
		assert_int_equal(unlock(&peer[i - 1], token[i - 1]), WIRE_OK);
		assert_int_equal(hear(&peer[i]), WIRE_OK);
		assert_int_equal(peer_lock_word(&peer[i], stripe),
				 token[i] | (i < PEERS - 1 ? LAYOUT_LOCK_WAIT : 0));
	}
	assert_true(peer_lock_swap(d, stripe, token[3], 0));
}

/* Who waited long enough is told so; the holder can unlock by itself again. */
static void test_time_out(void **state)
{
	uint64_t start = raw_now_ms();

	(void)state;
	uint64_t token = take(a);
	wait_for(b, 20);
	assert_int_equal(hear(b), WIRE_EBUSY);
	assert_true(raw_now_ms() - start >= 20);
	wait_word(c, token);
	assert_true(peer_lock_swap(a, stripe, token, 0));
}

/* One that goes while it waits is passed over. */
static void test_waiter_leaves(void **state)
{
	(void)state;
	uint64_t first = take(a);
	wait_for(b, LONG_MS);
	wait_word(d, first | LAYOUT_LOCK_WAIT);
	uint64_t third = wait_for(c, LONG_MS);
	leave_one(b);
	assert_int_equal(unlock(a, first), WIRE_OK);
	assert_int_equal(hear(c), WIRE_OK);
	assert_int_equal(peer_lock_word(c, stripe), third);
	assert_true(peer_lock_swap(c, stripe, third, 0));
}

static void test_refused(void **state)
{
	struct wire_request q = { .op = WIRE_LOCK, .version = a->c.welcome.stripes,
				  .token = peer_token(a, ++tokens), .ttl_ms = LONG_MS };

	(void)state;
	assert_int_equal(peer_ask(a, &q, NULL, NULL), WIRE_EINVALID);
	q.version = stripe;
	q.token = 0;
	assert_int_equal(peer_ask(a, &q, NULL, NULL), WIRE_EINVALID);
	/* Of a lock that it does not hold: nothing happens. */
	uint64_t token = take(b);
	assert_int_equal(unlock(a, peer_token(a, ++tokens)), WIRE_OK);
	assert_int_equal(peer_lock_word(b, stripe), token);
	assert_true(peer_lock_swap(b, stripe, token, 0));
	/* In another's name. */
	q.token = token;
	assert_true(peer_say(a, &q, NULL, NULL));
	assert_true(peer_is_ended(a));
}

/* So many may be unanswered, and no more. */
static void test_credits(void **state)
{
	uint64_t errors = peer_stat(d, "protocol_errors"), waits = peer_stat(d, "locks.waits");

	(void)state;
	take(a);
	for (unsigned i = 0; i < b->c.welcome.credits; i++)
		wait_for(b, LONG_MS);
	assert_true(peer_wait_stat(d, "locks.waits", waits + b->c.welcome.credits));
	assert_int_equal(peer_stat(d, "protocol_errors"), errors);
	wait_for(b, LONG_MS);
	assert_true(peer_is_ended(b));
	assert_int_equal(peer_stat(d, "protocol_errors"), errors + 1);
}

/* ----------------------------------------------------------- holders who do not */

/* The token is not among those that it says it holds: its unlock was lost. */
static void test_let_go(void **state)
{
	uint64_t released = peer_stat(d, "locks.released");

	(void)state;
	take(a);
	say_it_holds(a, 0);
	uint64_t second = wait_for(b, LONG_MS);
	assert_int_equal(hear(b), WIRE_OK);
	assert_int_equal(peer_lock_word(b, stripe), second);
	assert_int_equal(peer_stat(d, "locks.released"), released + 1);
	assert_int_equal(peer_ask_text(a, (struct wire_request){ .op = WIRE_PING }, NULL, NULL),
			 WIRE_OK);
}

/* As long as it says so it keeps the lock, up to the lease; then it is cut off. */
static void test_lease(void **state)
{
	uint64_t fenced = peer_stat(d, "locks.fenced"), start = raw_now_ms();

	(void)state;
	take(a);
	uint64_t second = wait_for(b, LONG_MS);
	assert_int_equal(hear(b), WIRE_OK);
	assert_true(raw_now_ms() - start >= LEASE_MS);
	assert_int_equal(peer_lock_word(b, stripe), second);
	assert_true(peer_is_ended(a));
	assert_true(peer_stat(d, "locks.fenced") > fenced);
}

/* Who gives up and asks again does not give the holder more time. */
static void test_lease_goes_on(void **state)
{
	uint64_t fenced = peer_stat(d, "locks.fenced"), start = raw_now_ms();
	unsigned waits = 0;
	int status;

	(void)state;
	uint64_t token = take(a);
	/* No wait ends when the lease does: who is fenced then is not who holds the word. */
	do {
		wait_for(b, LEASE_MS * 2 / 5);
		status = hear(b);
		if (status == WIRE_EBUSY) /* nobody waits for a moment */
			wait_word(c, token);
		waits++;
	} while (status == WIRE_EBUSY && raw_now_ms() - start < 4 * LEASE_MS);
	assert_int_equal(status, WIRE_OK);
	assert_true(waits > 1 && raw_now_ms() - start >= LEASE_MS);
	assert_true(peer_is_ended(a));
	assert_true(peer_stat(d, "locks.fenced") > fenced);
}

/* A holder's end releases all that it held, whether somebody waits or not. */
static void test_dead(void **state)
{
	uint64_t recovered = peer_stat(d, "locks.recovered"), waited = stripe, alone = stripe + 1;

	(void)state;
	take(a);
	uint64_t second = wait_for(b, LONG_MS);
	stripe = alone;
	take(a);
	leave_one(a);
	assert_int_equal(hear(b), WIRE_OK);
	wait_word(c, 0);
	stripe = waited;
	assert_int_equal(peer_lock_word(b, stripe), second);
	stripe = alone;
	assert_int_equal(peer_stat(d, "locks.recovered"), recovered + 2);
}

/* A word of nobody, which any client may write. */
static void test_forged(void **state)
{
	(void)state;
	assert_true(peer_lock_swap(a, stripe, 0, layout_token(LAYOUT_LOCK_CONNECTION_MASK, 9)));
	uint64_t token = wait_for(b, LONG_MS);
	assert_int_equal(hear(b), WIRE_OK);
	assert_int_equal(peer_lock_word(b, stripe), token);
	/* WAIT, where nobody waits. */
	assert_true(peer_lock_swap(b, stripe, token, LAYOUT_LOCK_WAIT));
	token = wait_for(c, LONG_MS);
	assert_int_equal(hear(c), WIRE_OK);
	assert_int_equal(peer_lock_word(c, stripe), token);
}

/* --------------------------------------------------------------------- changes */

/* The key's stripe is the test's from here on. */
static struct wire_request change_of(enum wire_op op, const char *key, uint64_t token)
{
	const struct wire_welcome *w = &a->c.welcome;
	struct hash hash = hash_key(w->hash_seed, key, strlen(key));

	stripe = layout_stripe(hash.b, w->stripes);
	return (struct wire_request){ .op = (uint8_t)op, .key_bytes = (uint16_t)strlen(key),
				      .value_bytes = op == WIRE_DELETE ? 0 : 5, .token = token };
}

/* Under a lock its holder alone changes anything; others have their turn behind it. */
static void test_change(void **state)
{
	struct wire_request q = change_of(WIRE_PUT, "change", 0);

	(void)state;
	uint64_t aside = peer_stat(d, "set_aside"), token = take(a);
	assert_true(peer_say(b, &q, "change", "by b "));
	assert_true(peer_wait_stat(d, "set_aside", aside + 1));
	assert_true(hears_nothing(b));
	q.token = token;
	assert_int_equal(peer_ask(a, &q, "change", "by a "), WIRE_OK);
	/* kvd looks after the stripe for b's sake. */
	wait_word(c, token | LAYOUT_LOCK_WAIT);
	assert_int_equal(unlock(a, token), WIRE_OK);
	assert_int_equal(hear(b), WIRE_OK);
	assert_int_equal(peer_ask_text(c, (struct wire_request){ .op = WIRE_GET }, "change", NULL),
			 WIRE_OK);
	assert_memory_equal(c->payload, "by b ", 5);
	wait_word(c, 0);
	/* A token that holds nothing: tried again for a while, then given up. */
	q.token = token;
	assert_true(peer_say(a, &q, "change", "late "));
	assert_int_equal(hear(a), WIRE_EBUSY);
}

static void test_pull(void **state)
{
	struct wire_request q = change_of(WIRE_PUT, "pull", 0);
	uint8_t *value = b->lent + sizeof *b->held * LAYOUT_HELD_MAX;
	struct wire_segment one = { .addr = (uintptr_t)value, .bytes = 9000,
				    .rkey = b->lent_mr->rkey };

	(void)state;
	memset(value, 'v', 9000);
	q.flags = WIRE_PULL;
	q.value_bytes = 9000;
	q.segments = 1;
	q.value_checksum = hash_bytes(value, 9000);
	uint64_t pulls = peer_stat(d, "pulls"), token = take(a);
	assert_true(peer_say(b, &q, "pull", &one));
	assert_true(peer_wait_stat(d, "pulls", pulls + 1));
	wait_word(c, token | LAYOUT_LOCK_WAIT);
	assert_true(hears_nothing(b));
	assert_int_equal(unlock(a, token), WIRE_OK);
	assert_int_equal(hear(b), WIRE_OK);
}

/* A lock in the way of a flush, whose holder holds nothing: it is asked. */
static void test_flush(void **state)
{
	struct wire_request q = change_of(WIRE_PUT, "flushed", 0), flush = { .op = WIRE_FLUSH };
	uint64_t end_ms = raw_now_ms() + PEER_PATIENCE_MS;
	int status;

	(void)state;
	assert_int_equal(peer_ask(b, &q, "flushed", "value"), WIRE_OK);
	assert_true(peer_lock_swap(a, stripe, 0, peer_token(c, ++tokens)));
	do {
		status = peer_ask(b, &flush, NULL, NULL);
		flush.version = status == WIRE_OK ? b->reply.version : flush.version;
	} while ((status == WIRE_EBUSY || flush.version) && raw_now_ms() < end_ms);
	assert_int_equal(status, WIRE_OK);
	assert_int_equal(peer_stat(d, "keys"), 0);
	assert_int_equal(peer_lock_word(d, stripe), 0);
}

/* A word of nobody goes though nobody asks for the lock: here expiry passes it by. */
static void test_nobody(void **state)
{
	struct wire_request q = change_of(WIRE_PUT, "expires", 0);

	(void)state;
	q.ttl_ms = 100;
	uint64_t keys = peer_stat(d, "keys");
	assert_int_equal(peer_ask(b, &q, "expires", "value"), WIRE_OK);
	assert_true(peer_lock_swap(a, stripe, 0, layout_token(LAYOUT_LOCK_CONNECTION_MASK, 9)));
	for (uint64_t end_ms = raw_now_ms() + PEER_PATIENCE_MS;
	     peer_stat(d, "keys") > keys && raw_now_ms() < end_ms;)
		;
	assert_int_equal(peer_stat(d, "keys"), keys);
	assert_int_equal(peer_lock_word(d, stripe), 0);
}

/* Where clients wait in a row, changes come in between. */
static void test_turn(void **state)
{
	struct wire_request q = change_of(WIRE_PUT, "turn", 0);

	(void)state;
	uint64_t token = take(a);
	assert_true(peer_say(b, &q, "turn", "value"));
	wait_word(d, token | LAYOUT_LOCK_WAIT); /* for the change */
	uint64_t waits = peer_stat(d, "locks.waits"), second = wait_for(c, LONG_MS);
	assert_true(peer_wait_stat(d, "locks.waits", waits + 1));
	assert_int_equal(unlock(a, token), WIRE_OK);
	int status = peer_hear(b, LEASE_MS / 3);
	assert_int_equal(hear(c), WIRE_OK);
	if (status == -1) {
		/* kvd's thread was not there while it was the changes' turn: the next one is b's. */
		assert_int_equal(unlock(c, second), WIRE_OK);
		assert_int_equal(hear(b), WIRE_OK);
		wait_word(d, 0);
		return;
	}
	assert_int_equal(status, WIRE_OK);
	wait_word(c, second);
	assert_true(peer_lock_swap(c, stripe, second, 0));
}

/* A client whose change waits goes: the change is forgotten. */
static void test_change_forgotten(void **state)
{
	struct wire_request q = change_of(WIRE_PUT, "forgotten", 0);

	(void)state;
	uint64_t aside = peer_stat(d, "set_aside"), token = take(a);
	assert_true(peer_say(b, &q, "forgotten", "value"));
	assert_true(peer_wait_stat(d, "set_aside", aside + 1));
	uint64_t connections = peer_stat(d, "connections");
	leave_one(b);
	for (uint64_t end_ms = raw_now_ms() + PEER_PATIENCE_MS;
	     peer_stat(d, "connections") >= connections && raw_now_ms() < end_ms;)
		;
	unlock(a, token);
	wait_word(d, 0);
	for (uint64_t end_ms = raw_now_ms() + QUIET_MS; raw_now_ms() < end_ms;)
		assert_int_equal(peer_ask_text(c, (struct wire_request){ .op = WIRE_GET }, "forgotten",
					       NULL), WIRE_NOT_FOUND);
}

int main(int argc, char **argv)
{
	kvd_be(argc, argv);
#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)
	const struct CMUnitTest tests[] = {
		TEST(test_ids), TEST(test_nobody_waits), TEST(test_hand_over), TEST(test_order), TEST(test_time_out),
		TEST(test_waiter_leaves), TEST(test_refused), TEST(test_credits), TEST(test_let_go),
		TEST(test_lease), TEST(test_lease_goes_on), TEST(test_dead), TEST(test_forged), TEST(test_change), TEST(test_flush), TEST(test_nobody), TEST(test_pull),
		TEST(test_turn), TEST(test_change_forgotten),
	};

	return GROUP_RUN(tests, begin, end);
}

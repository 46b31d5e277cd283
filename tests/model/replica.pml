/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes, seals and fail-overs of a shard of three members (cluster.md, 1 to 7 and 16).
 *
 * A member that does not move is frozen, cut off or dead: none of these needs a step.
 * Messages are sets that only grow: each is delivered late, again, or never, in any order.
 * A conditional write is carried out at any time after it was sent, while its version
 * lasts.  A lease is one bit: `trusted` says that some reader may count what it READs at a
 * member; it ends before the promises do that it rests on, which lease.pml shows.
 *
 * Properties: what was answered, or what a reader could count, is found by all who read
 * later; what was told to have had no effect has none; a transaction is seen whole; all
 * members of the configuration have what was answered.
 *
 * -DTXN: a transaction over both stripes, and a change behind it.  -DSTRIPES: changes of
 * two stripes, under way at once.  -DLEASES: who may be read is told by them.  -DRESTARTS: of
 * members that keep what is on their disks.  -DHAND: planned hand-overs.
 */
#include "cluster.h"

/* A change writes keys of its own, once: so a set of keys is all that a table is. */
#ifndef CHANGES
#define CHANGES 2
#endif
#if defined(TXN)
#define CHANGE(i) ((i) -> 4 : 3)
#define STRIPE_0 5
#define TXN_KEYS 3
#elif defined(STRIPES)
#define CHANGE(i) (1 << (i))
#define STRIPE_0 5
#define TXN_KEYS 0
#else
#define CHANGE(i) (1 << (i))
#define STRIPE_0 255
#define TXN_KEYS 0
#endif
#define STRIPE_1 (255 - STRIPE_0)
/* All keys of the stripes that some keys are of. */
#define STRIPES_OF(x) ((((x) & STRIPE_0) -> STRIPE_0 : 0) | (((x) & STRIPE_1) -> STRIPE_1 : 0))
/* Records, of which some keys are known: a transaction is one. */
#define WHOLE(x) ((x) | (((x) & TXN_KEYS) -> TXN_KEYS : 0))

mtype = { BACKUP, TAKING, SERVING, LEAVING };

mtype role[3] = BACKUP;
byte known[3] = 1;
bool sealed[3];       /* the epoch that is known */
bool ready[3] = true; /* has its primary's beginning of that epoch */
byte applied[3];
byte open[3];         /* at a primary: under way */

byte trusted[3];      /* the members whose promises that rests on; 0: nobody trusts it */
byte promised[3];     /* epoch of a promise that is not over; 0 */
bool awaits[3];       /* such a one, from before it sealed */

/* Messages of an epoch: of its primary, and of each member to it. */
bool began[EPOCHS + 2];
byte began_applied[EPOCHS + 2], began_open[EPOCHS + 2];
byte records[EPOCHS + 2];
byte acks[3 * (EPOCHS + 2)];
bool begins[3 * (EPOCHS + 2)]; /* the beginning is acknowledged */

byte sent_in[CHANGES]; /* epoch that a request's sender knew; 0: not sent */
byte executed;         /* requests, each once: its connection sees to that */

byte handing;          /* the epoch on which a write was sent that names a backup */
byte handed;           /* the reign that such a one began */

/* What clients know: keys. */
byte floor;            /* answered, or counted by a reader */
byte denied;           /* "had no effect" */

/* Whether all members of the configuration have it. */
#define KEEPS(b) (!IN(b, set[epoch]) || (floor & ~(applied[b] | open[b])) == 0)

#ifdef LEASES
#define CAN_BE_READ(b) trusted[b]
#else
#define CAN_BE_READ(b) (role[b] == SERVING && reign[known[b]] == reign[epoch])
#endif

inline check()
{
	for (i : 0 .. 2) {
		if
		:: CAN_BE_READ(i) ->
			assert((floor & ~applied[i]) == 0);
			floor = floor | applied[i]
		:: else
		fi
	}
	i = 0;
	assert(!(floor & denied));
	assert(!(floor & TXN_KEYS) || (floor & TXN_KEYS) == TXN_KEYS);
	assert(KEEPS(0) && KEEPS(1) && KEEPS(2))
}

#define ACK(e, b) acks[3 * (e) + (b)]
#ifdef MUTATE_reign
#define COUNTS(m, e) (e <= known[m])
#else
#define COUNTS(m, e) (e <= known[m] && reign[e] == reign[known[m]])
#endif
#define ACKED(m, b) ((COUNTS(m, 1) -> ACK(1, b) : 0) | (COUNTS(m, 2) -> ACK(2, b) : 0) | \
	(EPOCHS > 2 && COUNTS(m, 3) -> ACK(3, b) : 0) | (EPOCHS > 3 && COUNTS(m, 4) -> ACK(4, b) : 0))
#define AWAITED(m, b) (b != m && IN(b, set[known[m]]))
#ifdef MUTATE_early
#define HAS(m, b, x) true
#else
#define HAS(m, b, x) (!AWAITED(m, b) || (ACKED(m, b) & (x)) == (x))
#endif
#ifdef MUTATE_drop /* the write was sent: as if it were done */
#define ALL_HAVE(m, x) (HAS(m, 0, x) + HAS(m, 1, x) + HAS(m, 2, x) >= 2)
#else
#define ALL_HAVE(m, x) (HAS(m, 0, x) && HAS(m, 1, x) && HAS(m, 2, x))
#endif
#ifdef MUTATE_reign
#define BEGAN(m, b) (!AWAITED(m, b) || begins[3 * known[m] + b] || (open[m] && HAS(m, b, open[m])))
#else
#define BEGAN(m, b) (!AWAITED(m, b) || begins[3 * known[m] + b])
#endif
#ifdef MUTATE_resend
#define ALL_BEGAN(m) true
#else
#define ALL_BEGAN(m) (BEGAN(m, 0) && BEGAN(m, 1) && BEGAN(m, 2))
#endif

#define PROMISES(m, b) (!AWAITED(m, b) || promised[b] == known[m])
#define RESTS_ON(m, b) (m != b && IN(b, trusted[m]))

#ifdef MUTATE_wait
#define IS_OVER(m) true
#else
#define IS_OVER(m) (!awaits[m] || handed == reign[known[m]])
#endif
#ifdef MUTATE_seal /* it goes on in an epoch, and waits for what it promised before */
#define IS_SEALED(m) false
#else
#define IS_SEALED(m) sealed[m]
#endif

#ifdef MUTATE_version
#define MAY_WRITE(m) true
#else
#define MAY_WRITE(m) (known[m] == epoch)
#endif
#if defined(MUTATE_outsider) /* who is not in the set takes over */
#define IS_SUBSET(m, s) (((s) & ~(set[known[m]] | (1 << m))) == 0)
#elif defined(MUTATE_superset) /* who was left out is named again */
#define IS_SUBSET(m, s) IN(m, set[known[m]])
#else
#define IS_SUBSET(m, s) (((s) & ~set[known[m]]) == 0)
#endif

/* A conditional write of m's is carried out: it takes over, or its reign goes on with fewer. */
#define WRITE(s) \
	:: d_step { epoch < EPOCHS && MAY_WRITE(m) && IN(m, s) && IS_SUBSET(m, s) && \
		(sealed[m] || (role[m] != BACKUP && s != set[known[m]])) -> \
		configure(m, s, sealed[m]) \
	}

#ifdef MUTATE_epoch
#define TAKES(m, e) (e <= known[m])
#else
#define TAKES(m, e) (e == known[m])
#endif
/* The record of the change, as of an epoch. */
#ifdef MUTATE_threads /* one looked whether it may, goes on when another has sealed or taken over */
byte looked[3], looked_in[3];
#define RECEIVE(c, e) \
	:: d_step { e <= EPOCHS && e == known[m] && (records[e] & c) && !(ACK(e, m) & c) && !looked[m] && \
		primary[known[m]] != m && IN(m, set[known[m]]) && ready[m] && !sealed[m] -> \
		looked[m] = c; \
		looked_in[m] = e \
	} \
	:: d_step { looked[m] == c && looked_in[m] == e -> \
		receive(c); \
		ACK(e, m) = ACK(e, m) | c; \
		looked[m] = 0; \
		check() \
	}
#else
#define RECEIVE(c, e) \
	:: d_step { e <= EPOCHS && TAKES(m, e) && (records[e] & c) && !(ACK(e, m) & c) && \
		primary[known[m]] != m && IN(m, set[known[m]]) && ready[m] && !IS_SEALED(m) -> \
		receive(c); \
		ACK(e, m) = ACK(e, m) | c; \
		check() \
	}
#endif

#if EPOCHS > 3
#define RECEIVE_ANY(c) RECEIVE(c, 1) RECEIVE(c, 2) RECEIVE(c, 3) RECEIVE(c, 4)
#else
#define RECEIVE_ANY(c) RECEIVE(c, 1) RECEIVE(c, 2) RECEIVE(c, 3)
#endif

inline receive(c)
{
	if
	:: (applied[m] | open[m]) & c
	:: else ->
		x = WHOLE(open[m] & STRIPES_OF(c));
		open[m] = (open[m] & ~x) | c;
#ifdef MUTATE_apart /* it is gone, applied in one of its stripes */
		x = x & STRIPES_OF(c);
#endif
		applied[m] = applied[m] | x;
		x = 0
#ifdef MUTATE_at_once
		;
		applied[m] = applied[m] | c;
		open[m] = 0
#endif
	fi
}

/* The beginning of an epoch: what of the open records the primary has, and what it has open. */
inline receive_beginning()
{
	x = began_applied[known[m]] | began_open[known[m]];
#ifdef MUTATE_drop_all
	x = 0;
#endif
#ifdef MUTATE_keep_all
	x = open[m];
#endif
	open[m] = open[m] & x;
	x = open[m] & ~began_open[known[m]];
	applied[m] = applied[m] | x;
	open[m] = (open[m] & ~x) | (began_open[known[m]] & ~applied[m]);
	x = 0;
	ready[m] = true;
	ACK(known[m], m) = began_open[known[m]];
	begins[3 * known[m] + m] = true
}

#ifdef MUTATE_stripe
#define IS_FREE(m, c) true
#else
#define IS_FREE(m, c) (!(open[m] & STRIPES_OF(c)))
#endif
#ifdef MUTATE_request
#define MAY_EXECUTE(m, i) true
#else
#define MAY_EXECUTE(m, i) (reign[sent_in[i]] == reign[known[m]])
#endif
#ifdef MUTATE_fate_backup
#define MAY_TELL(m) true
#elif defined(MUTATE_fate_early)
#define MAY_TELL(m) (role[m] != BACKUP)
#else
#define MAY_TELL(m) (role[m] == SERVING)
#endif

#define TAKES_CHANGES(m) (role[m] == SERVING || (role[m] == LEAVING && handing != known[m]))

#define REQUEST(i) \
	:: d_step { sent_in[i] && !(executed & (1 << i)) && TAKES_CHANGES(m) && \
		MAY_EXECUTE(m, i) && IS_FREE(m, CHANGE(i)) -> \
		executed = executed | (1 << i); \
		open[m] = open[m] | CHANGE(i); \
		records[known[m]] = records[known[m]] | CHANGE(i) \
	} \
	:: d_step { (open[m] & CHANGE(i)) && (role[m] == SERVING || role[m] == LEAVING) && ALL_HAVE(m, CHANGE(i)) -> \
		open[m] = open[m] & ~CHANGE(i); \
		applied[m] = applied[m] | CHANGE(i); \
		floor = floor | CHANGE(i); \
		check() \
	} \
	/* "Had it an effect?", asked of a later reign. */ \
	:: d_step { sent_in[i] && !(denied & CHANGE(i)) && MAY_TELL(m) && \
		reign[known[m]] > sent_in[i] && !((applied[m] | open[m]) & CHANGE(i)) -> \
		denied = denied | CHANGE(i); \
		check() \
	}

byte restarts;

#define HAND_OVER(to) \
	:: d_step { handing == epoch && primary[epoch] == m && epoch < EPOCHS && to != m && IN(to, set[epoch]) -> \
		configure(to, set[epoch - 1], false); \
		handed = epoch \
	}

proctype member(byte m)
{
	byte i, x;

	do
	/* It reads the configuration. */
	:: d_step { known[m] < epoch ->
		known[m] = epoch;
		sealed[m] = false;
		ready[m] = false;
		if
		:: primary[epoch] != m -> role[m] = BACKUP
		:: else ->
			if
			:: role[m] == BACKUP -> role[m] = TAKING
			:: role[m] == LEAVING -> role[m] = SERVING
			:: else
			fi;
			began[epoch] = true;
			began_applied[epoch] = applied[m];
			began_open[epoch] = open[m]
		fi
	}
	:: d_step { !sealed[m] && epoch < EPOCHS && known[m] == epoch && role[m] == BACKUP ->
		sealed[m] = true
	}
	WRITE(1) WRITE(2) WRITE(3) WRITE(4) WRITE(5) WRITE(6) WRITE(7)
	:: d_step { !ready[m] && IN(m, set[known[m]]) && primary[known[m]] != m && !IS_SEALED(m) &&
		began[known[m]] ->
		receive_beginning();
		check()
	}
	/* All have its open records, and its promises are over: it serves. */
	:: d_step { role[m] == TAKING && ALL_BEGAN(m) && IS_OVER(m) ->
		role[m] = SERVING;
		applied[m] = applied[m] | open[m];
		floor = floor | open[m];
		open[m] = 0;
		check()
	}
#ifdef HAND
	/* It lets the leases run out, then takes no change and names another, until it knows more. */
	:: d_step { role[m] == SERVING && known[m] == epoch && epoch < EPOCHS -> role[m] = LEAVING }
#ifdef MUTATE_hand_early
	:: d_step { role[m] == LEAVING && !open[m] -> handing = known[m] }
#else
	:: d_step { role[m] == LEAVING && !open[m] && !trusted[m] -> handing = known[m] }
#endif
#ifdef MUTATE_resume /* it was not carried out, so far */
	:: d_step { role[m] == LEAVING && known[m] == epoch -> role[m] = SERVING }
#endif
	HAND_OVER(0) HAND_OVER(1) HAND_OVER(2)
#endif
	REQUEST(0)
#if CHANGES > 1
	REQUEST(1)
#endif
#if CHANGES > 2
	REQUEST(2)
#endif
#ifdef MUTATE_halves /* a record for each key */
	RECEIVE_ANY(1) RECEIVE_ANY(2)
#else
	RECEIVE_ANY(CHANGE(0))
#endif
#if CHANGES > 1
	RECEIVE_ANY(CHANGE(1))
#endif
#if CHANGES > 2
	RECEIVE_ANY(CHANGE(2))
#endif
#ifdef RESTARTS /* with its disk: what it acknowledged is there, all else is not */
	:: d_step { restarts < RESTARTS ->
		restarts++;
		role[m] = BACKUP;
		sealed[m] = false;
#ifdef MUTATE_begin_again /* the beginning that it had, from before its latest records */
		ready[m] = false;
#endif
		awaits[m] = (promised[m] != 0);
#ifdef MUTATE_forget
		awaits[m] = false;
#endif
#ifdef MUTATE_open_lost
		open[m] = 0;
#endif
	}
#endif
#ifdef LEASES
	:: d_step { promised[m] != known[m] && !IS_SEALED(m) && primary[known[m]] != m ->
		promised[m] = known[m];
		awaits[m] = awaits[m] || !sealed[m]
	}
	:: d_step { promised[m] && !RESTS_ON(0, m) && !RESTS_ON(1, m) && !RESTS_ON(2, m) ->
		promised[m] = 0;
		awaits[m] = false
	}
	:: d_step { !trusted[m] && role[m] == SERVING && PROMISES(m, 0) && PROMISES(m, 1) && PROMISES(m, 2) ->
		trusted[m] = set[known[m]];
		check()
	}
	:: d_step { trusted[m] -> trusted[m] = 0 }
#endif
	od
}

proctype clients()
{
	sent_in[0] = epoch;
#if CHANGES > 1
	sent_in[1] = epoch;
#endif
#if CHANGES > 2
	sent_in[2] = epoch;
#endif
}

init {
	d_step {
		configure_first(0, 7);
		role[0] = SERVING;
	}
	atomic { run member(0); run member(1); run member(2); run clients() }
}

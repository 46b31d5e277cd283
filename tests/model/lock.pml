/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One stripe and one key: a counter.  Clients add 1 to it, either by a change of
 * kvd's (ADD) or by lock, READ, PUT, unlock.
 *
 * Lock words change by NIC atomics only: the clients' and, through the loopback
 * queue pair, the locker's, one step each.  A client's compare-and-swap is posted,
 * and executed later or never.  Requests wait in a shared receive queue, are taken by
 * either of two workers, and are applied in steps; a change that a lock keeps away
 * waits aside until the word permits it.  The locker is server/lock/locker.c without its
 * clocks: what it does after some time it may do at any time, or not.
 *
 *   FAULTS   client 0's connection may drop at any time; it is fenced; it may come
 *            back with a new connection and ask what became of its last request
 *   AGAIN    with FAULTS: the new connection has the low bits of the old one's id, which are
 *            all that a word has of it, and its tokens count from the beginning
 *   ABSENT   the key is not there at first
 *   HASTY    client 0 unlocks, and locks again, before its PUTs are answered
 *   NOBODY   the lock word names nobody at first
 *   FORGED   it has client 1's name, which client 1 didn't write
 *   LOOKS    unlocks may be left half done; the locker READs what holders say they hold
 *   LEASE    somebody times how long a word stands
 *
 * Properties:
 *   exclusive   from the accepted READ to the release no change but the holder's
 *               takes effect; one holder at a time
 *   no update is lost; a PUT meets the value that it was computed from
 *   at most once: what a client is told of its request is so, and stays so
 *   in turn: once the locker has set WAIT nobody takes the lock before who waits
 *   everybody gets the lock in the end: no invalid end state
 */
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef MORE
#define MORE 0 /* rounds of client 0, beyond ROUNDS */
#endif
#ifdef FORGED
#define LOOKS
#endif
#define WAIT 128
#ifdef AGAIN
#define LOW(id) ((id) & 1)
#else
#define LOW(id) (id)
#endif
#define TOKEN(id, n) (8 * (LOW(id) + 1) + (n))
#define HOLDER(w) (((w) & 127) / 8 - 1) /* connection, as far as a word says it */
#define CLIENT(id) ((id) & 1)           /* connection 2 is client 0's second */
#ifdef FAULTS
#define IDS 3
#else
#define IDS 2
#endif

/* Requests and replies. */
#define ADD 1
#define PUT 2
#define LOCK 3
#define UNLOCK 4
#define FORGET 5
#define DEAD 6
#define WATCH 7
#define BORN 8
#define OK 1
#define STALE 2
#define GRANT 3

byte word;
#ifdef MUTATE_stripe
#define LOAD() 0 /* a split moved the key, and workers look at its new bucket's word */
#else
#define LOAD() word
#endif

bool mark, pending, updating;
#ifdef ABSENT
bool present = false;
#else
bool present = true;
#endif
byte value;

chan srq = [2] of { byte, byte, byte, byte };   /* connection, what, token, base */
chan reply[IDS] = [1] of { byte };
chan lock_queue = [3] of { byte, byte, byte };  /* to the lock thread: connection, what, token */

/* A client's compare-and-swap: 0 none, 1 posted, 2 executed. */
byte cas[IDS], cas_old[IDS], cas_new[IDS], cas_saw[IDS];
byte token_of[IDS]; /* what the client itself says that it holds or asks for */

chan aside = [2] of { byte };                   /* ADDs that a lock keeps away: connection */

bool qp[IDS], fenced[IDS], alive[IDS], fate_known[IDS];
bool forgotten;
bool drop, failed;
bool fate_told[IDS]; /* the client was told what became of its last request */
byte hand[2];       /* whose message a worker holds: connection + 1 */

/* What an observer knows. */
byte held;         /* the token that a client relies on */
byte total;        /* effects */
bool in_turn;      /* somebody waits, and the locker has seen to it */

inline permitted(tok)
{
	/* Exactly the token, or nobody's; the WAIT bit is no part of it. */
	may = ((LOAD() & 127) == (tok));
#ifdef MUTATE_tokenless
	may = ((tok) == 0 -> true : may);
#endif
#ifdef MUTATE_token_client
	may = ((tok) != 0 && HOLDER(LOAD()) == HOLDER(tok) -> true : may);
#endif
}

/* The change itself; the stripe is marked, and all is checked. */
inline apply(id, what, tok, base)
{
	if
	:: present ->
		updating = true;
		sum = value + 1;
		d_step {
			value = sum;
			updating = false;
			pending = false;
			assert(sum == total + 1);
			assert(what != PUT || base + 1 == sum);
			assert(held == 0 || held == (tok));
			assert(!fate_told[id]);
			total++
		}
	:: !present ->
		sum = value + 1; /* a new item, and */
		d_step {         /* its entry */
			present = true;
			value = sum;
			assert(sum == total + 1);
			assert(what != PUT || base + 1 == sum);
			assert(held == 0 || held == (tok));
			assert(!fate_told[id]);
			total++
		}
	fi;
	sum = 0
}

/* To a queue pair that is gone: nothing. */
inline answer(status)
{
	if
#ifdef HASTY
	:: id == 0 && what == PUT
	:: !(id == 0 && what == PUT) -> reply[id] ! status
#else
	:: reply[id] ! status
#endif
	:: fenced[id]
	fi
}

proctype worker(byte w)
{
	byte id, what, tok, base, sum;
	bool may;

end:	do
	:: if
	   :: srq ? id, what, tok, base
	   :: atomic { (LOAD() & 127) == 0 && len(aside) > 0 -> aside ? id; what = ADD }
	   fi;
		hand[w] = id + 1;
		/* Full fence: see fence(). */
		if
#ifndef MUTATE_fence_flag
		:: fenced[id] -> goto done
#endif
		:: else
		fi;
		if
		:: what == LOCK || what == UNLOCK -> lock_queue ! id, what, tok; goto done
		:: else
		fi;
		permitted(tok);
		if
		:: !may -> goto not_now
		:: else
		fi;
#ifdef MUTATE_mark
		!mark;
		mark = true;
#else
		atomic { !mark -> mark = true }; /* an exchange; taken: again later */
#endif
#ifndef MUTATE_pending
		if
		:: present -> pending = true
		:: else
		fi;
#endif
#ifndef MUTATE_check_once
		permitted(tok);
		if
		:: !may -> pending = false; mark = false; goto not_now
		:: else
		fi;
#endif
		apply(id, what, tok, base);
		mark = false;
		answer(OK);
		goto done;
not_now:
		if
		:: tok == 0 ->
			aside ! id;
			lock_queue ! 0, WATCH, 0
		:: else -> answer(STALE)
		fi;
done:
		atomic { hand[w] = 0; id = 0; what = 0; tok = 0; base = 0; may = false }
	od
}

/* ------------------------------------------------------------------ locker */

#ifdef LEASE
byte grants[8]; /* to each connection */
#define COUNT(w) grants[HOLDER(w)]++
#else
#define COUNT(w) skip
#endif

/* Compare-and-swap through the loopback queue pair: -> seen */
#define loopback(expected, desired) \
	d_step { seen = word; if :: seen == (expected) -> word = (desired) :: else fi }

inline answer_to(whom, status)
{
	if
	:: reply[whom] ! status
	:: fenced[whom]
	fi
}

/* From the word w, which is nobody's any more: to who is next. */
inline hand_over(w)
{
	if
	:: len(queue) > 0 && watched ->
		/* The turn of changes: nobody's lock, but nobody can take it. */
		loopback(w, WAIT)
	:: len(queue) > 0 ->
		atomic {
			queue ? <next_id, next>;
			loopback(w, (len(queue) > 1 -> next | WAIT : next));
			if
			:: seen == w ->
				queue ? next_id, next;
				in_turn = (len(queue) > 0);
				COUNT(next)
			:: else -> next = 0
			fi
		};
		if
		:: next -> answer_to(next_id, GRANT)
		:: else
		fi;
		atomic { next = 0; next_id = 0 }
	:: len(queue) == 0 -> loopback(w, 0)
	fi
}

#ifdef MUTATE_nobody
#define ALIVE(w) true
#else
#define ALIVE(w) (HOLDER(w) < IDS && alive[HOLDER(w)])
#endif

#define SOMEBODY (len(queue) > 0 || watched)

proctype locker()
{
	chan queue = [3] of { byte, byte };
	byte id, what, tok, seen, next, next_id, n;
	bool watched;
#ifdef LOOKS
	byte asked, said;
	bool sampled;
#endif

end:	do
	:: lock_queue ? id, what, tok ->
		if
		:: what == LOCK -> queue ! id, tok
		:: what == UNLOCK ->
			n = word;
			if
			:: (n & 127) == tok -> hand_over(n)
			:: else
			fi
		:: what == WATCH -> watched = true
		:: what == BORN -> alive[id] = true
		:: what == FORGET ->
			n = len(queue);
			do
			:: n > 0 ->
				atomic {
					n--;
					queue ? next_id, next;
					if
					:: next_id != id -> queue ! next_id, next
					:: else
					fi
				}
			:: n == 0 -> break
			od;
			atomic {
				next = 0; next_id = 0;
				in_turn = (len(queue) > 0 -> in_turn : false)
			};
			forgotten = true
		:: what == DEAD ->
#ifndef MUTATE_fence_qp /* (then this is the only look) */
			alive[id] = false;
#endif
			n = word;
			if
			:: n && HOLDER(n) == id -> hand_over(n)
			:: else
			fi;
			fate_known[id] = true
		fi;
		atomic { id = 0; what = 0; tok = 0; seen = 0; n = 0 }
	/* What serve_queue() does, from time to time. */
	:: len(queue) > 0 && (word & 127) == 0 || SOMEBODY && (word & 127) && !ALIVE(word) ->
		n = word;
		if
		:: (n & 127) == 0 || !ALIVE(n) -> hand_over(n)
		:: else
		fi;
		atomic { seen = 0; n = 0 }
	:: SOMEBODY && (word & 127) && ALIVE(word) && !(word & WAIT) ->
		n = word;
#ifdef MUTATE_wait
		in_turn = (len(queue) > 0);
		len(queue) == 0 || (word & 127) == 0;
#elif defined MUTATE_wait_blind
		word = n | WAIT;
		in_turn = (len(queue) > 0);
#else
		if
		:: (n & 127) && ALIVE(n) && !(n & WAIT) ->
			atomic {
				loopback(n, n | WAIT);
				in_turn = (seen == n && len(queue) > 0 -> true : in_turn)
			}
		:: else
		fi;
#endif
		atomic { seen = 0; n = 0 }
	:: len(queue) > 0 && (word & WAIT) && !in_turn -> in_turn = true
	/* Changes that still wait say so again and again. */
	:: len(queue) == 0 && len(aside) == 0 && watched -> watched = false
	:: len(queue) == 0 && (word & WAIT) && (!watched || word == WAIT) ->
		atomic { n = word; loopback(n, n & 127); n = 0; seen = 0 }
#ifdef LOOKS
	/* A silent holder: a READ of what it says that it holds, for the word as it was
	 * when the READ was posted. */
	:: !asked && SOMEBODY && (word & WAIT) && (word & 127) && ALIVE(word) ->
		asked = word & 127
	:: asked && !sampled -> atomic { said = token_of[HOLDER(asked)]; sampled = true }
	:: sampled ->
		n = word;
		if
#ifdef MUTATE_look_early
		:: (n & 127) && HOLDER(n) == HOLDER(asked) && (n & 127) != said ->
#else
		:: (n & 127) == asked && asked != said ->
#endif
#ifdef MUTATE_forged
			assert(failed); /* else it fences who has done nothing */
#endif
			hand_over(n)
		:: else
		fi;
		atomic { asked = 0; sampled = false; said = 0; n = 0; seen = 0 }
#endif
	od
}

/* ------------------------------------------------------------------ client */

/* Executes what clients have posted, as long as the queue pair lives. */
#define EXECUTE(c) d_step { cas[c] == 1 && qp[c] -> \
	cas_saw[c] = word; \
	if \
	:: word == cas_old[c] -> \
		word = cas_new[c]; \
		if \
		:: word -> assert(!in_turn); COUNT(word) \
		:: else \
		fi \
	:: else \
	fi; \
	cas[c] = 2 }

proctype nic()
{
end:	do
	:: EXECUTE(0)
	:: EXECUTE(1)
#ifdef FAULTS
	:: EXECUTE(2)
#endif
	od
}

/* Who does what: LOCKS both lock, ADDS0 only client 1 does, ADDS1 only client 0. */
#if defined LOCKS
#define ADDING(id) false
#define LOCKING(id) true
#elif defined ADDS0
#define ADDING(id) ((id) != 1)
#define LOCKING(id) ((id) == 1)
#elif defined ADDS1 || defined HASTY
#define ADDING(id) ((id) == 1)
#define LOCKING(id) ((id) != 1)
#else
#define ADDING(id) true
#define LOCKING(id) true
#endif

#define BROKEN (id == 0 && drop)

inline swap(expected, desired)
{
	atomic { cas_old[id] = expected; cas_new[id] = desired; cas[id] = 1 };
	if
	:: BROKEN -> goto broken
	:: cas[id] == 2 -> atomic { seen = cas_saw[id]; cas[id] = 0; cas_saw[id] = 0; cas_old[id] = 0; cas_new[id] = 0 }
	fi
}

inline send(what, tok, base)
{
	if
	:: BROKEN -> goto broken
	:: srq ! id, what, tok, base
	fi
}

inline wait_reply()
{
	if
	:: BROKEN -> goto broken
	:: reply[id] ? status
	fi
}

proctype client(byte id)
{
	byte round, n, tok, v, seen, status;

begin:
	do
	:: round < ROUNDS + MORE * (id != 1) ->
		round++;
		if
		/* ---- a change by message */
		:: ADDING(id) ->
			send(ADD, 0, 0);
			wait_reply();
			assert(status == OK)
		/* ---- lock, READ, PUT, unlock */
		:: LOCKING(id) ->
			n++;
#ifdef MUTATE_token
			tok = TOKEN(id, 1);
#else
			tok = TOKEN(id, n);
#endif
			token_of[id] = tok;
			swap(0, tok);
			if
			:: seen == 0
			:: else ->
				send(LOCK, tok, 0);
				wait_reply();
				assert(status == GRANT)
			fi;
#ifdef MUTATE_pending
			/* Item and mark with one doorbell, sampled in any order. */
			if
			:: v = value;
			   !mark
			:: !mark;
			   v = value
			fi;
#else
			/* The item, until no change of it is under way. */
			do
			:: BROKEN -> goto broken
			:: atomic { present && !pending && !updating ->
				v = value;
				if
				:: BROKEN
				:: else -> assert(held == 0); held = tok
				fi;
				break }
			:: atomic { !present -> v = 0 };
#ifndef MUTATE_absent_key
				/* No item: the mark until it is clear, and then the bucket. */
				!mark;
				if
				:: present
				:: atomic { !present ->
					if
					:: BROKEN
					:: else -> assert(held == 0); held = tok
					fi };
					break
				fi
#else
				atomic {
					if
					:: BROKEN
					:: else -> assert(held == 0); held = tok
					fi
				};
				break
#endif
			od;
#endif
			send(PUT, tok, v);
#if defined HASTY || defined MUTATE_unlock_early
#ifdef HASTY
			if :: id == 0 :: else -> wait_reply(); status = 0 fi;
#endif
			held = (held == tok -> 0 : held);
#else
			wait_reply();
			assert(status == OK);
			status = 0;
#ifndef MUTATE_unlock_read
			/* Another READ under the lock. */
			atomic { BROKEN || !pending && !updating ->
				if
				:: BROKEN
				:: else -> assert(value == v + 1)
				fi };
#endif
			atomic {
				if
				:: held == tok -> held = 0
				:: else
				fi
			};
#endif
			/* Unlock: what is outstanding is answered. */
			token_of[id] = 0;
			swap(tok, 0);
#ifdef MUTATE_unlock_read
			/* The READ was posted before, but not fenced off. */
			assert(value == v + 1);
#endif
			if
			:: seen == tok
			:: else ->
#ifdef MUTATE_handover
				swap(tok | WAIT, 0)
#else
				if
				:: send(UNLOCK, tok, 0)
#ifdef LOOKS
				:: skip /* it does something else now */
#endif
				fi
#endif
			fi;
#ifdef MUTATE_unlock_early
			wait_reply();
			assert(status == OK);
#endif
			skip
		fi;
		atomic { v = 0; seen = 0; status = 0; tok = 0 }
	:: round == ROUNDS + MORE * (id != 1) -> break
	od;
	goto over;

broken:
#ifdef FAULTS
#ifdef MUTATE_adopt
	/* Clears its former self's lock by its new connection. */
	atomic { if :: tok && (word & 127) == tok -> word = 0 :: else fi };
#endif
	if
	:: goto over /* it doesn't come back */
#ifdef AGAIN
	/* Its bits are given again when the locker has looked at all words for them. */
	:: fate_known[0]
#ifdef MUTATE_reuse
	:: true
#endif
#else
	/* With another connection, and one round more; it may ask what became of its last
	 * request. */
	:: true
	:: fate_known[0] -> fate_told[0] = true
#ifdef MUTATE_return_early
	:: fate_told[0] = true
#endif
#endif
	fi;
	atomic {
		id = 2; v = 0; seen = 0; status = 0; tok = 0;
		round = ROUNDS + MORE - 1;
#ifdef AGAIN
		n = 0;
#endif
#ifndef MUTATE_born_late
		alive[LOW(2)] = true
#endif
	};
#ifdef MUTATE_born_late /* the locker learns of it by a message */
	lock_queue ! 2, BORN, 0;
#endif
	goto begin;
#endif
over:
	skip
}

/* ------------------------------------------------------------------- fence */

#ifdef FAULTS
proctype fence()
{
	/* A drop of the link, or a lease that ran out. */
	if
	:: atomic { drop = true; failed = true }
	:: goto over
	fi;
#ifndef MUTATE_fence_qp
	qp[0] = false; /* error: executes nothing from here on */
#endif
	fenced[0] = true;
#ifndef AGAIN
	lock_queue ! 0, FORGET, 0;
	forgotten;
#endif
	/* Full fence: a worker shows what it holds, and then looks at the flag. */
#ifndef MUTATE_fence_worker
	hand[0] != 1;
	hand[1] != 1;
#endif
#ifdef AGAIN
	/* In the program always: the worker that says LOCK for it says FORGET, behind that. */
	lock_queue ! 0, FORGET, 0;
	forgotten;
#endif
	atomic {
		if
		:: held && HOLDER(held) == 0 -> held = 0
		:: else
		fi
	}
	lock_queue ! 0, DEAD, 0;
	fate_known[0];
#ifdef MUTATE_fence_qp
	qp[0] = false;
#endif
over:
	skip
}
#endif

#ifdef LEASE
/* A token that stands for two ticks is one grant that is too old. */
proctype lease()
{
	byte at, since;
end:	atomic { (word & 127) -> at = word & 127; since = grants[HOLDER(at)] };
	atomic {
		if
		:: (word & 127) == at -> assert(since == grants[HOLDER(at)])
		:: else
		fi
	}
}
#endif

init {
	atomic {
		qp[0] = true; qp[1] = true; alive[0] = true; alive[1] = true;
#ifdef FAULTS
		qp[2] = true;
		run fence();
#endif
#ifdef NOBODY
		word = TOKEN(6, 1);
#endif
#ifdef FORGED
		word = TOKEN(1, 7);
#endif
#ifdef LEASE
		run lease();
#endif
		run nic();
		run locker();
		run worker(0);
		run worker(1);
		run client(0);
		run client(1)
	}
}

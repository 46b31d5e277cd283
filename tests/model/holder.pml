/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Locks over a fail-over (cluster.md, 8): two clients that each take the lock of a stripe, read
 * a counter, write it back greater by one under the lock's token, and unlock.
 *
 * The card of a primary that is frozen or deposed goes on executing compare-and-swaps and
 * READs.  Its reign ends in three steps, at any time: the next one seals, so that no change
 * of its is acknowledged any more; the leases are over; the next one serves.
 *
 * Properties: no two clients believe that they hold the lock; no update is lost.
 */
byte word[2];      /* of the old primary and of the new one: the client, of that epoch; 0 */
byte counter[2];
bool sealed, trusted = true, serves;
bool holds[2];     /* believes so, as long as its lease is good */
byte lock_epoch[2]; /* 0, 1 */

#define IS_GOOD(e) ((e) == 1 || trusted)
#ifdef MUTATE_lease
#define BELIEVES(i) holds[i]
#else
#define BELIEVES(i) (holds[i] && IS_GOOD(lock_epoch[i]))
#endif

proctype reign()
{
	sealed = true;
#ifndef MUTATE_wait
	trusted = false;
#endif
	d_step {
		counter[1] = counter[0];
		serves = true
	}
	trusted = false
}

proctype client(byte id)
{
	byte e, saw, to, rounds;
	bool won;

	do
	:: rounds < 2 ->
		rounds++;
		/* By a message, or from the configuration. */
		d_step { e = serves; lock_epoch[id] = e }
		/* The cards execute it, whatever their owners do. */
		d_step {
			if
			:: word[e] == 0 -> word[e] = id + 1; won = true
			:: else
			fi
		}
		if
		:: !won -> goto next
		:: else
		fi;
		if
		:: IS_GOOD(e) -> holds[id] = true
		:: else -> goto next
		fi;
		assert(!BELIEVES(0) || !BELIEVES(1));
		saw = counter[e];
		assert(!BELIEVES(0) || !BELIEVES(1));
		if
		:: !BELIEVES(id) -> goto lost
		:: else
		fi;
		/* The change goes to where the client thinks, with its token. */
		if
		:: to = e
		:: serves -> to = 1
		fi;
		if
		:: d_step {
			to == 0 && !sealed ->
			if
			:: word[0] == id + 1 -> assert(counter[0] == saw); counter[0] = saw + 1
			:: else
			fi
		}
#ifdef MUTATE_token /* one of an older epoch is none */
		:: d_step {
			to == 1 && word[1] == (e == 1 -> id + 1 : 0) ->
#else
		:: d_step {
			to == 1 && e == 1 && word[1] == id + 1 ->
#endif
			assert(counter[1] == saw);
			counter[1] = saw + 1
		}
		:: else /* refused */
		fi;
lost:
		holds[id] = false;
		d_step {
			if
			:: word[e] == id + 1 -> word[e] = 0
			:: else
			fi
		}
next:
		skip;
		d_step { saw = 0; to = 0; won = false }
	:: else -> break
	od
}

init { atomic { run reign(); run client(0); run client(1) } }

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Locks over several keys (protocols.md, 1 and 16): each of two clients wants two
 * keys, of any of three stripes, in any order; it takes the stripes one after the
 * other and waits for each in kvd's queue while it keeps those that it has.
 *
 * Property: everybody gets all locks in the end (no invalid end state).
 */
byte holder[3]; /* client + 1 */

inline take(s)
{
	atomic { holder[s] == 0 -> holder[s] = id + 1 }
}

inline release(s)
{
	atomic {
		if
		:: holder[s] == id + 1 -> holder[s] = 0
		:: else
		fi
	}
}

proctype client(byte id)
{
	byte a, b, rounds, swapped;

	do
	:: rounds < 2 ->
		rounds++;
		atomic {
			if :: a = 0 :: a = 1 :: a = 2 fi;
			if :: b = 0 :: b = 1 :: b = 2 fi;
#ifndef MUTATE_unsorted
			if
			:: a > b -> swapped = a; a = b; b = swapped; swapped = 0
			:: else
			fi
#endif
		};
#ifdef MUTATE_unfenced /* both compare-and-swaps with one doorbell, executed in any order */
		if
		:: a != b ->
			if
			:: take(a); take(b)
			:: take(b); take(a)
			fi
		:: a == b -> take(a)
		fi;
#else
		take(a);
#ifdef MUTATE_twice
		take(b);
#else
		if
		:: b != a -> take(b)
		:: else
		fi;
#endif
#endif
		assert(holder[a] == id + 1 && holder[b] == id + 1);
		release(a);
		release(b)
	:: rounds == 2 -> break
	od
}

init { atomic { run client(0); run client(1) } }

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An item that expires, as clients see it whose idea of kvd's clock may be wrong by
 * EPSILON either way.  GETs follow each other.  (protocols.md, 14; client/cache/clock.c)
 *
 * Property: live before `EXPIRY` of kvd's clock and absent from then on, so that
 * nobody finds it live after somebody found it absent.
 */
#define EXPIRY 4
#define END 8
#define EPSILON 2

byte clock; /* kvd's */
bool was_absent;

proctype time()
{
	do
	:: clock < END -> clock++
#ifdef MUTATE_clock_back /* the wall's clock, put back once */
	:: clock == EXPIRY -> clock = EXPIRY - 1
#endif
	:: clock == END -> break
	od
}

proctype reader()
{
	byte gets, estimate; /* what this client takes for kvd's clock, + EPSILON */
	bool live;

	do
	:: gets < 3 ->
		gets++;
		atomic {
			estimate = clock;
			do
			:: estimate < clock + 2 * EPSILON -> estimate++
			:: break
			od
		};
		atomic {
			if
#ifdef MUTATE_epsilon /* as if the clocks were one */
			:: true -> live = (estimate < EXPIRY + EPSILON)
#else
			/* estimate - EPSILON is its time. */
			:: estimate < EXPIRY -> live = true
			:: estimate > EXPIRY + 2 * EPSILON -> live = false
			:: else -> live = (clock < EXPIRY) /* kvd is asked */
#endif
			fi;
			assert(!(live && was_absent));
			was_absent = !live
		}
	:: gets == 3 -> break
	od
}

init { atomic { run time(); run reader() } }

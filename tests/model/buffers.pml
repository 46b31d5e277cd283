/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that a queue pair may still use (protocols.md, 15).
 *
 * A client GETs twice into one buffer; the first GET may time out.  kvd pulls a long
 * value from a client's memory, which changes if the client gives up; the pull may
 * be given up, too, and its memory be used for another item.
 *
 * Properties: the second GET returns what it asked for; kvd stores no other value
 * than the client's; the other item stays as it was written.
 */
byte buffer;       /* 1, 2: the first, the second GET's answer */
byte source = 1;   /* the value; 2: overwritten by its owner */
byte memory;       /* of the item that is pulled: 1 the value, 3 another item */
bool posted[2], complete[2]; /* the client's READs */
bool pull_posted, pull_complete, gave_up;
bool stored;

/* The network: each READ is carried out once, at any time before it is complete. */
proctype network()
{
	byte in_flight;

	do
	:: posted[0] && !complete[0] -> buffer = 1; complete[0] = true
	:: posted[1] && !complete[1] -> buffer = 2; complete[1] = true
	:: pull_posted && !pull_complete ->
		in_flight = source;
		memory = in_flight;
		pull_complete = true
	:: timeout -> break
	od
}

proctype getter()
{
	posted[0] = true;
	if
	:: complete[0]
	:: true -> /* timed out */
#ifndef MUTATE_destination
		complete[0] /* or flushed, which is a completion too */
#endif
	fi;
	posted[1] = true;
	complete[1];
	assert(buffer == 2)
}

proctype putter()
{
	if
	:: stored
	:: true ->
		gave_up = true;
		source = 2 /* the caller has it back; nothing hinders a bad one before */
	fi
}

proctype kvd()
{
	byte sum = 1; /* the checksum that came with the request */

	pull_posted = true;
	if
	:: pull_complete;
	   if
#ifndef MUTATE_checksum
	   :: memory != sum -> goto over
#endif
	   :: else
	   fi;
	   assert(memory == 1);
	   stored = true
	:: gave_up -> /* its connection is gone */
#ifndef MUTATE_pull
		pull_complete; /* or flushed */
#endif
		memory = 3;
		pull_complete;
		assert(memory == 3)
	fi;
over:
	pull_posted = false
}

init { atomic { run network(); run getter(); run putter(); run kvd() } }

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The software device's wake-ups: common/softverbs/object/cq.c, object/channel.c, exec/attend.c.
 *
 * A channel with two completion queues and one reader, who of each event's queue takes
 * all that is in it, and then sleeps.  Three senders, two of them to the first queue, one
 * to the other (or all to one: ONE_QUEUE); as many as STOPS may be stopped for ever, between any two steps, at any
 * time.  With DEATH they are dead, and the reader's control thread makes up for each.
 *
 * Properties: where everything rests, each message of a sender that is not stopped was
 * taken; with DEATH, of the dead ones, too.
 */
#ifndef STOPS
#define STOPS 1
#endif
#ifndef MESSAGES
#define MESSAGES 2 /* of the last sender; the others send one each */
#endif
#define SENDERS 3
#define NOBODY 2 /* of the two queues */
#ifdef ONE_QUEUE
#define QUEUE(sender) 0
#else
#define QUEUE(sender) (sender / 2)
#endif

mtype = { NOT, ANY, TAKEN };

mtype armed[2] = NOT; /* with number, one word */
byte number[2], armings;
byte pending[2], events; /* the descriptor's count */
byte sent[SENDERS], taken[SENDERS];
byte stops;
bool halted[SENDERS];

#define MAY_STOP \
	if \
	:: stops < STOPS -> stops++; halted[i] = true; goto stop \
	:: true \
	fi

proctype sender(byte i; byte messages)
{
	byte c = QUEUE(i), n;
	mtype seen;

	do
	:: sent[i] < messages ->
		sent[i]++;
look:
		atomic { seen = armed[c]; n = number[c] }
#ifdef MUTATE_clear_first
		if
		:: seen == ANY
		:: else -> goto next
		fi;
#else
		if
		:: seen != NOT
		:: else -> goto next
		fi;
#endif
		atomic { MAY_STOP }
		atomic {
			if
			:: armed[c] == seen && number[c] == n ->
#ifdef MUTATE_clear_first
				armed[c] = NOT
#else
				armed[c] = TAKEN
#endif
			:: else -> goto look
			fi
		}
		atomic { MAY_STOP }
		pending[c]++;
		atomic { MAY_STOP }
		events++;
		atomic { MAY_STOP }
		d_step {
			if
#ifdef MUTATE_number
			:: armed[c] == TAKEN -> armed[c] = NOT
#else
			:: armed[c] == TAKEN && number[c] == n -> armed[c] = NOT
#endif
			:: else
			fi
		}
next:
		skip
	:: else -> break
	od;
	goto out;
stop:
#ifdef DEATH
#ifndef MUTATE_make_up
	/* The control thread. */
	atomic {
		seen = armed[c];
		armed[c] = NOT
	}
	if
	:: seen != NOT || pending[c] == 0 -> pending[c]++
	:: else
	fi;
	events++;
#endif
#endif
	skip;
out:
	skip
}

inline arm(c)
{
	d_step {
		armings++;
		number[c] = armings;
		armed[c] = ANY
	}
}

inline take_all(c)
{
	d_step {
		if
		:: QUEUE(0) == c -> taken[0] = sent[0]; taken[1] = sent[1]
		:: else
		fi;
		if
		:: QUEUE(2) == c -> taken[2] = sent[2]
		:: else
		fi
	}
}

proctype reader()
{
	byte first, c;
	bool more;

	arm(0); take_all(0);
	arm(1); take_all(1);
	do
	:: events > 0 ->
		events--;
		d_step {
			if
			:: pending[first] > 0 -> c = first; pending[c]--
			:: pending[first] == 0 && pending[1 - first] > 0 -> c = 1 - first; pending[c]--
			:: else -> c = NOBODY; more = false
			fi;
			if
			:: c != NOBODY -> first = 1 - c; more = pending[1 - c] > 0
			:: else
			fi
		}
#ifndef MUTATE_no_more
		if
		:: more && events == 0 -> events++
		:: else
		fi;
#endif
		/* One of nobody is passed over: it was written twice. */
		if
		:: c != NOBODY -> arm(c); take_all(c)
		:: else
		fi
	:: timeout -> break
	od;
	for (c : 0 .. SENDERS - 1) {
#ifdef DEATH
		assert(taken[c] == sent[c])
#else
		assert(halted[c] || taken[c] == sent[c])
#endif
	}
}

init
{
	atomic {
		run reader();
		run sender(0, 1);
		run sender(1, 1);
		run sender(2, MESSAGES)
	}
}

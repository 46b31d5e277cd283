/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A member that joins by a copy (cluster.md, 13), while changes go on: the primary is alone in
 * the set, the joiner may be restarted, given up, copied anew, left out, and takes over as
 * soon as the configuration names it.
 *
 * Two keys, each of a stripe of its own: one is there, one is inserted.  The joiner takes what
 * comes as it comes: records and copies arrive by channels of their own, late or never.
 * A conditional write is carried out late or never.
 *
 * Property: what the joiner has when it takes over is no older than what was answered.
 */
#ifndef EPOCHS
#define EPOCHS 4
#endif
#include "cluster.h"

#ifndef VERSIONS
#define VERSIONS 2 /* of a key; 0: absent */
#endif
#ifndef COPIES
#define COPIES 2
#endif

/* The primary. */
byte value[2], change[2];   /* 0: none under way */
bool awaits[2];             /* that change was sent to the joiner */
bool is_copying[2];         /* marked for the copy */
bool copied[2];
bool before[2];             /* changes that began before the joiner was sent any */
byte joiner;                /* incarnation that it copies to, or that it knows to be in the set */
byte known = 1;
bool wrote;                 /* the conditional write was sent, on what is known */

/* The joiner: its incarnation, its table. */
byte incarnation, drawn;
byte has[2];
bool serves;

/* Messages, of a copy: versions. */
byte record[2 * (COPIES + 2)], copy[2 * (COPIES + 2)];
bool acked[2], copy_acked[2]; /* of the present joiner */

/* The configuration names this incarnation; a write that was sent does. */
byte named, to_name, to_name_on;

byte answered[2];

#define RECORD(n, k) record[2 * (n) + (k)]
#define COPY(n, k) copy[2 * (n) + (k)]

#ifdef MUTATE_any_copy
#define IS_MINE(n) (incarnation && n <= incarnation)
#else
#define IS_MINE(n) (n == incarnation)
#endif

inline check()
{
	assert(!serves || (answered[0] <= has[0] && answered[1] <= has[1]))
}

#define DELIVER(n, k) \
	:: d_step { RECORD(n, k) && IS_MINE(n) && !serves -> \
		has[k] = RECORD(n, k); \
		RECORD(n, k) = 0; \
		acked[k] = acked[k] || (n == joiner) \
	} \
	:: d_step { COPY(n, k) && IS_MINE(n) && !serves -> \
		has[k] = COPY(n, k); \
		COPY(n, k) = 0; \
		copy_acked[k] = copy_acked[k] || (n == joiner) \
	}

inline make_empty()
{
	drawn++;
	incarnation = drawn;
	has[0] = 0;
	has[1] = 0
}

proctype the_joiner()
{
	do
	DELIVER(1, 0) DELIVER(1, 1) DELIVER(2, 0) DELIVER(2, 1) DELIVER(3, 0) DELIVER(3, 1)
#if COPIES > 2
	DELIVER(4, 0) DELIVER(4, 1)
#endif
	/* Restarted, empty. */
	:: d_step { drawn > 0 && drawn <= COPIES && !serves -> make_empty() }
#ifdef MUTATE_incarnation
	:: d_step { IN(1, set[epoch]) && epoch < EPOCHS && !serves ->
#else
	:: d_step { IN(1, set[epoch]) && named == incarnation && epoch < EPOCHS && !serves ->
#endif
		configure(1, 2, true);
		serves = true;
		check()
	}
	od
}

#ifdef MUTATE_await
#define MAY_COPY true
#else
#define MAY_COPY (!before[0] && !before[1])
#endif
#ifdef MUTATE_mark
#define IS_MARKED(k) change[k]
#else
#define IS_MARKED(k) (change[k] || is_copying[k])
#endif
#ifdef MUTATE_ack
#define IS_COPIED(k) true
#else
#define IS_COPIED(k) copy_acked[k]
#endif

#define KEY(k) \
	:: d_step { !IS_MARKED(k) && value[k] < VERSIONS -> \
		change[k] = value[k] + 1; \
		acked[k] = false; \
		awaits[k] = SENDS; \
		if \
		:: awaits[k] -> RECORD(joiner, k) = change[k] \
		:: else \
		fi \
	} \
	:: d_step { change[k] && (!awaits[k] || !joiner || acked[k]) -> \
		value[k] = change[k]; \
		change[k] = 0; \
		before[k] = false; \
		answered[k] = value[k]; \
		check() \
	} \
	/* The walk over the index meets the key, or no key. */ \
	:: d_step { joiner && !wrote && MAY_COPY && !copied[k] && !is_copying[k] && value[k] == 0 -> \
		copied[k] = true \
	} \
	:: d_step { joiner && !wrote && MAY_COPY && !copied[k] && !is_copying[k] && value[k] && !change[k] -> \
		is_copying[k] = true; \
		COPY(joiner, k) = value[k] \
	} \
	:: d_step { is_copying[k] && IS_COPIED(k) -> is_copying[k] = false; copied[k] = true }

#ifdef MUTATE_send_late /* changes are sent when the copy is made */
#define SENDS (joiner && copied[0] && copied[1])
#else
#define SENDS (joiner != 0)
#endif

inline give_up()
{
	joiner = 0;
	copied[0] = false;
	copied[1] = false;
	is_copying[0] = false;
	is_copying[1] = false;
	copy_acked[0] = false;
	copy_acked[1] = false;
	wrote = false
}

proctype the_primary()
{
	do
	KEY(0) KEY(1)
	:: d_step { !joiner && drawn < COPIES && !serves && known == epoch && !IN(1, set[known]) ->
		make_empty();
		joiner = incarnation;
		before[0] = (change[0] != 0);
		before[1] = (change[1] != 0);
	}
	:: d_step { joiner && !wrote && copied[0] && copied[1] && !IN(1, set[known]) ->
		wrote = true;
		to_name = joiner;
		to_name_on = known
	}
	/* At will, before the write. */
#ifdef MUTATE_give_up
	:: d_step { joiner && !IN(1, set[known]) -> give_up() }
#else
	:: d_step { joiner && !wrote && !IN(1, set[known]) -> give_up() }
#endif
	/* It goes by the configuration: an answer is no more than that. */
	:: d_step { known < epoch ->
		known = epoch;
		if
		:: !IN(1, set[known]) -> give_up()
		:: else -> wrote = false
		fi
	}
	od
}

/* Conditional writes are carried out: the one that names the joiner, one without it. */
proctype agreement()
{
	do
#ifdef MUTATE_reread
	:: d_step { to_name && epoch < EPOCHS && primary[epoch] == 0 && !IN(1, set[epoch]) ->
#else
	:: d_step { to_name && to_name_on == epoch && epoch < EPOCHS ->
#endif
		configure(0, 3, false);
		named = to_name;
		to_name = 0
	}
	:: d_step { known == epoch && (wrote || IN(1, set[epoch])) && epoch < EPOCHS && primary[epoch] == 0 ->
		configure(0, 1, false);
	}
	od
}

init {
	d_step {
		configure_first(0, 1);
		value[0] = 1;
		answered[0] = 1
	}
	atomic { run the_primary(); run the_joiner(); run agreement() }
}

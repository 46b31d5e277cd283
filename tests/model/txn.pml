/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transactions over two keys, while others GET them by one-sided READs and a second
 * worker updates one of them.
 *
 * A transaction reads both keys, then asks kvd to write both (put or delete) if they
 * still have the versions that were read: server/store/txn.c.  Items are whole here and
 * READ at once, as item.pml shows that they seem; the words of the scratch are
 * sampled in any order, but an entry has a seal.  A GET may start with any location.
 *
 * Properties:
 *   all or nothing  each GET answers what its key had at an instant of the call, where
 *                   the keys of a transaction change at one instant
 *   serialisable    at that instant the keys are what the transaction read
 *   no cycle        with kvd stopped at any step each GET ends (pan -l)
 *
 * The keys of a transaction have versions of their own.  -DMOVES: compaction moves items to
 * other places, with the versions that they have, to where others stood before too.
 *
 * A key may be one that the transaction only checks.  -DDURABLE: its records go to the disk
 * before it takes effect; meanwhile the worker may do another one, that only checks.
 *
 * -DPASSES: read-only transactions over three keys, by two passes of GETs; GETs are
 * instants here.
 */
#define ABSENT 0

#ifndef PASSES
/* ------------------------------------------------------------- the commit */
#ifndef TXNS
#define TXNS 2
#endif
#define NL 5 /* places for items */

#define DEAD 0
#define LIVE 1
#define DELETED 2
#define OLD 3 /* live until the transaction in the scratch is committed */
#define NEW 4 /* live from then on */

byte kind[NL], ver[NL]; /* the state, and with it key and value */
bool key[NL];
byte used;
byte entry[2];          /* place + 1 */
bool mark[2];

/* The scratch of the worker that does transactions. */
byte committed;
/* A sealed entry for each key; s_ver is the number of its transaction. */
byte s_ver[2], s_old[2], s_oldver[2], s_new[2];

/* The version of the key's new item. */
#ifdef MUTATE_one_version
#define VERSION(t, k) (t)
#else
#define VERSION(t, k) ((t) + (k))
#endif

byte versions = 2;
/* What the keys are now, and were: state j is that of after the j-th change. */
byte now;
byte state[8];  /* of key 0 in the low half, of key 1 in the high half */
#define STATE(j, k) ((k) -> state[j] / 16 : state[j] % 16)

inline allocate(to)
{
	if
	:: !(used & 1) -> to = 0
	:: else ->
		if
		:: !(used & 2) -> to = 1
		:: else ->
			if
			:: !(used & 4) -> to = 2
			:: else -> if :: !(used & 8) -> to = 3 :: else -> to = 4 fi
			fi
		fi
	fi;
	assert(!(used & (1 << to)));
	used = used | (1 << to)
}

inline release(place1)
{
	if
	:: place1 -> kind[place1 - 1] = DEAD; used = used & ~(1 << (place1 - 1))
	:: else
	fi
}

proctype transactions()
{
	byte txns, read[2], old[2], made[2], t, place;
	bool delete[2], check[2], writes[2], fails;

	do
	:: txns < TXNS ->
		txns++;
		/* The client's reads, at two instants. */
		read[0] = STATE(now, 0);
		read[1] = STATE(now, 1);
		if :: delete[0] = true :: check[0] = true :: skip fi;
		if :: delete[1] = true :: !check[0] -> check[1] = true :: skip fi;
		/* No memory for an index entry: it is taken back after it was published. */
#ifndef MOVES
		if :: fails = true :: skip fi;
#endif

		/* All stripes, in order. */
		atomic { !mark[0] -> mark[0] = true };
#ifndef MUTATE_mark_one
		atomic { !mark[1] -> mark[1] = true };
#endif
		atomic {
			old[0] = entry[0]; old[1] = entry[1];
			if
#ifndef MUTATE_check
			:: (old[0] -> ver[old[0] - 1] : ABSENT) != read[0] -> goto undo
			:: (old[1] -> ver[old[1] - 1] : ABSENT) != read[1] -> goto undo
#endif
			:: else
			fi;
			t = versions + 1;
			versions = VERSION(t, 1)
		};
		d_step {
			if
			:: !delete[0] && !check[0] -> allocate(place); made[0] = place + 1;
				key[place] = 0; ver[place] = VERSION(t, 0); kind[place] = NEW
			:: else
			fi;
			if
			:: !delete[1] && !check[1] -> allocate(place); made[1] = place + 1;
				key[place] = 1; ver[place] = VERSION(t, 1); kind[place] = NEW
			:: else
			fi;
			place = 0
		}
#ifdef MUTATE_one_by_one /* each key with an effect of its own */
		if :: old[0] -> kind[old[0] - 1] = DEAD :: else fi;
		d_step { entry[0] = made[0]; if :: made[0] -> kind[made[0] - 1] = LIVE :: else fi }
		if :: old[1] -> kind[old[1] - 1] = DEAD :: else fi;
		d_step {
			entry[1] = made[1]; if :: made[1] -> kind[made[1] - 1] = LIVE :: else fi;
			now++;
			state[now] = (made[0] -> VERSION(t, 0) : ABSENT) +
				     16 * (made[1] -> VERSION(t, 1) : ABSENT)
		}
		goto finished;
#endif
#ifdef DURABLE
		/* The records are on their way to the disk, and the worker does another one,
		 * over other keys, that only checks. */
		if
		:: skip
		:: d_step {
			versions++;
#ifdef MUTATE_check_commits /* as if it had an effect */
			s_ver[0] = 0; s_ver[1] = 0; committed = versions
#endif
		}
		fi;
#endif
		d_step { s_ver[0] = 0; s_ver[1] = 0 } /* no entry */
#ifdef MUTATE_check_entry /* nothing new there: as if it were deleted */
		writes[0] = true; writes[1] = true;
#else
		writes[0] = !check[0]; writes[1] = !check[1];
#endif
		d_step {
			if
			:: writes[0] -> s_ver[0] = t; s_old[0] = old[0]; s_new[0] = made[0];
				s_oldver[0] = (old[0] -> ver[old[0] - 1] : 0)
			:: else
			fi
		}
		d_step {
			if
			:: writes[1] -> s_ver[1] = t; s_old[1] = old[1]; s_new[1] = made[1];
				s_oldver[1] = (old[1] -> ver[old[1] - 1] : 0)
			:: else
			fi
		}
#ifdef MUTATE_old_live
		/* Old items stay live until they are dead. */
#else
		if :: old[0] && !check[0] -> kind[old[0] - 1] = OLD :: else fi;
		if :: old[1] && !check[1] -> kind[old[1] - 1] = OLD :: else fi;
#endif
		if :: made[0] -> entry[0] = made[0] :: else fi;
		if
		:: fails ->
			if :: made[0] -> entry[0] = old[0] :: else fi;
			if :: old[0] -> kind[old[0] - 1] = LIVE :: else fi;
			if :: old[1] -> kind[old[1] - 1] = LIVE :: else fi;
			goto undo
		:: else
		fi;
		if :: made[1] -> entry[1] = made[1] :: else fi;
		d_step {
			committed = t; /* the point of effect */
			assert(STATE(now, 0) == read[0] && STATE(now, 1) == read[1]);
			now++;
			state[now] = (check[0] -> read[0] : (made[0] -> VERSION(t, 0) : ABSENT)) +
				     16 * (check[1] -> read[1] :
						       (made[1] -> VERSION(t, 1) : ABSENT))
		}
		if
		:: old[0] && made[0] -> kind[old[0] - 1] = DEAD
		:: old[0] && delete[0] -> kind[old[0] - 1] = DELETED; entry[0] = 0
		:: else
		fi;
		if
		:: old[1] && made[1] -> kind[old[1] - 1] = DEAD
		:: old[1] && delete[1] -> kind[old[1] - 1] = DELETED; entry[1] = 0
		:: else
		fi;
		if :: made[0] -> kind[made[0] - 1] = LIVE :: else fi;
		if :: made[1] -> kind[made[1] - 1] = LIVE :: else fi;
#ifdef MUTATE_one_by_one
finished:
#endif
		atomic { mark[0] = false; mark[1] = false };
		d_step {
			if :: !check[0] -> release(old[0]) :: else fi;
			if :: !check[1] -> release(old[1]) :: else fi
		}
		goto reset;
undo:
		atomic { release(made[0]); release(made[1]); mark[0] = false; mark[1] = false };
reset:
		atomic {
			read[0] = 0; read[1] = 0; old[0] = 0; old[1] = 0; made[0] = 0; made[1] = 0;
			delete[0] = false; delete[1] = false; check[0] = false; check[1] = false;
			writes[0] = false; writes[1] = false; fails = false; t = 0
		}
	:: txns == TXNS -> break
	od
}

/* A change of key 1 alone; item.pml shows that it seems to be one step. */
proctype single()
{
	byte place;

	atomic { !mark[1] -> mark[1] = true };
	d_step {
		allocate(place);
		versions++;
		key[place] = 1; ver[place] = versions; kind[place] = LIVE;
		now++;
		state[now] = STATE(now - 1, 0) + 16 * versions;
		release(entry[1]);
		entry[1] = place + 1;
		place = 0
	}
	mark[1] = false
}

/* An item that moves, by a worker that does no transaction meanwhile. */
proctype compaction()
{
	byte place, k = 1;

#ifndef MUTATE_move_unmarked
	atomic { !mark[k] -> mark[k] = true };
#endif
	d_step {
		if
		:: entry[k] ->
			allocate(place);
			key[place] = k; ver[place] = ver[entry[k] - 1]; kind[place] = LIVE;
			release(entry[k]);
			entry[k] = place + 1;
			place = 0
		:: else
		fi
	}
#ifndef MUTATE_move_unmarked
	mark[k] = false
#endif
}

inline answer(v)
{
	atomic {
		do
		:: from <= now && STATE(from, k) != (v) -> from++
		:: from > now || STATE(from, k) == (v) -> break
		od;
		assert(from <= now);
		goto over
	}
}

/* Entry j of the scratch: is it that of the item v in place `at`? */
inline entry_of_item()
{
	if
	:: !mine && s_ver[j] &&
	   (kd == NEW -> s_new[j] == at + 1 && VERSION(s_ver[j], j) == v
		      : s_old[j] == at + 1 && s_oldver[j] == v) ->
		mine = true;
		t = s_ver[j]; old = s_old[j]; oldver = s_oldver[j]; new = s_new[j]
	:: else
	fi
}

proctype reader()
{
	byte k, from, at, kd, v, c, old, oldver, new, t, m, j;
	bool hint, mine, second;

#ifdef MOVES
	second = true; /* one GET is enough */
#endif
begin:
	atomic {
		from = now;
		if :: k = 0 :: k = 1 fi;
		if
		:: hint = false
		:: hint = true; at = 0
		:: hint = true; at = 1
		:: hint = true; at = 2
		:: hint = true; at = 3
		:: hint = true; at = 4
		fi
	}
	if :: hint -> goto item :: else fi;
bucket:
	atomic {
		hint = false; kd = 0; v = 0; c = 0; old = 0; oldver = 0; new = 0; t = 0;
		at = 0; mine = false;
		if
		:: entry[k] == 0 -> answer(ABSENT)
		:: else -> at = entry[k] - 1
		fi
	}
item:
	atomic {
		kd = kind[at]; v = ver[at];
		if
		:: kd == DEAD || key[at] != k -> goto bucket
		:: else
		fi;
		if
		:: kd == LIVE -> answer(v)
		:: kd == DELETED ->
			if :: hint -> goto bucket :: else -> answer(ABSENT) fi
#ifdef MUTATE_new_live
		:: kd == NEW -> answer(v)
#endif
		:: else
		fi
	}
	/* OLD or NEW: the scratch, its parts in any order.  An entry is the item's by place and
	 * version. */
	do
	:: !(m & 1) -> atomic { c = committed; m = m | 1 }
	:: !(m & 2) -> atomic { m = m | 2; j = 0; entry_of_item() }
	:: !(m & 4) -> atomic { m = m | 4; j = 1; entry_of_item() }
	:: m == 7 -> break
	od;
	atomic {
		m = 0; j = 0;
		if
		:: !mine ->
			/* That transaction is over, or it hasn't come to the scratch and only an old
			 * location led here. */
			goto bucket
		:: else
		fi;
		if
		:: c < t ->
			if
			:: kd == OLD -> answer(v)
			:: kd == NEW && old == 0 -> answer(ABSENT)
			:: kd == NEW && old != 0 -> at = old - 1
			fi
#ifdef MUTATE_committed_ge /* for deletes, a later transaction's word will do, too */
		:: c > t && kd == OLD && !new -> answer(ABSENT)
#endif
		:: c == t ->
			/* It was, when the item was READ or a moment later. */
			if
			:: kd == NEW -> answer(v)
			:: kd == OLD && new -> goto bucket
			:: kd == OLD && !new ->
#ifdef MUTATE_deleted_again
				goto bucket
#else
				answer(ABSENT)
#endif
			fi
		:: else -> goto bucket
		fi
	}
	/* Not committed when the item was READ: the old one. */
	atomic {
		if
		:: (kind[at] == LIVE || kind[at] == OLD) && ver[at] == oldver && key[at] == k ->
			answer(oldver)
		:: else -> goto bucket
		fi
	}
over:
	atomic {
		k = 0; from = 0; at = 0; kd = 0; v = 0; c = 0; old = 0; oldver = 0; new = 0; t = 0;
		hint = false; mine = false;
		if
		:: !second -> second = true; goto begin
		:: else
		fi
	}
}

init {
	atomic {
		/* As one transaction before would have left them. */
		kind[0] = LIVE; ver[0] = VERSION(1, 0); key[0] = 0; entry[0] = 1; used = 1;
		state[0] = VERSION(1, 0);
		if
		:: kind[1] = LIVE; ver[1] = VERSION(1, 1); key[1] = 1; entry[1] = 2; used = 3;
		   state[0] = VERSION(1, 0) + 16 * VERSION(1, 1)
		:: true /* key 1 is absent */
		fi;
		run transactions();
#ifdef SINGLE
		run single();
#endif
#ifdef MOVES
		run compaction();
#endif
		run reader()
	}
}

#else
/* ------------------------------------------- read-only, in two passes */
#ifndef CHANGES
#define CHANGES 3
#endif
byte has[3];         /* versions; 0: absent */
byte versions = 3;
byte was[15];        /* has[] after each change */
byte now;

inline choose(k)
{
	if
	:: skip
	:: has[k] = ABSENT
	:: versions++; has[k] = versions
	fi
}

proctype changes()
{
	do
	:: now < CHANGES -> atomic {
		choose(0); choose(1); choose(2);
		now++;
		was[3 * now] = has[0]; was[3 * now + 1] = has[1]; was[3 * now + 2] = has[2] }
	:: now == CHANGES -> break
	od
}

inline look(k)
{
	atomic {
		if
		:: has[k] != a[k] -> goto over /* it has to begin anew */
		:: else
		fi
	}
}

proctype reader()
{
	byte a[3], from, absent;

	from = now;
	a[0] = has[0];
	a[1] = has[1];
	a[2] = has[2];
	absent = (a[0] == 0) + (a[1] == 0) + (a[2] == 0);
#ifndef MUTATE_two_absent
	if
	:: absent > 1 -> goto over /* kvd is asked */
	:: else
	fi;
#endif
#ifndef MUTATE_one_pass
#ifndef MUTATE_pass_order
	/* The absent one first: at an instant between the passes of the others. */
	if :: a[0] == 0 -> look(0) :: else fi;
	if :: a[1] == 0 -> look(1) :: else fi;
	if :: a[2] == 0 -> look(2) :: else fi;
	if :: a[0] -> look(0) :: else fi;
	if :: a[1] -> look(1) :: else fi;
	if :: a[2] -> look(2) :: else fi;
#else
	look(0);
	look(1);
	look(2);
#endif
#endif
	atomic {
		do
		:: from <= now && !(was[3 * from] == a[0] && was[3 * from + 1] == a[1] &&
				    was[3 * from + 2] == a[2]) -> from++
		:: else -> break
		od;
		assert(from <= now)
	}
over:
	skip
}

init {
	atomic {
		if :: has[0] = 1 :: skip fi;
		if :: has[1] = 2 :: skip fi;
		if :: has[2] = 3 :: skip fi;
		was[0] = has[0]; was[1] = has[1]; was[2] = has[2];
		run changes();
		run reader()
	}
}
#endif

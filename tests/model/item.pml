/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One key K: its changes, and readers that look for it by one-sided READs.
 *
 * kvd (writer) makes a few changes of K, one after the other, as the stripe's mark
 * orders them; every store to memory is a step.  Freed memory is used again at
 * once, by K, by another key X with K's fingerprint in K's bucket, or by the copy
 * that answers a GET by message.  Compaction moves K's item, which keeps its version and its
 * value; eviction and expiry delete it as a request does.  Two readers do one GET each.  A reader may start
 * with any mirrored location.  The words of one READ are sampled in any order, at
 * different times.
 *
 * Properties:
 *   linearizable  each answer fits an order of K's changes and of all GETs that
 *                 agrees with real time (exact: changes are sequential, and each
 *                 GET takes the earliest place that it can have)
 *   no cycle      a reader that goes round while kvd stands still would never end:
 *                 pan -l finds any cycle, so with kvd stopped at any step each GET
 *                 ends (rule 13)
 */
#ifndef NOPS
#define NOPS 4
#endif
#define NL 3 /* places for items */
#define NS 2 /* words of the bucket */

#define DEAD 0
#define LIVE 1
#define DELETED 2
#define UPDATING 3  /* being overwritten: the old item is in the scratch */
#define PREPARED 4  /* live if the item named by the scratch is not */
#define INSERTING 5 /* its key is absent as long as it says so */
#define COPY 6      /* for one client's GET by message only */

/* An item: three words.  `dat` is key and value: the number of the change that wrote it. */
byte kind[NL], ver[NL]; /* one word: the state */
byte dat[NL];
byte sum[NL];
#define SEAL(v, d) ((v) * 8 + (d))

/* The bucket's words: place + 1, 0 = empty.  X and K have one fingerprint. */
byte entry[NS];

/* The worker's scratch: a copy of an item with its place, and the head. */
byte s_ver, s_dat, s_sum, s_loc;
byte s_new, s_oldloc, s_oldver;

/* Which changes wrote X's items. */
byte x_ids;
#define IS_X(d) ((x_ids >> (d)) & 1)

/* K's history: change 1 made it live in place 0.  Numbers grow. */
byte started = 1, done = 1, observed = 1;
byte deletes; /* changes after which K is absent */
#define IS_DELETE(j) ((deletes >> (j)) & 1)

#ifdef MUTATE_insert_scratch /* prepared, with no old item: the scratch says so */
inline begin_insert(vers)
{
	s_oldloc = 0;
	s_new = vers;
	d_step { kind[to] = PREPARED; ver[to] = vers }
}
#else
inline begin_insert(vers)
{
	d_step { kind[to] = INSERTING; ver[to] = vers }
}
#endif

proctype writer()
{
	byte ops, id = 1, k = 1, x = 0, copy = 0; /* places + 1 */
	byte used = 1, freeing = 0, to, slot, v, old;

	do
	:: ops < NOPS ->
		ops++;
		id++;
		if
		/* ---- K: insert */
		:: k == 0 && used != 7 ->
			d_step {
				started = id;
				if
				:: !(used & 1) -> to = 0
				:: else -> if :: !(used & 2) -> to = 1 :: else -> to = 2 fi
				fi;
				slot = (entry[0] -> 1 : 0);
				used = used | (1 << to);
				v = id
			}
#ifdef MUTATE_versions
			v = 1;
#endif
			dat[to] = id;
			sum[to] = SEAL(v, id);
#ifdef MUTATE_insert_live
			d_step { kind[to] = LIVE; ver[to] = v }
			entry[slot] = to + 1;
#else
			begin_insert(v);
			entry[slot] = to + 1;
			kind[to] = LIVE; /* the point of effect */
#endif
			d_step { k = to + 1; done = id; to = 0; slot = 0; v = 0 }
		/* ---- K: update in place */
		:: k ->
			d_step { started = id; to = k - 1; old = ver[to]; v = id; s_new = id }
#ifdef MUTATE_versions
			v = old + 1;
#endif
			s_dat = dat[to];
			d_step { s_sum = sum[to]; s_loc = to }
			s_ver = old;
			kind[to] = UPDATING;
			dat[to] = id;
			sum[to] = SEAL(v, id);
			d_step { kind[to] = LIVE; ver[to] = v } /* the point of effect */
			d_step { done = id; to = 0; v = 0; old = 0 }
		/* ---- K: update elsewhere */
		:: k && used != 7 && !freeing ->
			d_step {
				started = id;
				if
				:: !(used & 1) -> to = 0
				:: else -> if :: !(used & 2) -> to = 1 :: else -> to = 2 fi
				fi;
				slot = (entry[0] == k -> 0 : 1);
				used = used | (1 << to);
				old = ver[k - 1];
				v = id
			}
#ifdef MUTATE_versions
			v = old + 1;
#endif
			dat[to] = id;
			sum[to] = SEAL(v, id);
#if defined MUTATE_new_first /* the new item live before the old one is dead */
			d_step { kind[to] = LIVE; ver[to] = v }
			entry[slot] = to + 1;
			kind[k - 1] = DEAD;
#elif defined MUTATE_no_prepared /* rule 10 alone: dead, entry, live */
			kind[k - 1] = DEAD;
			entry[slot] = to + 1;
			d_step { kind[to] = LIVE; ver[to] = v }
#else
			s_oldloc = k;
			s_oldver = old;
			s_new = v;
			d_step { kind[to] = PREPARED; ver[to] = v }
			entry[slot] = to + 1;
			kind[k - 1] = DEAD; /* the point of effect */
			kind[to] = LIVE;
#endif
			d_step {
				freeing = k; k = to + 1; done = id;
				to = 0; slot = 0; v = 0; old = 0
			}
		/* ---- K: moved by compaction: no change, so its history has no more than before */
		:: k && used != 7 && !freeing ->
			d_step {
				if
				:: !(used & 1) -> to = 0
				:: else -> if :: !(used & 2) -> to = 1 :: else -> to = 2 fi
				fi;
				slot = (entry[0] == k -> 0 : 1);
				used = used | (1 << to);
				old = ver[k - 1];
				dat[to] = dat[k - 1];
				sum[to] = sum[k - 1];
				s_oldloc = k;
				s_oldver = old
			}
			s_new = old;
			d_step { kind[to] = PREPARED; ver[to] = old }
			entry[slot] = to + 1;
#ifndef MUTATE_move_live /* the place is free, and what stood there looks alive */
			kind[k - 1] = DEAD;
#endif
			kind[to] = LIVE;
			d_step { freeing = k; k = to + 1; to = 0; slot = 0; old = 0 }
		/* ---- K: delete, evict, expire */
		:: k && !freeing ->
			d_step {
				started = id;
				deletes = deletes | (1 << id);
				slot = (entry[0] == k -> 0 : 1)
			}
#ifndef MUTATE_evict_live /* only the entry goes */
			kind[k - 1] = DELETED; /* the point of effect */
#endif
			entry[slot] = 0;
			d_step { freeing = k; k = 0; done = id; slot = 0 }
		/* ---- X: insert, update in place, delete */
		:: x == 0 && used != 7 ->
			d_step {
				x_ids = x_ids | (1 << id);
				if
				:: !(used & 1) -> to = 0
				:: else -> if :: !(used & 2) -> to = 1 :: else -> to = 2 fi
				fi;
				slot = (entry[0] -> 1 : 0);
				used = used | (1 << to)
			}
			dat[to] = id;
			sum[to] = SEAL(id, id);
			begin_insert(id);
			entry[slot] = to + 1;
			kind[to] = LIVE;
			d_step { x = to + 1; to = 0; slot = 0 }
		:: x ->
			d_step {
				x_ids = x_ids | (1 << id);
				to = x - 1; old = ver[to]; s_new = id; s_dat = dat[to]
			}
			d_step { s_sum = sum[to]; s_loc = to; s_ver = old }
			kind[to] = UPDATING;
			dat[to] = id;
			sum[to] = SEAL(id, id);
			d_step { kind[to] = LIVE; ver[to] = id }
			d_step { to = 0; old = 0 }
		:: x && !freeing ->
			d_step { slot = (entry[0] == x -> 0 : 1); kind[x - 1] = DELETED }
			entry[slot] = 0;
			d_step { freeing = x; x = 0; slot = 0 }
		/* ---- the copy that answers a GET by message */
		:: copy == 0 && k && used != 7 ->
			d_step {
				if
				:: !(used & 1) -> to = 0
				:: else -> if :: !(used & 2) -> to = 1 :: else -> to = 2 fi
				fi;
				used = used | (1 << to);
				dat[to] = dat[k - 1];
				sum[to] = sum[k - 1]
			}
			d_step {
#ifdef MUTATE_copy_live
				kind[to] = LIVE;
#else
				kind[to] = COPY;
#endif
				ver[to] = ver[k - 1]; copy = to + 1; to = 0
			}
		:: copy && !freeing ->
			d_step { freeing = copy; copy = 0 }
		:: else -> skip
		fi
	/* Memory is freed after the mark is gone: at any time from then on. */
	:: freeing ->
		d_step { kind[freeing - 1] = DEAD; used = used & ~(1 << (freeing - 1)); freeing = 0 }
	:: ops == NOPS && !freeing -> break
	od
}

/* Samples the item in place `at`, in any order of its words. */
inline read_item()
{
	atomic { m = 0; kd = 0; v = 0; d = 0; c = 0 }
	do
	:: !(m & 1) -> atomic {
		kd = kind[at]; v = ver[at];
		/* The rest does not matter then. */
		m = ((kd == DEAD || kd == UPDATING) -> 7 : m | 1) }
	:: !(m & 2) -> atomic { d = dat[at]; m = m | 2 }
	:: !(m & 4) -> atomic { c = sum[at]; m = m | 4 }
	:: m == 7 -> break
	od;
	m = 0
}

#ifdef MUTATE_checksum
#define WHOLE(v, d, c) (true)
#else
#define WHOLE(v, d, c) ((c) == SEAL(v, d))
#endif

inline value(id)
{
	atomic {
		assert(id >= low && id <= started);
		observed = (id > observed -> id : observed);
		goto over
	}
}

inline absent()
{
	atomic {
		do
		:: low <= started && !IS_DELETE(low) -> low++
		:: else -> break
		od;
		assert(low <= started);
		observed = (low > observed -> low : observed);
		goto over
	}
}

proctype reader()
{
	byte low, at, m, kd, v, d, c;
	byte b[NS], tried, doubt, slot, hint;
	byte other_at[NS], other_ver[NS]; /* X's items that were seen: place + 1, version */
	byte held, held_at, oldver, accept;
	bool second;

begin:
	atomic {
		low = (done > observed -> done : observed);
		if
		:: hint = 0
		:: hint = 1; at = 0
		:: hint = 1; at = 1
		:: hint = 1; at = 2
		fi
	}
	if
	:: hint -> goto item
	:: else
	fi;

buckets:
	atomic {
		hint = 0; tried = 0; doubt = 0; accept = 0; held = 0; held_at = 0; oldver = 0;
		at = 0; m = 0; kd = 0; v = 0; d = 0; c = 0; b[0] = 0; b[1] = 0
	}
	do
	:: !(m & 1) -> atomic { b[0] = entry[0]; m = m | 1 }
	:: !(m & 2) -> atomic { b[1] = entry[1]; m = m | 2 }
	:: m == 3 -> break
	od;
	m = 0;
#ifdef MUTATE_tried_entry /* only the entry is looked at again, not the version */
	atomic {
		tried = ((b[0] && b[0] == other_at[0]) -> 1 : 0);
		tried = ((b[1] && b[1] == other_at[1]) -> tried | 2 : tried)
	}
#endif
search:
	atomic {
		if
		:: b[0] && !(tried & 1) -> slot = 0
		:: !(b[0] && !(tried & 1)) && b[1] && !(tried & 2) -> slot = 1
		:: else ->
			/* Every entry was another key's: since before this sample? */
			if
			:: doubt -> goto buckets
			:: else -> absent()
			fi
		fi;
		at = b[slot] - 1
	}
item:
	read_item();
	atomic {
		if
		:: kd == DEAD ->
#ifdef MUTATE_dead_absent
			if :: !hint -> absent() :: else -> goto buckets fi
#else
			goto buckets
#endif
		:: kd == UPDATING -> held = v; goto updating
		:: kd == COPY -> goto buckets
		:: kd != DEAD && kd != UPDATING && kd != COPY && !WHOLE(v, d, c) -> goto buckets
		:: else
		fi;
		if
		:: IS_X(d) -> goto other
		:: else
		fi;
		if
		:: kd == LIVE -> value(d)
		:: kd == DELETED ->
#ifdef MUTATE_deleted_hint
			absent()
#else
			if :: hint -> goto buckets :: else -> absent() fi
#endif
		:: kd == INSERTING -> absent()
		:: kd == PREPARED ->
#ifdef MUTATE_prepared_live
			value(d)
#else
			if
			:: accept && v == held -> value(d)
			:: else -> held = v; held_at = at
			fi
#endif
		fi
	}
	/* PREPARED: the head of the scratch. */
	atomic { m = 0; kd = 0; v = 0; d = 0; c = 0 }
	do
	:: !(m & 1) -> atomic { v = s_new; m = m | 1 }
	:: !(m & 2) -> atomic { d = s_oldloc; m = m | 2 }
	:: !(m & 4) -> atomic { oldver = s_oldver; m = m | 4 }
	:: m == 7 -> break
	od;
	atomic {
		m = 0;
		if
#ifdef MUTATE_insert_scratch
		:: v == held && d == 0 -> absent()
#endif
		:: v != held || d == 0 -> goto buckets
		:: else -> at = d - 1
		fi
	}
	read_item();
	atomic {
		if
		:: kd == LIVE && WHOLE(v, d, c) && !IS_X(d) && v == oldver -> value(d)
		:: else
		fi;
		accept = 1; at = held_at; held_at = 0; oldver = 0;
		goto item
	}

updating:
#ifdef MUTATE_no_scratch
	goto buckets;
#endif
	atomic { m = 0; kd = 0; v = 0; d = 0; c = 0 }
	do
	:: !(m & 1) -> atomic { v = s_ver; m = m | 1 }
	:: !(m & 2) -> atomic { d = s_dat; m = m | 2 }
	:: !(m & 4) -> atomic { c = s_sum; m = m | (s_loc == at -> 4 : 12) }
	:: (m & 7) == 7 -> break
	od;
	atomic {
		if
		:: !WHOLE(v, d, c) || (m & 8) || v != held -> goto buckets
		:: else
		fi;
		m = 0;
		if
		:: IS_X(d) ->
#ifdef MUTATE_updating_other
			goto buckets
#else
			goto other
#endif
		:: else -> value(d)
		fi
	}

	/*
	 * A whole item of X, of version v.  The entry was X's if that version was there
	 * before the entry was sampled and still is.
	 */
other:
	atomic {
		if
		:: hint -> goto buckets
		:: else
		fi;
		tried = tried | (1 << slot);
#ifdef MUTATE_tried
		goto search;
#endif
		if
		:: other_at[slot] == at + 1 && other_ver[slot] == v
		:: else -> doubt = 1; other_at[slot] = at + 1; other_ver[slot] = v
		fi;
		goto search
	}
over:
	atomic {
		hint = 0; tried = 0; doubt = 0; accept = 0; held = 0; held_at = 0; oldver = 0;
		at = 0; m = 0; kd = 0; v = 0; d = 0; c = 0; b[0] = 0; b[1] = 0;
		other_at[0] = 0; other_at[1] = 0; other_ver[0] = 0; other_ver[1] = 0;
		slot = 0; low = 0;
		if
		:: !second -> second = true; goto begin
		:: else
		fi
	}
}

init {
	atomic {
		kind[0] = LIVE; ver[0] = 1; dat[0] = 1; sum[0] = SEAL(1, 1);
		entry[0] = 1;
		run writer();
		run reader()
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The index grows while a reader looks for a key K: grouped linear hashing as in
 * common/layout.h, with one group at level 0.
 *
 * kvd (writer) expands groups, 2 -> 3 -> 4 buckets, four being two groups of the
 * next level; between expansions it inserts and deletes K and other keys, so that
 * overflow nodes come and go.  Every store of a word is a step.  K has one of 24
 * places in the group's range; other keys (FILL) leave or stay as they like.
 *
 * The reader begins with any view of the index that a client can have: old, as
 * published, or learnt from any bucket in any state.
 *
 * Properties:
 *   a reader says "absent" only if K was absent at some time during the call
 *   no cycle: with kvd stopped at any step the reader ends (pan -l)
 *
 * -DSIDES=2: K has two hashes; the second one's bucket is in another group, which
 * does not grow.  -DSAME_GROUP: it is in the same group.
 */
#ifndef SIDES
#define SIDES 1
#endif
#ifndef EXPANSIONS
#define EXPANSIONS 4
#endif
#ifndef CHANGES
#define CHANGES 2
#endif

#define BUCKETS 8
#define OTHER 8 /* the bucket of the other group */
#define NODES 3
#define EMPTY 0
#define KEY 1
#define FILL 2
#define LINK 8 /* + node + 8 * generation */
#define IS_LINK(x) ((x) >= LINK)
#define NODE(x) ((x) & 7)

/* Words: two a bucket.  The last may be a link.  Each has its epoch. */
byte word[18], epoch[18];
byte node[6]; /* two words a node */
byte generation = 1;
byte free_nodes = 7;

byte buckets = 2; /* published */
byte part[2];     /* K's place in the group's range, of each hash; 24: in OTHER */
bool live;        /* K's item */
bool was_absent;  /* since the reader's call began */

/* The bucket of the part p at epoch e; see layout_bucket_of(). */
#define PLACE3(r) ((r) == 0 -> 0 : ((r) == 1 -> 1 : 4))
#define PLACE3H(r) ((r) == 0 -> 2 : ((r) == 1 -> 3 : 5))
#define PLACE4(r) ((r) == 3 -> 6 : PLACE3(r))
#define PLACE4H(r) ((r) == 3 -> 7 : PLACE3H(r))
#define PLACE(p, e) ((p) == 24 -> OTHER : \
	((e) == 0 -> (p) / 12 : ((e) == 1 -> (p) / 8 : ((e) == 2 -> (p) / 6 : \
	((e) == 3 -> ((p) < 12 -> PLACE3((p) % 12 / 4) : PLACE3H((p) % 12 / 4)) : \
	((p) < 12 -> PLACE4((p) % 12 / 3) : PLACE4H((p) % 12 / 3)))))))
/* The epoch of the part p if there are n buckets; see layout_view_epoch(). */
#define EPOCH(p, n) ((p) == 24 -> 0 : \
	((n) < 5 -> (n) - 2 : ((n) == 5 -> ((p) < 12 -> 3 : 2) : \
	((n) == 6 -> 3 : ((n) == 7 -> ((p) < 12 -> 4 : 3) : 4)))))
/* The group at level 1 of a bucket. */
#define UPPER(b) ((b) == 2 || (b) == 3 || (b) == 5 || (b) == 7)
/*
 * How many buckets there are at least if bucket b is at epoch e: the groups before
 * its own were expanded to e.  Its own may be in the middle of it.
 */
#define FLOOR(b, e) ((e) == 0 -> 2 : ((e) == 1 -> 2 : ((e) == 2 -> 3 : \
	((e) == 3 -> 4 + UPPER(b) : 6 + UPPER(b)))))

#define STORE(b, s, x, e) d_step { word[2 * (b) + (s)] = x; epoch[2 * (b) + (s)] = e }

/* -------------------------------------------------------------------- kvd */

/* -> n: a free node, 7 if there is none */
inline node_new()
{
	d_step {
		if
		:: free_nodes & 1 -> n = 0
		:: else -> if :: free_nodes & 2 -> n = 1
			   :: else -> if :: free_nodes & 4 -> n = 2 :: else -> n = 7 fi fi
		fi;
		if
		:: n < 7 -> free_nodes = free_nodes & ~(1 << n); generation++
		:: else
		fi
	}
}
#define NEW_LINK (LINK + n + 8 * (generation & 15))

/*
 * Adds x to bucket b, whose words have epoch e: one store that readers can see.  An
 * unlinked node's words are written in the same step: only readers of its former
 * life could see them, who look at the link again whatever they saw.  Two nodes a
 * chain at the most: beyond that, or without a free node, kvd stops.
 */
inline add(b, x, e)
{
	atomic {
		if
		:: word[2 * (b)] == EMPTY -> STORE(b, 0, x, e)
		:: word[2 * (b)] != EMPTY && word[2 * (b) + 1] == EMPTY -> STORE(b, 1, x, e)
		:: word[2 * (b)] != EMPTY && IS_LINK(word[2 * (b) + 1]) ->
			k = NODE(word[2 * (b) + 1]);
			if
			:: node[2 * k] == EMPTY -> node[2 * k] = x
			:: node[2 * k] != EMPTY && node[2 * k + 1] == EMPTY -> node[2 * k + 1] = x
			:: node[2 * k] != EMPTY && node[2 * k + 1] != EMPTY &&
			   !IS_LINK(node[2 * k + 1]) ->
				node_new();
				n < 7;
				node[2 * n] = node[2 * k + 1];
				node[2 * n + 1] = x;
				node[2 * k + 1] = NEW_LINK
			fi
		:: word[2 * (b)] != EMPTY && word[2 * (b) + 1] != EMPTY && !IS_LINK(word[2 * (b) + 1]) ->
			node_new();
			n < 7;
			node[2 * n] = word[2 * (b) + 1];
			node[2 * n + 1] = x;
#ifdef MUTATE_link_first /* a node linked before its words are there */
			i1 = node[2 * n]; node[2 * n] = EMPTY; node[2 * n + 1] = EMPTY
		fi
	}
	if
	:: i1 ->
		STORE(b, 1, NEW_LINK, e);
		d_step { node[2 * n] = i1; node[2 * n + 1] = x; i1 = 0 }
	:: else
	fi;
	d_step { k = 0; n = 0 }
#else
			STORE(b, 1, NEW_LINK, e)
		fi;
		k = 0; n = 0
	}
#endif
}

/* Whether the entry x leaves bucket b; K by the hash by which it stands there. */
inline leaves(x, b, e)
{
	if
	:: x == FILL -> gone = 0
	:: x == FILL -> gone = 1
	:: x == KEY ->
		if
		:: PLACE(part[0], e) == b -> gone = (PLACE(part[0], e + 1) != b)
		:: else -> gone = (PLACE(part[1], e + 1) != b)
		fi
	:: else -> gone = 0
	fi
}

/* Takes an entry of bucket b out of `content`: to bucket `to`, or to stay. */
inline sort(i, b, to, e)
{
	atomic {
		leaves(content[i], b, e);
		if
		:: gone ->
			i1 = content[i];
			content[i] = EMPTY;
			gone = 0;
#ifdef MUTATE_leavers_late
			late[i] = i1; i1 = 0
#else
			x1 = i1; i1 = 0
#endif
		:: else
		fi
	}
#ifndef MUTATE_leavers_late
	if
	:: x1 -> add(to, x1, e + 1); x1 = 0
	:: else
	fi
#endif
}

/* Takes the next overflow entry that stays, or EMPTY. */
inline next_over()
{
	x1 = EMPTY;
	if
	:: content[2] -> x1 = content[2]; content[2] = EMPTY
	:: else ->
		if
		:: content[3] -> x1 = content[3]; content[3] = EMPTY
		:: else -> x1 = content[4]; content[4] = EMPTY
		fi
	fi
}

/* Bucket b goes from epoch e to e + 1, and what leaves it to bucket `to`. */
inline expand_bucket(b, to, e)
{
	atomic {
		content[0] = word[2 * (b)];
		content[1] = word[2 * (b) + 1];
		if
		:: IS_LINK(content[1]) ->
			k = NODE(content[1]);
			old_nodes = 1 << k;
			content[1] = EMPTY;
			content[2] = node[2 * k];
			content[3] = node[2 * k + 1];
			if
			:: IS_LINK(content[3]) ->
				k = NODE(content[3]);
				old_nodes = old_nodes | (1 << k);
				content[3] = node[2 * k];
				content[4] = node[2 * k + 1]
			:: else
			fi;
			k = 0
		:: else
		fi
	}
	do
	:: i < 5 && content[i] -> sort(i, b, to, e); i++
	:: i < 5 && !content[i] -> i++
	:: i == 5 -> i = 0; break
	od;
	/* The stayers: free words first, the rest to a new chain. */
	atomic {
		if
		:: content[0] == EMPTY -> next_over(); content[0] = x1
		:: else
		fi;
		over = (content[2] != EMPTY) + (content[3] != EMPTY) + (content[4] != EMPTY);
		if
		:: content[1] == EMPTY && over == 1 -> next_over(); content[1] = x1; over = 0
		:: else
		fi;
		if
		:: over == 3 ->
			node_new();
			n < 7;
			next_over(); node[2 * n] = x1;
			next_over(); node[2 * n + 1] = x1;
			i1 = NEW_LINK
		:: else
		fi;
		if
		:: over ->
			assert(content[1] == EMPTY); /* a link stood there */
			node_new();
			n < 7;
			next_over(); node[2 * n] = x1;
			next_over(); node[2 * n + 1] = (i1 -> i1 : x1);
			content[1] = NEW_LINK
		:: else
		fi;
		x1 = 0; n = 0; over = 0; i1 = 0
	}
#ifdef MUTATE_link_order
	STORE(b, 1, content[1], e + 1);
	STORE(b, 0, content[0], e + 1);
#else
	STORE(b, 0, content[0], e + 1);
	STORE(b, 1, content[1], e + 1);
#endif
	d_step {
		free_nodes = free_nodes | old_nodes; old_nodes = 0;
		content[0] = 0; content[1] = 0; content[2] = 0; content[3] = 0; content[4] = 0
	}
#ifdef MUTATE_leavers_late
	i1 = 0;
	do
	:: i1 < 5 && late[i1] -> add(to, late[i1], e + 1); late[i1] = 0; i1++
	:: i1 < 5 && !late[i1] -> i1++
	:: i1 == 5 -> i1 = 0; break
	od
#endif
}

/* The j-th bucket of the group that gets bucket n. */
#define MEMBER(n, j) ((n) < 4 -> (j) : (UPPER(n) -> \
	((j) < 2 -> 2 + (j) : ((j) == 2 -> 5 : 7)) : ((j) < 2 -> (j) : ((j) == 2 -> 4 : 6))))

/* Where K stands: -> k = 2 * bucket + word, or 20 + 2 * node + word, or 99 */
inline find(b)
{
	if
	:: word[2 * (b)] == KEY -> k = 2 * (b)
	:: word[2 * (b)] != KEY && word[2 * (b) + 1] == KEY -> k = 2 * (b) + 1
	:: word[2 * (b)] != KEY && IS_LINK(word[2 * (b) + 1]) ->
		n = NODE(word[2 * (b) + 1]);
		if
		:: node[2 * n] == KEY -> k = 20 + 2 * n
		:: node[2 * n] != KEY && node[2 * n + 1] == KEY -> k = 20 + 2 * n + 1
		:: node[2 * n] != KEY && IS_LINK(node[2 * n + 1]) ->
			n = NODE(node[2 * n + 1]);
			if
			:: node[2 * n] == KEY -> k = 20 + 2 * n
			:: else -> if :: node[2 * n + 1] == KEY -> k = 20 + 2 * n + 1
				   :: else fi
			fi
		:: else
		fi
	:: else
	fi
}

proctype writer()
{
	byte b, to, fresh, e, j, i, k, n, x1, over, old_nodes, changes, spot, i1;
#ifdef MUTATE_ascending
	byte last;
#endif
	byte content[5];
#ifdef MUTATE_leavers_late
	byte late[5];
#endif
	bool gone;
	byte expansions;

	do
	:: expansions < EXPANSIONS ->
		d_step {
			expansions++;
			e = EPOCH((UPPER(buckets) -> 12 : 0), buckets);
			j = 2 + (e & 1); /* buckets of the group */
			fresh = buckets; to = fresh
		}
		STORE(to, 0, EMPTY, e + 1);
		STORE(to, 1, EMPTY, e + 1);
#ifdef MUTATE_publish_early
		buckets++;
#endif
#ifdef MUTATE_ascending
		atomic { last = j; j = 0 }
		do
		:: j < last ->
			atomic { b = MEMBER(fresh, j); to = MEMBER(fresh, j + 1) }
			expand_bucket(b, to, e);
			j++
		:: j == last -> j = 0; last = 0; break
		od;
#else
		do
		:: j ->
			atomic { j--; b = MEMBER(fresh, j) }
			expand_bucket(b, to, e);
			to = b
		:: !j -> break
		od;
#endif
		atomic { b = 0; to = 0; e = 0; fresh = 0 }
#ifndef MUTATE_publish_early
		buckets++
#endif
	:: changes < CHANGES ->
		changes++;
		d_step {
			spot = PLACE(part[0], EPOCH(part[0], buckets));
			k = 99;
			find(spot);
			n = 0
		}
#if SIDES == 2
		d_step {
			if
			:: k == 99 ->
				spot = PLACE(part[1], EPOCH(part[1], buckets));
				find(spot);
				n = 0
			:: else
			fi
		}
#endif
		if
		/* K: deleted, or inserted by either hash */
		:: k < 99 ->
			d_step { live = false; was_absent = true }
			if
			:: k < 20 -> word[k] = EMPTY
			:: else -> node[k - 20] = EMPTY
			fi
		:: k == 99 ->
			k = 0;
			if
			:: spot = PLACE(part[0], EPOCH(part[0], buckets))
#if SIDES == 2
			:: spot = PLACE(part[1], EPOCH(part[1], buckets))
#endif
			fi;
			add(spot, KEY, epoch[2 * spot]);
			live = true
#ifdef FILLERS
		/* Another key beside it: inserted, or deleted */
		:: true ->
			k = 0;
			d_step {
				n = 0;
				if
				:: word[2 * spot] != EMPTY && IS_LINK(word[2 * spot + 1]) ->
					n = NODE(word[2 * spot + 1]);
					n = (node[2 * n] != EMPTY && node[2 * n + 1] != EMPTY)
				:: else
				fi
			}
			if
			:: n == 0 -> add(spot, FILL, epoch[2 * spot])
			:: else
			fi
		:: word[2 * spot] == FILL -> word[2 * spot] = EMPTY
		:: word[2 * spot + 1] == FILL -> word[2 * spot + 1] = EMPTY
#endif
		fi;
		atomic { k = 0; n = 0; spot = 0 }
	:: expansions == EXPANSIONS && changes == CHANGES -> break
	od
}

/* ----------------------------------------------------------------- reader */

#define SAME(i) (mixed[i] && before[2 * (i)] == w[2 * (i)] && before[2 * (i) + 1] == w[2 * (i) + 1] \
	&& before_epoch[2 * (i)] == e[2 * (i)] && before_epoch[2 * (i) + 1] == e[2 * (i) + 1])

/* The client knows that there are n buckets at least. */
inline learn(n)
{
	known = ((n) > known -> (n) : known)
}

/*
 * Hash i's bucket has epoch `to` (or is being written with it).  K left it if its
 * place changed since op->epoch: then it is, or was, in the next place.
 */
inline step(i, to)
{
#ifdef MUTATE_jump /* straight to the place at `to` */
	if
	:: PLACE(part[i], to) == at[i] -> complete[i] = true
	:: else -> at[i] = PLACE(part[i], to); fresh[i] = false; mixed[i] = false
	fi;
	at_epoch[i] = to;
#else
	do
	:: at_epoch[i] < to && PLACE(part[i], at_epoch[i] + 1) == at[i] -> at_epoch[i]++
	:: at_epoch[i] < to && PLACE(part[i], at_epoch[i] + 1) != at[i] ->
		/* What the whole client knows may be further on. */
		at_epoch[i] = (EPOCH(part[i], known) > at_epoch[i] + 1 ->
			       EPOCH(part[i], known) : at_epoch[i] + 1);
		at[i] = PLACE(part[i], at_epoch[i]);
		fresh[i] = false;
		mixed[i] = false;
		break
	:: at_epoch[i] >= to -> complete[i] = true; break
	od;
#endif
}

#ifdef MUTATE_learn_group
/* The bucket's own group counts as expanded, as soon as one of its buckets is. */
#define LEARNT(i) (FLOOR(at[i], e[2 * (i)]) + (e[2 * (i)] > 0))
#else
#define LEARNT(i) FLOOR(at[i], e[2 * (i)])
#endif

inline judge(i)
{
	if
#ifdef MUTATE_no_epoch /* the words don't say which epoch they are of */
	:: true -> complete[i] = true
#endif
#ifndef MUTATE_no_epoch
	:: e[2 * i] == e[2 * i + 1] ->
		if
		:: e[2 * i] < at_epoch[i] -> fresh[i] = false
		:: else ->
			learn(LEARNT(i));
			step(i, e[2 * i])
		fi
	:: else ->
		/* In the middle of an expansion. */
		x = (e[2 * i] < e[2 * i + 1] -> e[2 * i] : e[2 * i + 1]);
#ifdef MUTATE_mixed_mod /* only the low bits of the epoch: 1 here, 2 in the code */
		x = at_epoch[i] + ((x + at_epoch[i]) & 1);
#endif
		if
#ifdef MUTATE_mixed_old /* complete, as a bucket of the old epoch */
		:: true -> step(i, x)
#elif defined MUTATE_mixed_first
		:: true -> step(i, x + 1)
#else
		:: SAME(i) -> step(i, x + 1)
		:: else ->
			before[2 * i] = w[2 * i]; before[2 * i + 1] = w[2 * i + 1];
			before_epoch[2 * i] = e[2 * i]; before_epoch[2 * i + 1] = e[2 * i + 1];
			mixed[i] = true;
			fresh[i] = false
#endif
		fi;
		x = 0
#endif
	fi
}

inline forget(i)
{
	fresh[i] = false; complete[i] = false; mixed[i] = false; chained[i] = false;
	before[2 * i] = 0; before[2 * i + 1] = 0; before_epoch[2 * i] = 0; before_epoch[2 * i + 1] = 0;
	w[2 * i] = 0; w[2 * i + 1] = 0; e[2 * i] = 0; e[2 * i + 1] = 0;
	at_epoch[i] = EPOCH(part[i], known);
	at[i] = PLACE(part[i], at_epoch[i])
}

inline sample(i)
{
	if
	:: !(m & (1 << (2 * i))) -> atomic {
		w[2 * i] = word[2 * at[i]]; e[2 * i] = epoch[2 * at[i]];
		m = m | (1 << (2 * i)) }
	:: !(m & (2 << (2 * i))) -> atomic {
		w[2 * i + 1] = word[2 * at[i] + 1]; e[2 * i + 1] = epoch[2 * at[i] + 1];
		m = m | (2 << (2 * i)) }
	fi
}

#define DIFFERS(i) (word[2 * at[(i) / 2] + (i) % 2] != w[i] || epoch[2 * at[(i) / 2] + (i) % 2] != e[i])
#if SIDES == 2
#define ALL 15
#else
#define ALL 3
#endif

proctype reader()
{
	byte known = 2, m, x, link, side, length;
	byte w[4], e[4], before[4], before_epoch[4];
	byte at[2], at_epoch[2];
	bool fresh[2], complete[2], mixed[2], chained[2];

	/* When the call begins: any view of the index. */
	atomic {
		was_absent = !live;
		if
		:: true
		:: known = buckets
		:: x = 0
		:: x = 1
		:: buckets >= 2 -> x = 2
		:: buckets >= 3 -> x = 3
		:: buckets >= 4 -> x = 4
		:: buckets >= 5 -> x = 5
		:: buckets >= 6 -> x = 6
		:: buckets >= 7 -> x = 7
		fi;
		if
		:: epoch[2 * x] == epoch[2 * x + 1] ->
			at[0] = x; e[0] = epoch[2 * x];
			learn(LEARNT(0))
		:: else
		fi;
		x = 0
	}
locate:
	atomic {
		m = 0; link = 0; side = 0; length = 0; x = 0;
		forget(0);
#if SIDES == 2
		forget(1)
#endif
	}
read:
	atomic {
		m = (fresh[0] -> 3 : 0);
#if SIDES == 2
		m = (fresh[1] -> m | 12 : m)
#endif
	}
	do
	:: (m & 3) != 3 -> sample(0)
#if SIDES == 2
	:: (m & 12) != 12 -> sample(1)
#endif
	:: m == ALL -> break
	od;
	m = 0;
search:
	atomic {
		fresh[0] = true; fresh[1] = true;
		if
		:: w[0] == KEY || w[1] == KEY || w[2] == KEY || w[3] == KEY -> goto item
		:: else
		fi;
		if
		:: IS_LINK(w[1]) && !chained[0] -> side = 0; link = w[1]; goto chain
		:: else
		fi;
#if SIDES == 2
		if
		:: IS_LINK(w[3]) && !chained[1] -> side = 1; link = w[3]; goto chain
		:: else
		fi;
#endif
		if
		:: !complete[0] -> judge(0)
		:: else
		fi;
#if SIDES == 2
		if
		:: !complete[1] -> judge(1)
		:: else
		fi;
		if
		:: complete[0] && complete[1]
#else
		if
		:: complete[0]
#endif
		:: else ->
			if :: !complete[0] -> fresh[0] = false; chained[0] = false :: else fi;
			if :: !complete[1] -> fresh[1] = false; chained[1] = false :: else fi;
			goto read
		fi
	}
	/* Were the nodes linked all the time that they were READ? */
#ifndef MUTATE_recheck
	if
	:: chained[0] ->
		if
		:: word[2 * at[0] + 1] != w[1] || epoch[2 * at[0] + 1] != e[1] -> goto locate
		:: else
		fi
	:: else
	fi;
#if SIDES == 2
	if
	:: chained[1] ->
		if
		:: word[2 * at[1] + 1] != w[3] || epoch[2 * at[1] + 1] != e[3] -> goto locate
		:: else
		fi
	:: else
	fi;
#endif
#endif
#if defined SAME_GROUP && !defined MUTATE_same_group
	/* Both buckets again: an entry may have gone from the one hash's to the other's. */
	do
	:: m != ALL ->
		if
		:: !(m & 1) -> atomic { if :: !DIFFERS(0) -> m = m | 1 :: else -> goto locate fi }
		:: !(m & 2) -> atomic { if :: !DIFFERS(1) -> m = m | 2 :: else -> goto locate fi }
		:: !(m & 4) -> atomic { if :: !DIFFERS(2) -> m = m | 4 :: else -> goto locate fi }
		:: !(m & 8) -> atomic { if :: !DIFFERS(3) -> m = m | 8 :: else -> goto locate fi }
		fi
	:: m == ALL -> m = 0; break
	od;
#endif
	assert(was_absent);
	goto end;

chain:
	/* The node's words, in any order; a stale node may be anything. */
	if
	:: atomic { m = node[2 * NODE(link)]; x = 0 };
	   x = node[2 * NODE(link) + 1]
	:: atomic { x = node[2 * NODE(link) + 1]; m = 0 };
	   m = node[2 * NODE(link)]
	fi;
	atomic {
		if
		:: m == KEY || x == KEY -> m = 0; x = 0; goto item
		:: else
		fi;
		if
		:: IS_LINK(x) && length < 2 -> link = x; length++; m = 0; x = 0; goto chain
		:: else
		fi;
		length = 0; m = 0; x = 0; link = 0;
		chained[side] = true;
		goto search
	}

item:
	/* An entry was found: the item says whether K is live; see item.pml. */
	if
	:: live
	:: else -> assert(was_absent)
	fi;
end:
	skip
}

/* One part of each range that goes its own way up to epoch 3. */
inline choose(i)
{
	if
	:: part[i] = 0
	:: part[i] = 4
	:: part[i] = 6
	:: part[i] = 8
	:: part[i] = 12
	:: part[i] = 16
	:: part[i] = 18
	:: part[i] = 20
	fi
}

init {
	atomic {
		choose(0);
#if SIDES == 2
#ifdef SAME_GROUP
		choose(1);
#else
		part[1] = 24;
#endif
#endif
		live = true;
		if
		:: word[2 * (part[0] / 12)] = KEY
#ifdef FILLERS
		:: word[2 * (part[0] / 12)] = FILL; word[2 * (part[0] / 12) + 1] = KEY
		/* K in an overflow node */
		:: word[2 * (part[0] / 12)] = FILL; word[2 * (part[0] / 12) + 1] = LINK;
		   node[0] = FILL; node[1] = KEY; free_nodes = 6
#endif
#if SIDES == 2
#ifdef SAME_GROUP
		:: word[2 * (part[1] / 12)] = KEY
#else
		:: word[2 * OTHER] = KEY
#endif
#endif
		fi;
#ifdef FILLERS
		/* Where its neighbour is full, K's arrival makes an overflow node. */
		if
		:: true
		:: word[2] == EMPTY -> word[2] = FILL; word[3] = FILL
		fi;
#endif
		run writer();
		run reader()
	}
}

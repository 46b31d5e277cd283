/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Leases (cluster.md, 9 to 12): the words A and G in the header of a primary, the promises of
 * a backup, and clocks whose rates are wrong by 1/8 either way.
 *
 * Time goes on in units; L is 8 of them.  An age is the time since something.  Who measures
 * it may find 1/8 more or less.  Who does not move is frozen.  A reader gets its lease by the
 * words, or by a message, "still d".  The words of its READ are sampled in any order.
 *
 * Properties: nobody serves beside the primary while a reader, or the primary itself, may
 * take its lease for good; what was sampled before such a look is not stale.
 *
 * -DWORDS: a reader that READs them; -DMESSAGES: one that asks the primary, whose own lease
 * that is.  -DGROW: the primary is alone, and the backup joins.  -DREGAIN: the primary was one
 * before, and becomes one again while somebody READs; its words go on from where they were.
 * With messages: a connection is of one reign, whose lease it is told of.
 */
#ifndef ROUNDS
#define ROUNDS 3
#endif

/* L (1 - 2 rho) is over after 6 6/7 by a slow clock, L by a fast one after 7 1/9. */
#define OVER_MIN 8
#ifdef MUTATE_margin /* L (1 - rho) */
#define GOOD_MAX 8
#else
#define GOOD_MAX 6
#endif
#define OLD (GOOD_MAX + 1) /* and older */
#define IS_GOOD(age) ((age) <= GOOD_MAX)

/* The header. */
byte word_a, word_g;

bool is_primary, word_epoch; /* is_primary: it serves, not the other one from before */

/* The primary: its round, and its own lease. */
bool raised, asking, awaits;
byte round_age = OLD, lease_age = OLD;
/* Messages: a round, or 0. */
byte asked, answer;

/* The backup. */
byte promise_age = OVER_MIN;
bool in_set, sealed, serves;
bool halfway; /* of a promise */
/* The primary includes it, and since when. */
bool includes;
byte included_age;

/* The reader: its last sample of A, what it asked for, its lease. */
mtype = { NOTHING, HEADER, MESSAGE };
mtype posted = NOTHING;
byte sample = 255, sample_age = OLD, good_age = OLD;
byte posted_age = OLD;
byte sampled_a = 255, sampled_g = 255; /* 255: not yet */
bool sampled_epoch, good_epoch, knows; /* epochs, of REGAIN */
bool asked_epoch; /* of the connection that it asked by */
bool in_reign = true; /* the primary says of itself that it is one, in word_epoch */

#define older(age, max) age = (age < max -> age + 1 : max)

#ifdef WORDS
#define SET(age, to) skip
#else
#define SET(age, to) age = to
#endif

proctype time()
{
	do
	:: d_step {
		true ->
		older(promise_age, OVER_MIN);
#ifdef GROW
		older(included_age, OVER_MIN);
#endif
#ifdef WORDS
		older(sample_age, OLD);
#else
		older(round_age, OLD);
		older(lease_age, OLD);
#endif
		older(posted_age, OLD);
		older(good_age, OLD)
	}
	od
}

proctype watch()
{
	do
	:: serves -> assert(!IS_GOOD(good_age) && !IS_GOOD(lease_age))
	od
}

/* Something that is sampled, and counts if the lease is good then. */
#if defined(WORDS) || defined(REGAIN)
#define SAMPLER_AGE good_age
#else
#define SAMPLER_AGE lease_age
#endif
proctype sampler()
{
	bool is_stale, is_good, epoch;

	do
	:: true ->
		epoch = knows;
#ifdef MUTATE_look_first
		is_good = IS_GOOD(SAMPLER_AGE);
		is_stale = serves || !is_primary;
#else
		is_stale = serves || !is_primary;
#ifdef MUTATE_epoch
		is_good = IS_GOOD(SAMPLER_AGE);
#else
		is_good = IS_GOOD(SAMPLER_AGE) && good_epoch == epoch;
#endif
#endif
		assert(!is_good || !is_stale);
		d_step { is_stale = false; is_good = false; epoch = false }
	od
}

proctype rounds()
{
	do
#ifdef MUTATE_ask_first
	:: d_step { !raised && !asking && includes && word_a < ROUNDS ->
		asked = word_a + 1;
		asking = true
	}
	:: d_step { asking ->
		asking = false;
		word_a++;
		raised = true;
		awaits = true;
		SET(round_age, 0)
	}
#else
	:: d_step { !raised && is_primary && word_a < ROUNDS ->
		word_a++;
		raised = true;
		SET(round_age, 0);
#ifdef MUTATE_grow_promise
		awaits = in_set;
#else
		awaits = includes;
#endif
		asking = awaits
	}
	:: d_step { asking -> asked = word_a; asking = false }
#endif
#ifdef MUTATE_any_answer
	:: d_step { raised && (!awaits || answer) ->
#else
	:: d_step { raised && (!awaits || answer == word_a) ->
#endif
		word_g = word_a;
		raised = false;
		asking = false;
		SET(lease_age, round_age)
	}
	:: d_step { raised -> raised = false; asking = false } /* given up */
#ifdef REGAIN
	:: d_step { !is_primary && in_reign -> in_reign = false }
	:: d_step { !is_primary && !in_reign -> is_primary = true; in_reign = true; word_epoch = true }
	:: d_step { !knows && word_epoch -> knows = true }
#endif
#ifdef GROW
	:: d_step { !includes -> includes = true; included_age = 0 }
#ifdef MUTATE_grow_wait
	:: d_step { includes && !in_set -> in_set = true }
#else
	:: d_step { includes && !in_set && included_age >= OVER_MIN -> in_set = true }
#endif
#endif
	od
}

proctype backup()
{
	do
#if defined(MUTATE_look_early) /* at its seal, then notes and answers */
	:: asked && !sealed -> halfway = true
	:: d_step { halfway -> halfway = false; promise_age = 0; answer = asked; asked = 0 }
#elif defined(MUTATE_note_late) /* behind the answer */
	:: d_step { asked && !sealed && !halfway -> halfway = true; answer = asked }
	:: d_step { halfway -> halfway = false; promise_age = 0; asked = 0 }
#else
	:: d_step { asked && !sealed -> promise_age = 0; answer = asked; asked = 0 }
#endif
	:: d_step { in_set && !sealed -> sealed = true }
#ifdef MUTATE_wait
	:: d_step { sealed && !serves -> serves = true }
#else
	:: d_step { sealed && !serves && promise_age >= OVER_MIN -> serves = true }
#endif
	od
}

#define better(age) good_age = ((age) < good_age -> (age) : good_age)

proctype reader()
{
	do
#ifdef WORDS
	:: d_step { posted == NOTHING -> posted = HEADER; posted_age = 0 }
	:: d_step { posted == HEADER && sampled_a == 255 -> sampled_a = word_a }
	:: d_step { posted == HEADER && sampled_g == 255 ->
		sampled_g = word_g;
		sampled_epoch = word_epoch
	}
	:: d_step { sampled_a != 255 && sampled_g != 255 ->
#ifdef MUTATE_ge
		if
		:: sample != 255 && sampled_g >= sample -> better(sample_age); good_epoch = sampled_epoch
#else
		if
		:: sample != 255 && sampled_g > sample -> better(sample_age); good_epoch = sampled_epoch
#endif
		:: else
		fi;
		sample = sampled_a;
#ifdef MUTATE_sampled_late /* counted from the completion */
		sample_age = 0;
#else
		sample_age = posted_age;
#endif
		sampled_a = 255;
		sampled_g = 255;
		posted_age = OLD;
		posted = NOTHING
	}
#else
	/* "How long is the lease?"  The primary looks at its own. */
	:: d_step { posted == NOTHING -> posted = MESSAGE; posted_age = 0; asked_epoch = knows }
#if !defined(REGAIN) || defined(MUTATE_told_of_any)
#define IS_ANSWERED (sampled_a != 255)
	:: d_step { posted == MESSAGE && sampled_a == 255 && IS_GOOD(lease_age) -> sampled_a = lease_age }
#else
#define IS_ITS (in_reign && word_epoch == asked_epoch)
#define IS_ANSWERED (sampled_a != 255 && sampled_g != 255)
#ifdef MUTATE_reign_first
	:: d_step { posted == MESSAGE && sampled_g == 255 && IS_ITS -> sampled_g = 0 }
	:: d_step { posted == MESSAGE && sampled_g != 255 && sampled_a == 255 && IS_GOOD(lease_age) ->
		sampled_a = lease_age
	}
#else
	:: d_step { posted == MESSAGE && sampled_a == 255 && IS_GOOD(lease_age) -> sampled_a = lease_age }
	:: d_step { posted == MESSAGE && sampled_a != 255 && sampled_g == 255 && IS_ITS -> sampled_g = 0 }
#endif
	:: d_step { posted == MESSAGE && !IS_ANSWERED && !IS_ITS ->
		sampled_a = 255;
		sampled_g = 255;
		posted = NOTHING;
		posted_age = OLD
	}
#endif
	:: d_step { posted == MESSAGE && IS_ANSWERED ->
#ifdef MUTATE_received_late /* counted from the reply */
		better(sampled_a);
#else
		better(sampled_a + posted_age);
#endif
#ifdef REGAIN
		good_epoch = asked_epoch;
#endif
		sampled_a = 255;
		sampled_g = 255;
		posted_age = OLD;
		posted = NOTHING
	}
	:: d_step { posted == MESSAGE && sampled_a == 255 -> posted = NOTHING; posted_age = OLD } /* no */
#endif
	od
}

init {
#ifndef GROW
	in_set = true;
	includes = true;
#endif
#ifndef REGAIN
	is_primary = true;
#endif
	atomic { run time(); run watch(); run rounds(); run backup(); run reader(); run sampler() }
}

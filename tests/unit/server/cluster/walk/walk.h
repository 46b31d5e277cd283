/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * walk.h -- a shard of three members in one process, driven in an order that a seed draws:
 * server/cluster/{config,lease,member,record} as they are, with the register for agreement, a
 * table of a few keys, and connections, disks and clocks that do the worst they may.
 *
 * A member is two threads, the cluster's and a worker, each of which may be frozen by itself.
 * Clients READ its memory whatever it does.  judge.c knows what was answered, and what follows.
 */
#ifndef TESTS_UNIT_SERVER_CLUSTER_WALK_WALK_H
#define TESTS_UNIT_SERVER_CLUSTER_WALK_WALK_H

#include "server/cluster/agree/register.h"
#include "server/cluster/config/keeper.h"
#include "server/cluster/member/backup.h"
#include "server/cluster/member/join.h"
#include "server/cluster/member/member.h"
#include "server/cluster/member/primary.h"
#include "server/cluster/record/in.h"
#include "server/cluster/record/out.h"
#include "server/cluster/record/records.h"

#define MEMBERS 3u
#define CLIENTS 3u
#define STRIPES 5u
#define KEYS 10u /* of stripe key % STRIPES; those of the last stripe change under its lock only */
#define LOCKED (STRIPES - 1)
#define OPS_MAX 8000u
#define MS 1000000ull
#define PATH "/shard"

/* ------------------------------------------------------------- a table's inside */
struct item {
	uint64_t value; /* counts the changes of the key */
	unsigned op;    /* that made it; 0: none */
};

/* A change, or the copy of a stripe.  Each who has it has a memory of its own. */
struct change {
	struct record r; /* first */
	uint32_t stripes[2];
	unsigned op, count;
	unsigned keys[2];
	uint64_t values[2];
	bool is_on_disk;           /* the primary's own */
	struct item items[KEYS];   /* a copy's, of its stripe */
	bool *has_effect;          /* a copy's: of all operations */
};

/* ---------------------------------------------------------------------- messages */
struct open_entry {
	uint32_t stripe;
	uint64_t version, reign;
	enum records_fate fate;
};

struct letter {
	struct letter *next;
	unsigned from, generation;
	bool is_late; /* its connection is broken: it lies in a receive queue, or is lost */
	struct member_message message; /* between the cluster's threads */
	unsigned count;
	struct open_entry entries[2 * STRIPES];
	/* Between workers: a record with a change, an acknowledgement without. */
	struct change *change;
	uint64_t epoch, number, to, from_incarnation;
};

struct letters {
	struct letter *first, **end;
};

/* ------------------------------------------------------------------------ members */
struct order {
	struct order *next;
	struct member_action action;
	struct member_peer peers[MEMBER_PEERS_MAX]; /* as they were */
	unsigned count;
	struct open_entry entries[2 * STRIPES];
	bool is_reconnect; /* instead: what is lacking is sent again */
};

struct note {
	struct note *next;
	enum { NOTE_OBEYED, NOTE_SETTLED, NOTE_EMPTIED, NOTE_COPIED } kind;
	uint64_t number;
};

struct proc {
	unsigned index;
	char name[2];
	bool is_up, has_disk;
	uint64_t frozen_ns, worker_frozen_ns, up_ns;
	uint64_t base_ns;
	unsigned rate; /* 64ths */
	unsigned life; /* counts its starts */
	uint64_t life_number;

	struct member member;
	struct keeper keeper;
	struct member_actions todo; /* from todo_next on */
	unsigned todo_next;
	uint64_t away_ns; /* does not hear of the agreement until then */
	struct letters inbox, worker_inbox;
	/* Connections, not told yet: the only one ended, there is a second one, one of two ended. */
	bool is_broken[MEMBERS], is_doubled[MEMBERS], is_single[MEMBERS];
	struct note *notes, **notes_end;

	/* The worker's */
	struct records records;
	struct record_slot slots[STRIPES];
	struct member_peer peers[MEMBER_PEERS_MAX];
	uint64_t incarnation; /* of the table */
	uint64_t serves;      /* a reign; 0 */
	uint64_t holding;     /* an order; 0 */
	bool is_held;
	uint32_t copying;
	unsigned copy_stripe;
	uint64_t copy_number;
	uint64_t versions;
	struct order *orders, **orders_end;

	/* Memory that clients READ. */
	struct item items[KEYS];
	bool has_effect[OPS_MAX];
	struct lease_words words;
	unsigned lock; /* of the stripe LOCKED: a token; 0 */
};

struct seen {
	unsigned steps, epochs, take_overs, hand_overs, joins, drops, restarts, failures, wipes, freezes, breaks, doubles, singles;
	unsigned late_writes, changes, transactions, gets, gets_by_message, no_lease, refused, denied;
	unsigned locks, locked_changes, resolved_drops, resolved_applies, at_once, told;
};

struct walk {
	uint64_t seed, random, now_ns;
	unsigned steps, step;
	bool is_loud;
	unsigned faults, letters; /* of a thousand steps, turns */
	bool is_shaken; /* a fault comes at once, at the primary */
	struct agree_register *reg;
	struct proc procs[MEMBERS];
	unsigned generation[MEMBERS][MEMBERS];
	struct seen seen;
};

extern struct walk w;

/* ------------------------------------------------------------------------ walk_test.c */
uint64_t draw(uint64_t below);
bool chance(unsigned in_thousand);
/* A rule is broken: says which, and how to see it again; ends. */
__attribute__((noreturn, format(printf, 2, 3))) void broken(const char *rule, const char *format, ...);
#define HOLDS(is, rule, ...) ((is) ? (void)0 : broken(rule, __VA_ARGS__))

/* With --loud: what happened. */
__attribute__((format(printf, 1, 2))) void loud(const char *format, ...);

/* ---------------------------------------------------------------------------- procs.c */
uint64_t clock_of(const struct proc *p);
void procs_begin(void);
void procs_end(void);
void proc_turn(struct proc *p);  /* of its cluster's thread */
void proc_stop(struct proc *p, bool is_wiped);
void proc_start(struct proc *p);
/* The connections of two members; or of their workers only, which they notice later. */
void procs_break(unsigned a, unsigned b, bool is_workers);
/* Both connected at once: what comes over two connections is in no order.  One of them ends. */
void procs_double(unsigned a, unsigned b);
void procs_single(unsigned a, unsigned b);
void proc_fail(struct proc *p); /* its disk, until it starts again */
struct letter *post(struct proc *from, unsigned to, bool is_worker);
struct letter *next_letter(struct letters *l);
void letter_free(struct letter *l);
const struct config *config_now(void);
/* The primary of the present epoch serves, and all of the set take what it sends. */
bool procs_are_well(void);

/* --------------------------------------------------------------------------- worker.c */
void worker_turn(struct proc *p);
/* `letter`: the one that the order follows from, or NULL. */
void worker_order(struct proc *p, const struct member_action *a, const struct letter *letter);
void worker_resend(struct proc *p);
void worker_note(struct proc *p, int kind, uint64_t number);
void worker_begin(struct proc *p);
void worker_end(struct proc *p, bool is_wiped);
/* A change of these keys, each raised by one; false: not now. */
bool worker_change(struct proc *p, unsigned op, unsigned count, const unsigned *keys);

/* ---------------------------------------------------------------------------- judge.c */
void judge_begin(void);
/* A change is visible at a primary that serves, or was read. */
void judge_visible(unsigned op, unsigned count, const unsigned *keys, const uint64_t *values);
void judge_denied(unsigned op);
uint64_t judge_floor(unsigned key);
void judge_read(const char *how, unsigned key, const struct item *item, uint64_t floor);
void judge_applied(const struct proc *p, unsigned key, uint64_t before, uint64_t after);
/* What holds between any two steps. */
void judge(void);

/* -------------------------------------------------------------------------- clients.c */
void clients_begin(void);
void client_turn(void);
/* The reign of which a reader trusts what it READs; 0: of none. */
uint64_t client_trusts(unsigned client);
bool client_holds(unsigned client); /* believes that it holds the lock */

#endif

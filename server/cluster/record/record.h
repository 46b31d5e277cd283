/* SPDX-License-Identifier: BSD-2-Clause */
/* record.h -- a record, and what is known of a shard's; records.h says what for. */
#ifndef SERVER_CLUSTER_RECORD_RECORD_H
#define SERVER_CLUSTER_RECORD_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#define RECORDS_CHAINS 1024u
#define RECORDS_SELF (1u << 31) /* the primary's own disk, among members' bits */

/* Part of what the caller has of a change or a transaction. */
struct record {
	struct record *next, *prev;
	struct record *chain; /* of those whose numbers are alike */
	/*
	 * Of its first item: which change it is, whoever sends it.  A reign's are above all that
	 * its primary has seen.  A copy's: of the last one that was applied there.
	 */
	uint64_t version;
	bool is_copy; /* of one stripe, to a joiner */
	uint64_t reign, number;
	uint32_t need, has; /* at a primary: members, bits */
	unsigned count;
	const uint32_t *stripes; /* each once */
};

struct record_slot {
	struct record *open;
	uint64_t number;  /* the latest of this reign */
	uint64_t applied; /* version of the last one that took effect, of any reign */
};

struct records_hooks {
	void (*apply)(void *arg, struct record *r);
	void (*drop)(void *arg, struct record *r);
	void *arg;
};

enum records_role { RECORDS_OUT, RECORDS_BACKUP, RECORDS_PRIMARY };

struct records {
	struct record_slot *slots; /* the caller's, zero at first: one for each stripe */
	uint32_t stripes;
	struct records_hooks hooks;
	struct record open; /* the list's head; by number */
	struct record *chains[RECORDS_CHAINS]; /* the same, to find one */
	enum records_role role;
	uint64_t epoch, reign;
	bool is_sealed;
	bool is_ready;      /* a backup has its primary's beginning of the epoch */
	bool is_shown;      /* a primary serves: what all have takes effect */
	uint64_t numbers;   /* drawn in this reign */
	uint32_t awaited;   /* members whose acknowledgement a new record needs */
	uint32_t begun;     /* of them: those that are ready in this epoch */
};

#endif

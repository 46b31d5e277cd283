/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * queue.h -- records on their way to the disk, and back to who handed them in.
 *
 * Who hands in a record keeps its stripe marked until it is given back, so of one
 * key at most one record is under way, and the database has them in the table's
 * order.
 */
#ifndef SERVER_DURABLE_QUEUE_H
#define SERVER_DURABLE_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/layout.h"

struct durable;

struct durable_record {
	const void *key;
	unsigned key_bytes;
	const void *value;
	uint64_t value_bytes;
	uint64_t version; /* 0: the key is gone */
	struct layout_attributes with;
};

enum durable_result {
	DURABLE_WRITTEN, /* and synced if DURABILITY_SYNC */
	DURABLE_REFUSED, /* nothing was written: the disk is full or broken */
	DURABLE_UNKNOWN, /* writing failed: it may be found after a restart, or not */
	DURABLE_ELSEWHERE, /* of a member of a cluster that is not primary any more: nobody has it */
};

/* Where a worker's records come back to. */
struct durable_port {
	pthread_mutex_t lock;
	struct durable_op *done, **done_end;
	void (*wake)(void *arg); /* any thread */
	void *arg;
};

/*
 * Whose change it is, and what it is answered: for who executes others' changes.  Who makes the
 * change says what comes of it, who asked for it who it is.
 */
struct durable_fate {
	uint64_t connection; /* 0: nobody asked for it */
	uint64_t secret;
	uint32_t request;
	uint32_t kept;       /* so many changes of the connection are remembered */
	uint64_t version, value_bytes;
};

/* What a member of a cluster keeps of a stripe (server/cluster/note). */
struct durable_note {
	uint32_t stripe;
	const char *bytes;
	size_t length;
};

/* Records that are written all or none, with their stripes' notes. */
struct durable_op {
	struct durable_op *next;
	struct durable_port *port; /* NULL: nobody waits, and it is freed */
	struct durable_record *records; /* keys and values stay until it is given back */
	unsigned count;
	const struct durable_note *notes; /* stay as long */
	unsigned note_count;
	uint64_t wipe;  /* not 0: instead all goes, and the table is that incarnation */
	/* It undoes one whose result was DURABLE_UNKNOWN: it is tried until it is written,
	 * ahead of everything else. */
	bool is_undo;
	bool is_kept; /* what was UNKNOWN is open, and stays so on the disk: nothing is undone there */
	struct durable_fate fate;
	enum durable_result result;
};

void durable_port_init(struct durable_port *port, void (*wake)(void *arg), void *arg);
/* What has come back, in the order of commits; NULL: nothing. */
struct durable_op *durable_port_take(struct durable_port *port);

/* To its port, which is not NULL, by the thread that takes from it: nobody is woken.  It looks before it
 * sleeps. */
void durable_port_keep(struct durable_op *op);
/* A hint to others than that thread. */
bool durable_port_has(const struct durable_port *port);

/* Any thread; doesn't wait.  A wipe is handed in when nothing else is under way. */
void durable_submit(struct durable *durable, struct durable_op *op);

/*
 * The key is gone, and nobody waits for that to be on disk: a time that is over, a key
 * that was evicted.  False: not now.  Caller: has the key's stripe marked.
 */
bool durable_forget(struct durable *durable, const void *key, unsigned key_bytes);

/* The commit thread: gives each record of the list back to its port. */
void durable_give_back(struct durable *durable, struct durable_op *list,
		       enum durable_result result);

#endif

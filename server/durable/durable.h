/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * durable.h -- what is changed in the table, on disk too: in a RocksDB database.
 *
 * Workers hand in records; one commit thread writes what has gathered in one batch,
 * with one sync of the disk if `sync`, and gives each back to where it came from.
 * The table is what is served; the database is only read to fill it again.
 *
 * What it fills is a sink; it knows no table.  Without RocksDB in the build durable_open
 * fails and says so.
 */
#ifndef SERVER_DURABLE_DURABLE_H
#define SERVER_DURABLE_DURABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "server/durable/options.h"
#include "server/durable/queue.h"

struct durable;

/*
 * Opens or makes the database and starts no thread yet.  The clock is copied.  0, or -1 after
 * setting err.
 */
int durable_open(const struct durable_options *options, struct durable_clock clock,
		 struct durable **durable, struct err *err);

/* What is filled from the database. */
struct durable_sink {
	/*
	 * A key that is not there yet; `thread` counts the threads that load.  0; ENOMEM: it
	 * does not fit; EINVAL: not a key or value that can be.
	 */
	int (*load)(void *arg, unsigned thread, const struct durable_record *record);
	/* Then, once: versions that are given out are to be higher than this. */
	void (*set_version)(void *arg, uint64_t version);
	void *arg;
};

/*
 * Fills the sink, with so many threads; says how far it is and how long it will take.
 * Before durable_start().  `stop` is asked a few times a second.  0, or -1 after setting
 * err.
 */
int durable_load(struct durable *durable, const struct durable_sink *sink, unsigned threads,
		 bool (*stop)(void *arg), void *arg, struct err *err);

/*
 * Of a member of a cluster, before anything is handed in: what is kept of each stripe.
 * 0, -1 after setting err, or what `each` returned if that was not 0.
 */
int durable_notes(struct durable *durable, int (*each)(void *arg, const struct durable_note *note),
		  void *arg, struct err *err);
/* Of that reign, what was seen by durable_seen(); 0: nothing.  0, or -1 after setting err. */
int durable_was_seen(const struct durable *durable, uint64_t reign, uint64_t *number,
		     struct err *err);
/* That note stands from durable_renoted() on, when nothing counts as seen any more. */
void durable_renote(struct durable *durable, const struct durable_note *note);
/* 0, or -1 after setting err. */
int durable_renoted(struct durable *durable, struct err *err);
/* A time of the disk's, in the clock that expiries are in; 0 for 0, and 1 for one that is over. */
uint64_t durable_expiry_ms(const struct durable *durable, uint64_t wall_ms);
/* Any thread: of what is on the disk to be, the other way round. */
uint64_t durable_wall_ms(const struct durable *durable, uint64_t expiry_ms);
/* Any thread: all changes of that reign up to this number are at all members. */
void durable_seen(struct durable *durable, uint64_t reign, uint64_t number);
/* Any thread: which table it is; the same after a restart, if DURABILITY_SYNC. */
uint64_t durable_incarnation(const struct durable *durable);

/* Starts the commit thread.  0, or -1 after setting err. */
int durable_start(struct durable *durable, struct err *err);

/* Writes what was handed in, and closes.  After the last worker ended. */
void durable_close(struct durable **durable);

struct durable_stats {
	bool sync;
	bool is_failing;         /* changes are refused */
	uint64_t commits;        /* batches written */
	uint64_t changes;        /* in them */
	uint64_t refused, unknown;
	uint64_t pending;        /* handed in, not given back */
	uint64_t lag_ns;         /* the oldest acknowledged change that isn't synced */
	uint64_t commit_ns;      /* time that all the commits took */
	uint64_t disk_free_bytes;
	uint64_t loaded_keys;
	uint64_t load_ns;
};
void durable_stats(struct durable *durable, struct durable_stats *stats);

#endif

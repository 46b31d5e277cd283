/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * locker.h -- the thread that looks after lock words: queues of waiting clients,
 * hand-over, recovery from dead and silent holders.
 *
 * Clients take and release free locks by themselves, with compare-and-swap; kvd is
 * not asked.  The locker is needed where somebody waits or somebody died.  It
 * changes lock words only by compare-and-swap through a queue pair that is
 * connected to itself (a CPU's atomics need not be atomic to a NIC's).
 *
 * Everything here is called by any thread, and does not block.
 */
#ifndef SERVER_LOCK_LOCKER_H
#define SERVER_LOCK_LOCKER_H

#include <stdint.h>

#include "common/err.h"
#include "common/layout.h"
#include "common/wire.h"

struct conn;
struct locker;
struct locker_config; /* server/lock/config.h */

/* Starts the thread, after the test that the CPU sees what the NIC does.  `config` is
 * copied.  0, or -1 after setting err. */
int locker_new(const struct locker_config *config, struct locker **locker, struct err *err);
void locker_delete(struct locker **locker);

/*
 * What is needed to tell of a connection's end, made before it begins: its locks must
 * not stay held because there is no memory then.  free() it if it never began.
 */
struct locker_note;
struct locker_note *locker_note_new(void);

/* What a connection may do with lock words. */
enum locker_role {
	LOCKER_NONE,   /* it has no rkey of them */
	LOCKER_WRITES, /* it has, but kvd can't READ what it holds: that is nothing */
	LOCKER_HOLDS,  /* and what it holds can be READ */
};

/* A connection said a good hello, and is not told of it yet: the id that its tokens have, and
 * that is never another's.  `number`: what the log calls it.  0: no id is free. */
uint64_t locker_born(struct locker *locker, struct locker_note *note, uint64_t number,
		     enum locker_role role);
/* A connection is destroyed: its queue pair executes nothing any more.  Takes the note,
 * which may be one of a connection that was not born. */
void locker_dead(struct locker *locker, struct locker_note **note);

/* A request of a connection: the answer goes through the hook.  The
 * connection stays until locker_forget() is through.  False: no memory, no answer. */
bool locker_wait(struct locker *locker, struct conn *conn, const struct wire_request *request);
void locker_unlock(struct locker *locker, uint64_t stripe, uint64_t token);

/* A change without a lock is kept away from a stripe by its lock, at this moment. */
void locker_watch(struct locker *locker, uint64_t stripe);

/* Drops what waits for a connection that is closing; then calls the hook for that.  The note
 * is in use until then. */
void locker_forget(struct locker *locker, struct conn *conn, struct locker_note *note);

/* What a holder's memory said, LAYOUT_HELD_MAX of them, as of a READ that was posted
 * for this look. */
void locker_held(struct locker *locker, uint64_t connection_id, uint64_t look,
		 const struct layout_held *held);

struct locker_stats {
	uint64_t waits;
	uint64_t handovers;
	uint64_t recovered; /* of the dead */
	uint64_t released;  /* for holders that had let go */
	uint64_t fenced;    /* holders over their lease */
};
void locker_stats(const struct locker *locker, struct locker_stats *stats);

#endif

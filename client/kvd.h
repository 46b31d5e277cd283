/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kvd.h -- the C client of kvd, a key-value store for RDMA networks.
 *
 *	kvd_client *client;
 *	kvd_session *session;
 *	char value[100];
 *	size_t bytes;
 *
 *	if (kvd_client_new("127.0.0.1:7480", NULL, &client) < 0 ||
 *	    kvd_session_new(client, &session) < 0)
 *		errx(1, "%s", kvd_client_error(client));
 *	if (kvd_put(session, "name", 4, "Ada", 3, NULL) < 0 ||
 *	    kvd_get(session, "name", 4, value, sizeof value, &bytes, NULL) < 0)
 *		errx(1, "%s", kvd_session_error(session));
 *	kvd_session_delete(&session);
 *	kvd_client_delete(&client);
 *
 * Threads.  A client may be used by any number of threads at once.  A session
 * is one connection and belongs to one thread at a time; make one for each.
 *
 * Results.  Functions return 0 (KVD_OK) or a positive result that is no error
 * (KVD_NOT_FOUND, KVD_CONDITION), or a negative KVD_E*.  Outputs are set only
 * on KVD_OK, unless it says otherwise.  After an error, kvd_session_error() or
 * kvd_client_error() is a sentence that says what failed, on what, why, and
 * what to do about it.
 *
 * Ownership.  The library keeps no pointer to a key or a value after a call
 * has returned.  Everything made by a _new() is ended by its _delete(), which
 * takes NULL, and sessions before their client.
 *
 * Time.  Every call ends after at most the client's time-out (timeout_ms).  A
 * change that timed out or lost its connection may or may not have taken
 * effect: KVD_EUNKNOWN says so.  The next call on the session connects again.
 */
#ifndef KVD_H
#define KVD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library is built with hidden visibility. */
#pragma GCC visibility push(default)

#define KVD_KEY_BYTES_MAX 1024
#define KVD_VALUE_BYTES_MAX (1ull << 30)

/* Results */
#define KVD_OK 0
#define KVD_NOT_FOUND 1 /* no such key */
#define KVD_CONDITION 2 /* the condition of the change was false */

#define KVD_EINVAL (-1)    /* an argument is wrong: empty or long key, bad option */
#define KVD_ENOMEM (-2)    /* this process has no memory */
#define KVD_ECONNECT (-3)  /* no connection to kvd, or it broke before an effect */
#define KVD_EUNKNOWN (-4)  /* connection lost or time out: the change may have happened */
#define KVD_ETIMEDOUT (-5) /* not answered in time; nothing was changed */
#define KVD_EFULL (-6)     /* the table has no memory for this value */
#define KVD_ETOOBIG (-7)   /* key, value or buffer over a limit */
#define KVD_EBUSY (-8)     /* kvd was too busy and did nothing; try again */
#define KVD_EPROTOCOL (-9) /* the peer is not kvd, or of another version */
#define KVD_EDEVICE (-10)  /* no RDMA device, or it failed */
#define KVD_ESPACE (-11)   /* the value is longer than the buffer (see kvd_get) */
#define KVD_ELOST (-12)    /* the lock was lost with its connection */

/* A result in a few words, for any value; static. */
const char *kvd_strerror(int result);

/* "1.2.3"; static. */
const char *kvd_version(void);

typedef struct kvd_client kvd_client;
typedef struct kvd_session kvd_session;

struct kvd_options {
	/* sizeof(struct kvd_options), so that the struct can grow. */
	size_t size;
	/* RDMA device by name, "soft" for the software device; NULL: by the
	 * server's address. */
	const char *device;
	/* Of each call, and of connecting; 0: 5,000. */
	int timeout_ms;
	/* Requests outstanding of one session; 0: 32. */
	int depth;
	/* The mirror of kvd's index, for all sessions; 0: 64 MiB, SIZE_MAX: none. */
	size_t mirror_bytes;
	/* How to wait: see KVD_POLL_*. */
	int poll;
	/* Who answers a GET: see KVD_GET_*. */
	int get;
};
#define KVD_POLL_ADAPTIVE 0 /* spin for a while, then sleep */
#define KVD_POLL_BUSY 1     /* spin, for the lowest latency on a core of one's own */
#define KVD_POLL_EVENT 2    /* sleep at once */
#define KVD_GET_READ 0    /* one-sided READs: nobody on the server */
#define KVD_GET_MESSAGE 1 /* kvd, asked by a message: for comparison */

/*
 * Makes a client of the server at `server` ("host", "host:port", "[v6]:port";
 * the port is 7480 if left out).  Chooses the device but does not connect:
 * sessions do.  `options` may be NULL.  Like kvd_session_new, sets *client even
 * on an error (but for KVD_ENOMEM: then to NULL), so that kvd_client_error()
 * can tell it; delete it all the same.  Looks up host names, so may block.
 */
int kvd_client_new(const char *server, const struct kvd_options *options, kvd_client **client);
void kvd_client_delete(kvd_client **client);

/* The last error of kvd_client_new or kvd_session_new, of any thread; "" if
 * none.  Valid until the client is deleted or fails again. */
const char *kvd_client_error(const kvd_client *client);

/* One line: the device, its kind and why it was chosen.  Lives with the client. */
const char *kvd_client_device(const kvd_client *client);

/* Connects.  On error *session is NULL and kvd_client_error() says why. */
int kvd_session_new(kvd_client *client, kvd_session **session);
void kvd_session_delete(kvd_session **session);

/* The last error of a call on the session; "" if none. */
const char *kvd_session_error(const kvd_session *session);

/*
 * GET.  Copies the value of a key to `value`, which has room for
 * value_bytes_max bytes; *value_bytes is its length and, where `version` is not
 * NULL, *version its version.  KVD_NOT_FOUND.  KVD_ESPACE: the value is longer
 * than that; *value_bytes is then its length, and nothing else is set.  On any
 * other result the buffer's contents are undefined.  Answered by one-sided
 * READs; no instruction is executed on the server.
 */
int kvd_get(kvd_session *session, const void *key, size_t key_bytes, void *value,
	    size_t value_bytes_max, size_t *value_bytes, uint64_t *version);

/*
 * GET of a value of any length, into memory that the call allocates; free() it.
 * One byte behind the value is zero, and not counted.
 */
int kvd_get_alloc(kvd_session *session, const void *key, size_t key_bytes, void **value,
		  size_t *value_bytes, uint64_t *version);

/* KVD_OK if the key is there, KVD_NOT_FOUND; sets *value_bytes if not NULL. */
int kvd_exists(kvd_session *session, const void *key, size_t key_bytes, size_t *value_bytes);

/*
 * Stores a value, new or over the old one.  Sets *version if not NULL.
 * KVD_EFULL: the table has no room for it; the old value stays.
 */
int kvd_put(kvd_session *session, const void *key, size_t key_bytes, const void *value,
	    size_t value_bytes, uint64_t *version);

/* KVD_OK if the key was deleted, KVD_NOT_FOUND if there was none. */
int kvd_del(kvd_session *session, const void *key, size_t key_bytes);

/*
 * Many in flight.  A submit starts an operation and returns KVD_OK, KVD_EBUSY
 * if `depth` operations are in flight already (poll first), or an error; with
 * KVD_OK exactly one completion with `tag` follows from kvd_poll(), in any
 * order.  The key is copied; the value's memory must stay until the completion.
 * What is submitted goes out at the latest in the next kvd_poll(), as few
 * doorbells as possible.  The synchronous calls above can't be used on a session while it has
 * operations in flight (KVD_EINVAL).
 */
struct kvd_completion {
	void *tag;
	int result;         /* as of kvd_get, kvd_put, kvd_del */
	size_t value_bytes; /* of a GET: the value's length */
	uint64_t version;
};

int kvd_submit_get(kvd_session *session, const void *key, size_t key_bytes, void *value,
		   size_t value_bytes_max, void *tag);
int kvd_submit_put(kvd_session *session, const void *key, size_t key_bytes, const void *value,
		   size_t value_bytes, void *tag);
int kvd_submit_del(kvd_session *session, const void *key, size_t key_bytes, void *tag);

/*
 * Makes progress and takes up to `max` completions; the count, 0 if there were
 * none within timeout_ms (0: don't wait; -1: until the client's time-out), or
 * an error.  Returns 0 at once where nothing is in flight.
 */
int kvd_poll(kvd_session *session, struct kvd_completion *completions, int max, int timeout_ms);

/*
 * The fate of a change.  Where a connection breaks under a synchronous change, the
 * library connects again, asks kvd what became of it, and sends it again if it had
 * no effect: a change takes effect at most once, and KVD_EUNKNOWN is left for where
 * kvd can't be reached in time, was started again, or remembers it no more.
 *
 * Others, such as a process that takes over from one that was killed, can ask with
 * a receipt.  kvd_session_receipt() names memory of the caller's (shared, or a
 * mapped file), NULL for none, where the session writes what identifies each change
 * before it is sent.
 */
struct kvd_receipt {
	uint64_t instance;
	uint64_t connection;
	uint64_t secret; /* keep it: who knows it can end that connection */
	uint64_t request;
};
void kvd_session_receipt(kvd_session *session, struct kvd_receipt *receipt);

/*
 * KVD_OK: the change was answered with *result (as of kvd_put, kvd_del) and, where
 * it is not NULL, *version.  KVD_NOT_FOUND: it had no effect, and never will.
 * KVD_EUNKNOWN: kvd does not know.  Ends the connection that the change was made
 * on, if that is still there.
 */
int kvd_fate(kvd_session *session, const struct kvd_receipt *receipt, int *result,
	     uint64_t *version);

/*
 * Locks.  From the grant to the release nobody else's change of the key takes
 * effect; GETs of others go on.  Keys share locks (a fixed number of stripes), so
 * a lock may keep changes of other keys waiting too: hold it shortly.  A holder
 * whose connection ends, or who keeps others waiting for longer than kvd's --lease,
 * loses it: what it does under the lock afterwards fails with KVD_ELOST, and has no
 * effect.  A lock belongs to its session, and to its thread.
 *
 * While a session holds a lock, changes that it makes of the same key without the
 * lock wait for it as anybody else's do: use the kvd_locked_ functions.
 */
struct kvd_key {
	const void *data;
	size_t bytes;
};
#define KVD_LOCK_KEYS_MAX 16

typedef struct kvd_lock kvd_lock_t;

/*
 * Locks one key or several, which may be absent; no deadlock, whatever the order.
 * timeout_ms: how long to wait for somebody else's lock; 0: not at all, -1: the
 * client's time-out.  KVD_EBUSY: not free in that time.  The keys are not kept.
 */
int kvd_lock(kvd_session *session, const struct kvd_key *keys, size_t count, int timeout_ms,
	     kvd_lock_t **lock);

/*
 * Locks a key and reads it, in one round trip if nobody holds it.  Results as of
 * kvd_get; the lock is held with KVD_OK, KVD_NOT_FOUND and KVD_ESPACE, and *lock is
 * NULL otherwise.
 */
int kvd_lock_get(kvd_session *session, const void *key, size_t key_bytes, int timeout_ms,
		 void *value, size_t value_bytes_max, size_t *value_bytes, uint64_t *version,
		 kvd_lock_t **lock);

/* Releases and frees; does not wait.  KVD_ELOST: it was lost before; NULL: nothing. */
int kvd_unlock(kvd_lock_t **lock);

/* Of keys that the lock was taken for: as kvd_get, kvd_put, kvd_del. */
int kvd_locked_get(kvd_lock_t *lock, const void *key, size_t key_bytes, void *value,
		   size_t value_bytes_max, size_t *value_bytes, uint64_t *version);
int kvd_locked_put(kvd_lock_t *lock, const void *key, size_t key_bytes, const void *value,
		   size_t value_bytes, uint64_t *version);
int kvd_locked_del(kvd_lock_t *lock, const void *key, size_t key_bytes);

/*
 * Transactions: reads and changes of several keys, all or nothing,
 * serialisable, whoever changes the keys meanwhile; optimistic: what was read is
 * checked at the commit.  No lock is held in between.
 *
 * kvd_txn_get reads as kvd_get does, and what the transaction itself wrote; a key
 * read twice has the same value, or KVD_CONDITION: it was changed in between, the
 * transaction can't succeed any more.  Changes are kept in the transaction until
 * kvd_txn_commit sends them, all in one message of at most KVD_TXN_KEYS_MAX keys
 * and KVD_TXN_BYTES_MAX bytes (keys, values and 16 bytes each): KVD_ETOOBIG.
 *
 * kvd_txn_commit: KVD_OK, and *version is that of all new values; KVD_CONDITION: a key
 * was changed since it was read, and nothing took place: try again from the start.
 * Without changes it only makes sure that what was read was there all at once; by
 * READs alone where that can tell.  Ends the transaction in any case, as kvd_txn_delete
 * does without effect.  Belongs to its session's thread.
 */
#define KVD_TXN_KEYS_MAX 16    /* read or changed, where there is a change */
#define KVD_TXN_READS_MAX 4096 /* where there is none */
#define KVD_TXN_BYTES_MAX 8000

typedef struct kvd_txn kvd_txn_t;

int kvd_txn_new(kvd_session *session, kvd_txn_t **txn);
void kvd_txn_delete(kvd_txn_t **txn);
int kvd_txn_get(kvd_txn_t *txn, const void *key, size_t key_bytes, void *value,
		size_t value_bytes_max, size_t *value_bytes);
int kvd_txn_put(kvd_txn_t *txn, const void *key, size_t key_bytes, const void *value,
		size_t value_bytes);
int kvd_txn_del(kvd_txn_t *txn, const void *key, size_t key_bytes);
int kvd_txn_commit(kvd_txn_t **txn, uint64_t *version);

/*
 * Reads a value, calls `change`, stores what it left: atomically.  `change` gets
 * the value in memory of value_bytes_max bytes and its length, SIZE_MAX if the key
 * is absent; it sets the new length, SIZE_MAX to delete the key, and returns 0;
 * other than 0: nothing is stored, and the result is KVD_CONDITION.  It must not
 * use the session.
 */
int kvd_update(kvd_session *session, const void *key, size_t key_bytes,
	       int (*change)(void *arg, void *value, size_t *value_bytes), void *arg,
	       size_t value_bytes_max, int timeout_ms);

/* Deletes every key.  Not atomic: changes made meanwhile may stay. */
int kvd_flush(kvd_session *session);

/*
 * Calls `each` for every key that begins with the prefix, with the length of
 * its value, in no order.  A key that is there all the while is told at least
 * once, one that comes or goes meanwhile may be.  Stops early, returning
 * KVD_OK, where `each` returns other than 0.  `each` must not use the session.
 */
int kvd_keys(kvd_session *session, const void *prefix, size_t prefix_bytes,
	     int (*each)(void *arg, const void *key, size_t key_bytes, uint64_t value_bytes),
	     void *arg);

/* A round trip through a worker thread of kvd.  Sets *round_trip_ns. */
int kvd_ping(kvd_session *session, uint64_t *round_trip_ns);

/* kvd's figures as JSON, zero-terminated, allocated; free() it. */
int kvd_stats(kvd_session *session, char **json);

/* What the session's operations cost so far. */
struct kvd_counters {
	uint64_t gets;
	uint64_t changes;
	uint64_t reads;        /* RDMA READs posted */
	uint64_t read_bytes;
	uint64_t atomics;
	uint64_t messages;
	uint64_t message_bytes;
	uint64_t retries;      /* READs done again: torn, dead or moved */
	uint64_t mirror_hits;  /* GETs that needed no READ of the index */
	uint64_t fallbacks;    /* GETs that had to ask the server */
	uint64_t reconnects;
};
void kvd_session_counters(const kvd_session *session, struct kvd_counters *counters);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

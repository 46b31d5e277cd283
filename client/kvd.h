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
 * Time.  Every call ends after at most the client's time-out (timeout_ms); waiting for a
 * lock has its own.  If the connection is lost in it, it is made again within that time,
 * with pauses that grow to half a second, also after kvd was started again or the RDMA
 * device was taken away and came back.  GETs are then asked again; a change only if
 * kvd tells that it had no effect.  A change that timed out or lost its connection
 * for good may or may not have taken effect: KVD_EUNKNOWN says so.  The next call on
 * the session tries to connect again.
 * The same goes for submitted operations, as long as kvd_poll() may wait: it connects again, and
 * they go on within their own time.  For that it takes up to a quarter of a second, where its
 * timeout_ms is shorter.  With a timeout_ms of 0 they end with their connection.
 * In a cluster a session goes where the primary is, also when that is another one in the middle
 * of a call.
 */
#ifndef KVD_H
#define KVD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library is built with hidden visibility. */
#pragma GCC visibility push(default)

#define KVD_KEY_BYTES_MAX 1024
#define KVD_VALUE_BYTES_MAX (1ull << 30)
#define KVD_TTL_MS_MAX 3153600000000ull /* a hundred years */
#define KVD_UNIX_MS_MAX 253402300799999ull /* the year 9999 */
#define KVD_IOV_MAX 16                  /* pieces of a value */
#define KVD_BUFFERS_MAX 1024            /* registered buffers of a client */

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
#define KVD_EBUSY (-8)     /* kvd was too busy and did nothing, a change's whole time long */
#define KVD_EPROTOCOL (-9) /* the peer is not kvd, or of another version */
#define KVD_EDEVICE (-10)  /* no RDMA device, or it failed */
#define KVD_ESPACE (-11)   /* the value is longer than the buffer (see kvd_get) */
#define KVD_ELOST (-12)    /* the lock was lost with its connection */
#define KVD_ENUMBER (-13)  /* kvd_incr and so on: the value is not a number; it stays */
#define KVD_ERANGE (-14)   /* kvd_incr: the sum does not fit 64 bits; the value stays */
#define KVD_EDENIED (-15)  /* kvd does not let this user in, or not do this */
#define KVD_EDISK (-16)    /* kvd's disk is full or broken: no changes, but GETs go on */

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
	 * server's address.  A GUID will do; ",ack-timeout=N", ",retries=N", ",sl=N",
	 * ",tc=N" and ",bootstrap=tcp" may follow, see kvd(8). */
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
	/* Not 0: the client's first session READs all of the index that the mirror has
	 * room for, so that already the first GET of a key is one READ. */
	int mirror_ahead;
	/* Who the client is: path of a file of mode 600 with the line that `kvd init` or
	 * `kvcli user add` printed.  NULL: that line from the environment's
	 * KVD_CREDENTIALS, or the file that KVD_CREDENTIALS_FILE names, or nobody; "":
	 * nobody.  With credentials kvd has to prove itself, too: the client talks to
	 * none but the one that they are for. */
	const char *credentials;
	/* Which of kvd's tables, where the server's name has none behind a '/'.  NULL: the one
	 * that the environment's KVD_NAMESPACE names, or the one without a name; "": that. */
	const char *namespace_name;
	/* Which of several addresses of one kvd a session is at: see KVD_SPREAD_*. */
	int spread;
};
#define KVD_SPREAD_DEALT 0 /* the sessions are dealt out over them */
#define KVD_SPREAD_NONE 1  /* all are at the first that answers */
#define KVD_POLL_ADAPTIVE 0 /* spin for a while, then sleep */
#define KVD_POLL_BUSY 1     /* spin, for the lowest latency on a core of one's own */
#define KVD_POLL_EVENT 2    /* sleep at once */
#define KVD_GET_READ 0    /* one-sided READs: nobody on the server */
#define KVD_GET_MESSAGE 1 /* kvd, asked by a message: for comparison */

/*
 * Makes a client of the server at `server` ("host", "host:port", "[v6]:port";
 * the port is 7480 if left out); "/NAME" behind it names a namespace of that kvd.  Several, with
 * commas in between, are members of one cluster (kvd-cluster(7)): one that answers is enough, as
 * it tells where the primary is, at all of its ports.  Or they are the ports of one kvd: sessions are dealt out over
 * them, and one whose port is cut goes on by another one within a second (libkvd(3), "Several ports").
 * Where they are neither, the first that answers counts, until it does no more.  Of a
 * host with several addresses each is tried by the first session, IPv4 first, and the one
 * at which kvd answers kept; the time-out is for all of them.  Chooses the device but
 * does not connect: sessions do.  `options` may be NULL.  Like kvd_session_new, sets *client even
 * on an error (but for KVD_ENOMEM: then to NULL), so that kvd_client_error()
 * can tell it; delete it all the same.  Looks up host names, so may block.
 */
int kvd_client_new(const char *server, const struct kvd_options *options, kvd_client **client);
void kvd_client_delete(kvd_client **client);

/* The last error of kvd_client_new, kvd_session_new, kvd_buffer_new or _alloc, of any thread;
 * "" if none.  A copy of the calling thread's: valid until that asks again, or ends. */
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
 * than that; *value_bytes is then its length, and nothing else is set.  What of the
 * buffer is not the value is undefined afterwards, also on another result.
 * Answered by one-sided READs; no instruction is executed on the server.
 *
 * Values over 16 KiB are READ straight into `value`, which is registered for the
 * call, or once and for all with kvd_buffer_new().
 */
int kvd_get(kvd_session *session, const void *key, size_t key_bytes, void *value,
	    size_t value_bytes_max, size_t *value_bytes, uint64_t *version);

/*
 * GET of a value of any length, into memory that the call allocates; free() it.
 * One byte behind the value is zero, and not counted.
 */
int kvd_get_alloc(kvd_session *session, const void *key, size_t key_bytes, void **value,
		  size_t *value_bytes, uint64_t *version);

/* The same into up to KVD_IOV_MAX pieces, filled one after the other. */
int kvd_getv(kvd_session *session, const void *key, size_t key_bytes, const struct iovec *iov,
	     int iov_count, size_t *value_bytes, uint64_t *version);

/*
 * What is kept with a value beside its bytes.  Flags are 32 bits of the client's, which mean
 * nothing to kvd.  Signs are for values that are costly to make, so that of many clients one
 * makes them anew: KVD_STALE, the value is out of date; KVD_CLAIMED, somebody has taken it
 * on to renew it.  libkvd(3) says how ("Flags and signs").  Neither takes memory.  A put
 * without signs takes both away; what is computed from the old value (kvd_incr, kvd_append
 * and so on) keeps flags, signs and expiry; kvd_touch_with sets signs.
 */
struct kvd_info {
	size_t size; /* sizeof(struct kvd_info), set by the caller, so that it can grow */
	size_t value_bytes;
	uint64_t version;
	uint64_t ttl_ms; /* about what is left of its time to live; 0: for ever */
	uint32_t flags;
	int signs;       /* KVD_STALE, KVD_CLAIMED */
};
#define KVD_STALE 1
#define KVD_CLAIMED 2

/*
 * kvd_get, and all that is known of the value; set with KVD_OK and with KVD_ESPACE, so a
 * value_bytes_max of 0 asks for nothing else.  KVD_EINVAL: info->size.
 */
int kvd_get_info(kvd_session *session, const void *key, size_t key_bytes, void *value,
		 size_t value_bytes_max, struct kvd_info *info);

/*
 * KVD_OK if the key is there, KVD_NOT_FOUND; sets *value_bytes if not NULL.  A
 * message to kvd where the value is over 16 KiB.
 */
int kvd_exists(kvd_session *session, const void *key, size_t key_bytes, size_t *value_bytes);

/*
 * Stores a value, new or over the old one, for ever.  Sets *version if not NULL.
 * KVD_EFULL: the table has no room for it; the old value stays.  No two changes
 * give the same version, and a later one of the key has the greater.
 */
int kvd_put(kvd_session *session, const void *key, size_t key_bytes, const void *value,
	    size_t value_bytes, uint64_t *version);

/* KVD_OK if the key was deleted, KVD_NOT_FOUND if there was none. */
int kvd_del(kvd_session *session, const void *key, size_t key_bytes);

/*
 * Conditions and expiry.  All zero but for the size: as without.  kvd evaluates the
 * condition and makes the change in one, so of many that say KVD_IF_ABSENT one wins.
 * A key whose time is over is absent to everybody at once; its memory is reclaimed
 * in the background.
 */
struct kvd_change {
	/* sizeof(struct kvd_change), so that the struct can grow. */
	size_t size;
	/* Expires so long after kvd got the message, to KVD_TTL_MS_MAX; 0: never.  kvd counts in
	 * whole milliseconds: it may be up to one shorter.  A key whose time is over while a
	 * change that looked at it is under way goes behind that change.
	 * A time in the past, as a negative number, is over that limit: KVD_EINVAL. */
	uint64_t ttl_ms;
	int condition;    /* KVD_ALWAYS or KVD_IF_* */
	uint64_t version; /* of KVD_IF_VERSION: the key has just this version */
	/* Instead of ttl_ms: a Unix time in milliseconds, by the clock of kvd's machine when it
	 * got the message; 0: not given.  Of one that is over the key is absent then. */
	uint64_t expires_unix_ms;
	uint32_t flags; /* the client's, of a value that is stored anew */
	int signs;      /* KVD_STALE, KVD_CLAIMED: the same */
	int options;    /* KVD_KEEP_TTL and so on */
};
#define KVD_ALWAYS 0
#define KVD_IF_ABSENT 1
#define KVD_IF_PRESENT 2
#define KVD_IF_VERSION 3

#define KVD_KEEP_TTL 1  /* of a put or a touch: a key that is there keeps its expiry */
#define KVD_OR_STALE 2  /* of a put, with KVD_IF_VERSION: where the key has a higher version, store
			 * it as a stale one, with the expiry and KVD_CLAIMED that are there */
#define KVD_SET_SIGNS 4 /* of a touch: the signs become `signs`; without it they stay */

/*
 * kvd_put under a condition or with a time to live; `change` may be NULL.
 * KVD_CONDITION: nothing was done; *version (if not NULL) is the key's, 0 if there
 * is no such key.
 */
int kvd_put_with(kvd_session *session, const void *key, size_t key_bytes, const void *value,
		 size_t value_bytes, const struct kvd_change *change, uint64_t *version);

/* The same from up to KVD_IOV_MAX pieces, one behind the other. */
int kvd_putv(kvd_session *session, const void *key, size_t key_bytes, const struct iovec *iov,
	     int iov_count, const struct kvd_change *change, uint64_t *version);

/* kvd_del under a condition, and nothing else; *version is of what was deleted. */
int kvd_del_with(kvd_session *session, const void *key, size_t key_bytes,
		 const struct kvd_change *change, uint64_t *version);

/*
 * Adds to a number, which is kept as decimal text ("-17").  An absent key counts
 * from *initial, or is KVD_NOT_FOUND if that is NULL.  *number (if not NULL) is the
 * sum.  ttl_ms is for a key that this call makes; another keeps its expiry.
 * KVD_ENUMBER: the value is anything else than a whole number of 64 bits as
 * kvd_incr writes it (no blanks, no "+", no leading zeros).  KVD_ERANGE: the sum
 * would not be one.  Either way it stays.
 */
int kvd_incr(kvd_session *session, const void *key, size_t key_bytes, int64_t delta,
	     const int64_t *initial, const struct kvd_change *change, int64_t *number);

/*
 * Adds to a number of 64 bits without a sign, and takes away from one.  Above 2^64 - 1 a sum
 * goes on from 0; a difference is never less than 0.  An absent key becomes *initial, whatever
 * the delta, or is KVD_NOT_FOUND if that is NULL.  The text never becomes shorter: blanks stand
 * behind it.  KVD_ENUMBER: the value is not digits and perhaps blanks, to 64 bytes; it stays.
 */
int kvd_incr_u64(kvd_session *session, const void *key, size_t key_bytes, uint64_t delta,
		 const uint64_t *initial, const struct kvd_change *change, uint64_t *number);
int kvd_decr_u64(kvd_session *session, const void *key, size_t key_bytes, uint64_t delta,
		 const uint64_t *initial, const struct kvd_change *change, uint64_t *number);

/*
 * Appends to a value; an absent key counts as empty.  *total_bytes (if not NULL) is
 * the length then.  ttl_ms as of kvd_incr.  KVD_ETOOBIG: it would be over
 * KVD_VALUE_BYTES_MAX, and stays.  kvd copies a value of over 4 KB to append to it,
 * and needs memory for both meanwhile.
 */
int kvd_append(kvd_session *session, const void *key, size_t key_bytes, const void *value,
	       size_t value_bytes, const struct kvd_change *change, size_t *total_bytes);

/* The same at the value's beginning. */
int kvd_prepend(kvd_session *session, const void *key, size_t key_bytes, const void *value,
		size_t value_bytes, const struct kvd_change *change, size_t *total_bytes);

/* A new time to live for a key that is there (0: for ever); KVD_NOT_FOUND.  Needs no
 * memory, whatever the length of the value; gives it a new version. */
int kvd_touch(kvd_session *session, const void *key, size_t key_bytes, uint64_t ttl_ms);

/* The same with all that a struct kvd_change has but flags: a condition, a time when it
 * expires, signs.  *version (if not NULL) is the new one; with KVD_CONDITION the key's. */
int kvd_touch_with(kvd_session *session, const void *key, size_t key_bytes,
		   const struct kvd_change *change, uint64_t *version);

/*
 * Touches a key and gets its value: a message, and a READ behind its answer.  Results of
 * either; KVD_NOT_FOUND and KVD_CONDITION as of kvd_touch_with, and the value is of the
 * touch, or of a change that came after it.  Of the submitted one KVD_EUNKNOWN: the key may
 * have been touched.
 */
int kvd_get_touch(kvd_session *session, const void *key, size_t key_bytes,
		  const struct kvd_change *change, void *value, size_t value_bytes_max,
		  struct kvd_info *info);

/*
 * Registered buffers: memory that values are sent from and READ into without a copy
 * and without registering it for each call.  Whatever part of it is given to a call
 * as a value, or as a piece of one, is recognised by its address.  (Values so short
 * that copying is cheaper are copied: up to 512 bytes out, 1 KB in.)
 *
 * The memory belongs to the caller, who keeps it mapped until the _delete, and
 * calls that only when no operation uses it.  kvd can read it all the while, and
 * nobody can write it.  Any thread; needs a session to have been made before, whose
 * device the memory is registered with.  KVD_EINVAL: a part of it is registered
 * already; KVD_ETOOBIG: KVD_BUFFERS_MAX are; KVD_EDEVICE: the locked-memory limit.
 * kvd_client_error() says which.
 */
typedef struct kvd_buffer kvd_buffer;
int kvd_buffer_new(kvd_client *client, void *addr, size_t bytes, kvd_buffer **buffer);
/* The same with memory that the library makes, zeroed and page aligned: *addr, until the
 * _delete.  To be preferred on the software device, where kvd READs a long value from
 * it without the help of a thread of this process.  KVD_ENOMEM, too. */
int kvd_buffer_alloc(kvd_client *client, size_t bytes, void **addr, kvd_buffer **buffer);
void kvd_buffer_delete(kvd_buffer **buffer);

/*
 * Many in flight.  A submit starts an operation and returns KVD_OK, KVD_EBUSY
 * if `depth` operations are in flight already, or what is in flight has to end before the
 * session goes back to a port that it had lost (poll first), or an error; with
 * KVD_OK exactly one completion with `tag` follows from kvd_poll(), in any
 * order.  The key is copied; the value's memory must stay until the completion.
 * What is submitted goes out at the latest in the next kvd_poll(), as few
 * doorbells as possible.  The synchronous calls above can't be used on a session while it has
 * operations in flight (KVD_EINVAL).
 */
struct kvd_completion {
	void *tag;
	int result;         /* as of the synchronous call */
	size_t value_bytes; /* of a GET, PUT, append: the value's length */
	uint64_t version;
	int64_t number;     /* of kvd_submit_incr: the sum; of an _u64: the same 64 bits */
	uint64_t ttl_ms;    /* of a GET: about what is left of its time to live; 0: for ever */
	uint32_t flags;     /* of a GET, as those in struct kvd_info; */
	int signs;          /* also with KVD_ESPACE */
};

int kvd_submit_get(kvd_session *session, const void *key, size_t key_bytes, void *value,
		   size_t value_bytes_max, void *tag);
int kvd_submit_put(kvd_session *session, const void *key, size_t key_bytes, const void *value,
		   size_t value_bytes, void *tag);
int kvd_submit_del(kvd_session *session, const void *key, size_t key_bytes, void *tag);
/* KVD_OK if the key is there, with value_bytes; KVD_NOT_FOUND.  Of a value over 16 KiB only
 * its head is READ. */
int kvd_submit_exists(kvd_session *session, const void *key, size_t key_bytes, void *tag);

/* The others.  The arrays of pieces, `change` and `initial` are copied. */
int kvd_submit_getv(kvd_session *session, const void *key, size_t key_bytes,
		    const struct iovec *iov, int iov_count, void *tag);
int kvd_submit_putv(kvd_session *session, const void *key, size_t key_bytes,
		    const struct iovec *iov, int iov_count, const struct kvd_change *change,
		    void *tag);
int kvd_submit_put_with(kvd_session *session, const void *key, size_t key_bytes,
			const void *value, size_t value_bytes, const struct kvd_change *change,
			void *tag);
int kvd_submit_del_with(kvd_session *session, const void *key, size_t key_bytes,
			const struct kvd_change *change, void *tag);
int kvd_submit_incr(kvd_session *session, const void *key, size_t key_bytes, int64_t delta,
		    const int64_t *initial, const struct kvd_change *change, void *tag);
int kvd_submit_incr_u64(kvd_session *session, const void *key, size_t key_bytes, uint64_t delta,
			const uint64_t *initial, const struct kvd_change *change, void *tag);
int kvd_submit_decr_u64(kvd_session *session, const void *key, size_t key_bytes, uint64_t delta,
			const uint64_t *initial, const struct kvd_change *change, void *tag);
int kvd_submit_prepend(kvd_session *session, const void *key, size_t key_bytes,
		       const void *value, size_t value_bytes, const struct kvd_change *change,
		       void *tag);
int kvd_submit_touch_with(kvd_session *session, const void *key, size_t key_bytes,
			  const struct kvd_change *change, void *tag);
int kvd_submit_get_touch(kvd_session *session, const void *key, size_t key_bytes,
			 const struct kvd_change *change, void *value, size_t value_bytes_max,
			 void *tag);
int kvd_submit_append(kvd_session *session, const void *key, size_t key_bytes,
		      const void *value, size_t value_bytes, const struct kvd_change *change,
		      void *tag);
int kvd_submit_touch(kvd_session *session, const void *key, size_t key_bytes, uint64_t ttl_ms,
		     void *tag);

/*
 * Makes progress and takes up to `max` completions; the count, 0 if there were
 * none within timeout_ms (0: don't wait; -1: until the client's time-out; a quarter of a
 * second at least while it connects again), or an error.  Returns 0 at once where nothing
 * is in flight.
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
 * effect; GETs of others go on.  A change that was under way at the grant, as one
 * that waits for the disk, may take effect after it, but before what is read or
 * changed under the lock.  Keys share locks (a fixed number of stripes), so a lock
 * may keep changes of other keys waiting too: hold it shortly.  A holder whose
 * connection ends, or who keeps others waiting for longer than kvd's --lease, loses
 * it: what it does under the lock afterwards fails with KVD_ELOST, and has no
 * effect.  A lock belongs to its session, and to its thread.  In a cluster it ends with
 * the primary that gave it, in the same way; a call that takes one goes on with the next.
 *
 * While a session holds a lock, changes that it makes of the same key without the
 * lock wait for it as anybody else's do: use the kvd_locked_ functions.
 *
 * Locks are among users who trust each other: see kvd_lock_check().
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

/*
 * Whether the lock is held still, in one round trip for each stripe of it: KVD_OK, or
 * KVD_ELOST.  It is lost with its connection; and anybody with the role write can break it,
 * by a compare-and-swap of its word, without kvd's knowing.  Changes under a broken lock
 * fail by themselves; ask this where the lock protects something else than kvd's keys.
 */
int kvd_lock_check(kvd_lock_t *lock);

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
 * kvd_txn_commit: KVD_OK, and *version is that of the first key that was put; those of the
 * others follow one by one, in the order in which the transaction first named the keys.
 * KVD_CONDITION: a key was changed since it was read, and nothing took place: try again
 * from the start.
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

/*
 * In an event loop: kvd_fd() is a descriptor to wait on (poll, epoll) until it is
 * readable, or a KVD_E*.  Level-triggered, and the session's own: don't read or
 * close it.  It stays the same when the session connects again.
 *
 * The order is: submit; kvd_arm(); if that is 1, kvd_poll() at once and arm again;
 * if it is 0, wait for the descriptor, then kvd_poll() with a timeout_ms of 0.
 * kvd_arm() posts what was submitted and asks for an event on the next completion;
 * without it there is none.  While operations are in flight call kvd_poll() at the
 * latest after the client's timeout_ms: that is what notices one that takes too long.
 */
int kvd_fd(kvd_session *session);
int kvd_arm(kvd_session *session);

/*
 * 1: the session is connected, for all that it knows without waiting.  0: it is not, and the
 * next call would connect again, for which it waits up to the client's time-out.  A loop
 * that must not wait takes the completions that are left, and gives such a session to a
 * thread that may, for a kvd_ping().
 */
int kvd_connected(const kvd_session *session);

/*
 * Many keys in one call, posted with as few doorbells as the session's depth lets.
 * Each item gets its own result, as of kvd_get and kvd_put_with; the order in which
 * they are executed is open, also for items of the same key.  The call returns the
 * first error among them, or KVD_OK.  `value` and `value_bytes_max` are where a
 * value goes (kvd_mget); `value` and `value_bytes` what is stored (kvd_mput).
 * kvd_mexists and kvd_mdel look at the key only; results are as of kvd_exists, which sets
 * value_bytes, and kvd_del.  A change that broke off is KVD_EUNKNOWN.
 */
struct kvd_item {
	const void *key;
	size_t key_bytes;
	void *value;
	size_t value_bytes_max;
	size_t value_bytes; /* set by kvd_mget, as kvd_get sets it, and by kvd_mexists */
	uint64_t version;   /* set with KVD_OK */
	int result;
	uint64_t ttl_ms;    /* set by kvd_mget, as kvd_get_info sets them */
	uint32_t flags;
	int signs;
};
int kvd_mget(kvd_session *session, struct kvd_item *items, size_t count);
int kvd_mput(kvd_session *session, struct kvd_item *items, size_t count,
	     const struct kvd_change *change);
int kvd_mexists(kvd_session *session, struct kvd_item *items, size_t count);
int kvd_mdel(kvd_session *session, struct kvd_item *items, size_t count);

/* Deletes every key.  Not atomic: changes made meanwhile may stay. */
int kvd_flush(kvd_session *session);

/*
 * The same at a Unix time in milliseconds, by the clock of kvd's machine: what is there then
 * goes, what is stored later stays.  Changes find none of it from that time on; a GET may
 * find a value until kvd has come by, as after kvd_flush.  There is one such time: another
 * takes its place, 0 takes it away, and a kvd that is started again has none.  KVD_EINVAL at a
 * cluster: its next primary would not know of it.
 */
int kvd_flush_at(kvd_session *session, uint64_t unix_ms);

/*
 * Calls `each` for every key that begins with the prefix, with the length of
 * its value, in no order.  A key that is there all the while is told at least
 * once, one that comes or goes meanwhile may be.  Stops early, returning
 * KVD_OK, where `each` returns other than 0.  `each` must not use the session.
 */
int kvd_keys(kvd_session *session, const void *prefix, size_t prefix_bytes,
	     int (*each)(void *arg, const void *key, size_t key_bytes, uint64_t value_bytes),
	     void *arg);
/* One page of them, a message's worth, from *cursor on: 0 at first.  *cursor is where to go on
 * then; 0: that was the last page, or `each` wanted no more.  Pages may be far apart in
 * time. */
int kvd_keys_page(kvd_session *session, const void *prefix, size_t prefix_bytes, uint64_t *cursor,
		  int (*each)(void *arg, const void *key, size_t key_bytes, uint64_t value_bytes),
		  void *arg);

/* A round trip through a worker thread of kvd.  Sets *round_trip_ns. */
int kvd_ping(kvd_session *session, uint64_t *round_trip_ns);

/*
 * Makes a copy of what is durable (kvd --data-dir) in a new folder of kvd's machine,
 * named from / on, while kvd serves; with all that was answered before the call.  Waits
 * until it is made; it goes on if the connection is lost.  KVD_EINVAL: kvd has no data
 * folder, or the path won't do; KVD_EDISK: it failed; kvd_session_error() says why.
 */
int kvd_backup(kvd_session *session, const char *path);

/*
 * Commands for a cluster (kvd --cluster), which any member takes and which are waited for.
 * INIT makes it, of so many copies (0: as the member's --cluster-copies says, or 2); PROMOTE
 * has that member of the set become primary; REMOVE takes it out of the set; FORCE has a member
 * that is not in the set become primary with what it has: the session has to be with
 * it, and what it lacks is lost.  `member` is a name as kvd_stats() has it ("cluster").  A
 * sentence of what was done goes to *said, if not NULL: free() it.  KVD_EINVAL: it can't be done;
 * KVD_EUNKNOWN: it is not known to be done within the time.
 */
int kvd_cluster(kvd_session *session, int command, const char *member, int copies, char **said);
#define KVD_CLUSTER_INIT 1
#define KVD_CLUSTER_PROMOTE 2
#define KVD_CLUSTER_REMOVE 3
#define KVD_CLUSTER_FORCE 4

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
	uint64_t round_trips;  /* times that a GET or lock waited for READs, atomics, kvd */
	uint64_t copied_bytes; /* of values, from and to the caller's memory: short ones */
	uint64_t doorbells;    /* times that work was posted, one request or many together */
	uint64_t hashed_aside_bytes; /* of values that GETs READ, by the client's second thread */
};
void kvd_session_counters(const kvd_session *session, struct kvd_counters *counters);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

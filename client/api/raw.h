/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * raw.h -- verbs alone, on a session's own queue pair: what kvbench holds GET and
 * PUT against.  Not installed.
 *
 * What is prepared is run next, with nothing else in flight on the session, and
 * only the run is to be timed.  Nothing is verified, copied or counted.
 */
#ifndef CLIENT_API_RAW_H
#define CLIENT_API_RAW_H

#include <infiniband/verbs.h>

#include "client/kvd.h"

struct op;

#define SESSION_RAW_MAX 64

struct session_raw {
	kvd_session *session;
	struct op *op;     /* of a message; NULL: one-sided */
	struct ibv_mr *mr; /* of session_raw_read_long() */
	unsigned count;    /* work requests, posted with one doorbell; the last is signalled */
	struct ibv_send_wr wr[SESSION_RAW_MAX];
	struct ibv_sge sge[SESSION_RAW_MAX];
};

/*
 * The READ that a GET of this key would post: of exactly the item's bytes, where the
 * mirror says that it is.  KVD_OK; KVD_NOT_FOUND: the mirror doesn't know; KVD_ETOOBIG:
 * the item is READ in several parts; KVD_EINVAL: operations are in flight.
 */
int session_raw_read(kvd_session *session, const void *key, size_t key_bytes,
		     struct session_raw *raw);

/* A compare-and-swap of the word of a key's lock, from 0 to 0: as a lock posts it. */
int session_raw_cas(kvd_session *session, const void *key, size_t key_bytes,
		    struct session_raw *raw);

/* Both, in this order: the chain that kvd_lock_get() posts. */
int session_raw_lock_read(kvd_session *session, const void *key, size_t key_bytes,
			  struct session_raw *raw);

/*
 * Of an item too long for session_raw_read(): READs of the device's largest message that
 * cover it, into `buffer`, which is registered here, until session_raw_end().
 * KVD_ETOOBIG: it takes more than SESSION_RAW_MAX, or the buffer is shorter than the
 * item, of sizeof(struct layout_item) + key + value.
 */
int session_raw_read_long(kvd_session *session, const void *key, size_t key_bytes,
			  size_t value_bytes, void *buffer, size_t buffer_bytes,
			  struct session_raw *raw);
void session_raw_end(struct session_raw *raw);

/*
 * A message as long as that of a PUT, which a worker thread of kvd answers with a
 * reply as long as a PUT's, and does nothing else.  KVD_ETOOBIG: a PUT would not send such a
 * value in a message.
 */
int session_raw_message(kvd_session *session, size_t key_bytes, size_t value_bytes,
			struct session_raw *raw);

/* From the doorbell to the completion or to the reply. */
int session_raw_run(struct session_raw *raw);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* kvd_lock.h -- a lock: the words that it is made of. */
#ifndef CLIENT_API_KVD_LOCK_H
#define CLIENT_API_KVD_LOCK_H

#include <stdint.h>

struct kvd_session;

struct kvd_lock {
	struct kvd_session *session;
	uint64_t connection_id; /* of the connection that it was taken on */
	unsigned count;
	struct {
		uint64_t stripe;
		uint64_t token;
	} part[];
};

#endif

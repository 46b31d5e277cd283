/* SPDX-License-Identifier: BSD-2-Clause */
/* lock.h -- a lock, and the words that it is made of. */
#ifndef CLIENT_API_LOCK_H
#define CLIENT_API_LOCK_H

#include "client/op/session.h"

struct kvd_lock {
	struct kvd_session *session;
	uint64_t connection_id; /* of the connection that it was taken on */
	unsigned count;
	struct {
		uint64_t stripe;
		uint64_t token;
	} part[];
};

/* What kvd READs in this process to learn whether it holds a lock still.  False: too many. */
bool stripe_say_held(struct kvd_session *s, uint64_t stripe, uint64_t token);
void stripe_say_free(struct kvd_session *s, uint64_t token);

/* Takes one stripe, as far as a compare-and-swap does it: op->memory->small[0] is 0 then. */
struct op *stripe_start(struct kvd_session *s, uint64_t stripe, uint64_t token);
/* Not waited for. */
void stripe_release(struct kvd_session *s, uint64_t stripe, uint64_t token);

#endif

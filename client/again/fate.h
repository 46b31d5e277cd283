/* SPDX-License-Identifier: BSD-2-Clause */
/* fate.h -- what became of a change whose answer was lost with its connection. */
#ifndef CLIENT_AGAIN_FATE_H
#define CLIENT_AGAIN_FATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/op/outcome.h"

/* What a change did, as its reply says. */
struct changed {
	uint64_t version;
	size_t value_bytes;
	int64_t number;
};

/*
 * Asks kvd, on the session's connection.  KVD_OK: it was answered: *result and *changed;
 * KVD_NOT_FOUND: it had no effect and never will; KVD_EUNKNOWN: kvd does not know; other
 * errors: it could not be asked.
 */
int fate_ask(struct kvd_session *s, const struct sent *sent, uint64_t deadline_ns,
	     int *result, struct changed *changed);
/* The same; KVD_EBUSY: kvd did not know it in time, and may yet. */
int fate_ask_for(struct kvd_session *s, const struct sent *sent, uint64_t deadline_ns,
		 int *result, struct changed *changed);
/* The loop around a change whose answer may be lost, with its *result; true: it had no effect
 * and is to be sent again. */
bool fate_again(struct kvd_session *s, const struct sent *sent, uint64_t deadline_ns,
		int *result, struct changed *changed);

#endif

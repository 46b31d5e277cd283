/* SPDX-License-Identifier: BSD-2-Clause */
/* async.h -- operations that are submitted. */
#ifndef CLIENT_API_ASYNC_H
#define CLIENT_API_ASYNC_H

#include <stddef.h>

struct kvd_session;
struct op;
struct op_class;

/* Sets *op: of a key that is one, on a session that is connected.  KVD_E* with a sentence;
 * KVD_EBUSY: poll first. */
int session_submit(struct kvd_session *s, const struct op_class *class, const void *key,
		   size_t key_bytes, void *tag, struct op **op);

#endif

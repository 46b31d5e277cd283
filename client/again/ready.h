/* SPDX-License-Identifier: BSD-2-Clause */
/* ready.h -- a session that a call can use: connected, and nothing else in flight. */
#ifndef CLIENT_AGAIN_READY_H
#define CLIENT_AGAIN_READY_H

#include <stddef.h>

struct kvd_session;

/* Connects again if it is broken, trying for as long as a call may take.  0 or KVD_E*, with
 * the session's err set; so the others. */
int session_ready(struct kvd_session *s);
/* For calls that wait: and nothing else is in flight; two operations are free. */
int session_ready_alone(struct kvd_session *s);
/* And the key is one. */
int session_begin(struct kvd_session *s, const void *key, size_t key_bytes);

#endif

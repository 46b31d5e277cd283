/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * request.h -- messages to kvd: changes, and the calls that its workers answer.
 *
 * A value that fits a message goes behind its key, copied there or gathered from
 * registered memory; a longer one stays where it is, registered until the reply,
 * and kvd READs it from there.
 */
#ifndef CLIENT_OP_REQUEST_H
#define CLIENT_OP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct iovec;
struct op;
struct op_class;
struct wire_request;

extern const struct op_class call_class; /* its reply's payload is kept */
extern const struct op_class change_class;
extern const struct op_class detached_class; /* a message whose reply says nothing */

/*
 * Sends a request with a value, of count pieces, behind it.  `ask` has what is not the
 * operation's: op, flags, token, ttl_ms, version and so on.  KVD_E* with a sentence:
 * nothing was sent, and the operation is free.
 */
int request_start(struct op *op, const struct wire_request *ask, const struct iovec *iov,
		  int count);
/* The same with the first `value_bytes` of the value that it has; 0: without.  On an error
 * the operation goes on. */
int request_send(struct op *op, const struct wire_request *ask, size_t value_bytes);
/* Sends a request without key and value whose answer nobody waits for; none is sent while all
 * operations are in flight. */
void request_tell(struct engine *engine, const struct wire_request *ask);
/* One was submitted, and others may follow: kvd can begin while the caller makes them. */
void request_submitted(const struct op *op);

/* Another member of the cluster serves; and the operation is adrift then. */
bool request_is_moved(struct op *op);

/* What a change's reply tells of the index, for the mirror. */
void request_learn(struct op *op, const uint8_t *payload);

/* The result that a reply's status is, with a sentence if it is an error. */
int request_result(struct engine *e, uint32_t key_bytes, uint64_t status);
/* The code, with a sentence of why. */
int request_fail(struct engine *e, uint32_t key_bytes, int code, const char *why);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * message.h -- an operation's message: posted, and posted again where kvd was too busy for it.
 *
 * kvd answers "busy" where too much waits already, or a lock stayed in the way: the change
 * had no effect.  It is posted again after a pause, which doubles, as long as there is time
 * for an answer.  Nobody waits for a pause: a poll looks for those that are over.  The
 * operation keeps its message, so this takes no memory.
 */
#ifndef CLIENT_OP_MESSAGE_H
#define CLIENT_OP_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct op;

/* The first `bytes` of op->memory->message, as a request; `gather` as of op_send(). */
void message_post(struct op *op, uint32_t bytes, bool gather);

/* kvd has answered "busy".  True: it will be posted again, and its class hears of the next
 * answer.  False: too little of the operation's time is left. */
bool message_put_off(struct op *op);

/* The same message once more, on another connection. */
void message_again(struct op *op);

/* Posts those whose pause is over; the doorbell is the caller's.  Where time has run out
 * meanwhile the class hears "busy" once more.  engine.later_ns says when to look again. */
void messages_look(struct engine *e, uint64_t now);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* get.h -- the operation that a one-sided GET is. */
#ifndef CLIENT_GET_GET_H
#define CLIENT_GET_GET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct get;
struct iovec;
struct op;
struct op_class;
struct wire_request;

/* Under this, copying a value is cheaper than scattering it. */
#define SCATTER_BYTES_MIN 1024u

enum get_how {
	GET_PLAIN = 0,
	GET_ALLOCATES = 1, /* memory for the value: outcome.allocated */
	GET_LOCKED = 2,    /* by the holder of the key's lock */
	GET_EXISTS = 4,    /* whether there is a value: it is KVD_OK without room for it */
};

extern const struct op_class get_class;
extern const struct op_class touch_get_class; /* a touch, then a GET */

/* What the GETs of an engine's operations need, one for each: freed by free().  NULL
 * without memory. */
struct get *gets_new(struct engine *e);
/* Their connection is gone: nobody looks at the callers' memory any more. */
void gets_stop(struct get *gets, uint32_t count);

/* Begins a GET into the caller's memory; `how` of enum get_how.  KVD_EINVAL with a sentence:
 * that are too many pieces, and the operation is free. */
int get_start(struct op *op, unsigned how, const struct iovec *iov, int count);
/* The same of an operation of touch_get_class, which sends this WIRE_TOUCH first: the GET is
 * made once kvd has answered that it is done. */
int get_start_touched(struct op *op, const struct wire_request *touch, const struct iovec *iov,
		      int count);
/* The READ of the item that this entry of the mirror names, of so many bytes, has been
 * posted for it, in that reign, and perhaps is complete. */
void get_resume(struct op *op, unsigned how, uint64_t word, uint64_t bytes, uint64_t reign,
		bool complete);

#endif

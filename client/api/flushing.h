/* SPDX-License-Identifier: BSD-2-Clause */
/* flushing.h -- how far a flush has come, and when it begins again: in a cluster. */
#ifndef CLIENT_API_FLUSHING_H
#define CLIENT_API_FLUSHING_H

#include <stdbool.h>
#include <stdint.h>

#include "client/kvd.h"

struct flushing {
	uint64_t from;  /* kvd's cursor */
	uint64_t reign; /* whose it is; 0: kvd's that is of no cluster */
};

/*
 * After each page, and what came of it.  The next primary goes on, and its buckets are others:
 * what was behind may be in front there.  What is deleted twice is deleted.  True: `from` is the
 * first one, and the page that was answered says nothing.  `has_next`: another member may go on,
 * and there is time for it; a primary may be lost before it answered any page, of no known reign.
 */
static inline bool flushing_begins_again(struct flushing *f, int rc, uint64_t reign, bool has_next)
{
	uint64_t was = f->reign;
	bool is_lost = rc == KVD_ECONNECT && has_next;

	if (rc == KVD_OK && reign)
		f->reign = reign;
	if (!is_lost && (!was || was == f->reign))
		return false;
	f->from = 0;
	return true;
}

#endif

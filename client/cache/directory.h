/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * directory.h -- where the segments of the index lie in the table, as far as this
 * client has READ it.
 *
 * One for each start of kvd that a client met, shared by the sessions that are (or
 * were last) connected to it: a session that has not noticed yet that kvd is another
 * goes on with the old one's.  Counted; any thread.
 */
#ifndef CLIENT_CACHE_DIRECTORY_H
#define CLIENT_CACHE_DIRECTORY_H

#include <stdatomic.h>
#include <stdint.h>

struct directory {
	uint64_t instance; /* of kvd */
	uint64_t entries;
	_Atomic unsigned owners;
	_Atomic uint64_t offset[]; /* of segments; 0 = not known */
};

/* With one owner, nothing known; NULL if there is no memory. */
struct directory *directory_new(uint64_t instance, uint64_t entries);
struct directory *directory_share(struct directory *directory);
/* May be NULL. */
void directory_leave(struct directory **directory);

#endif

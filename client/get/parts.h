/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * parts.h -- the READs of items whose value goes straight into the caller's memory.
 *
 * Long ones are READ in parts.  A session has so many of them under way, whatever many values
 * they are of: enough for a device, and few enough that each is still in the processor's cache
 * when it is hashed.  A value that finds them all under way is parked until one has arrived.
 */
#ifndef CLIENT_GET_PARTS_H
#define CLIENT_GET_PARTS_H

#include "client/get/state.h"

#define PARTS_ALL_MAX 8u /* under way of all long values of a session */

struct engine;

/* The first READs of the item that g->word names; or it is parked. */
void parts_begin(struct engine *e, struct get *g);
/* One of them has arrived: the next ones, of this item and then of those that are parked. */
void parts_arrived(struct engine *e, struct get *g);

#endif

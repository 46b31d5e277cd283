/* SPDX-License-Identifier: BSD-2-Clause */
/* room.h -- what is done where a change finds no room. */
#ifndef SERVER_STORE_RECLAIM_ROOM_H
#define SERVER_STORE_RECLAIM_ROOM_H

#include <stdbool.h>

#include "server/store/change/change.h"

/*
 * A change found no memory (WIRE_EMEMORY), or no place in the index (WIRE_ECROWDED): true
 * if it is to be tried again at once; else *status is what is to become of it.  `tries`:
 * how often that was.  Caller: holds nothing.
 */
bool store_make_room(struct store_worker *worker, struct hash hash, unsigned tries, int *status);

#endif

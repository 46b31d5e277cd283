/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lacks.h -- what a request needs and libkvd does not have yet: flags, signs, counters of 64
 * bits, prepend, times to live that are a date.  Where it has them, none of this is used.
 */
#ifndef FRONT_STORE_LACKS_H
#define FRONT_STORE_LACKS_H

#include "client/kvd.h"

/* A step that can't be done; no result of libkvd. */
#define LACKS_RESULT (-1000)

#ifndef KVD_STALE
#define LACKS 1
#define KVD_STALE 1
#define KVD_CLAIMED 2
#define LACKS_FLAGS(end) ((void)(end), 0u)
#define LACKS_SIGNS(end) ((void)(end), 0)
#else
#define LACKS 0
#define LACKS_FLAGS(end) ((end)->flags)
#define LACKS_SIGNS(end) ((end)->signs)
#endif

#endif

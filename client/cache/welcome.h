/* SPDX-License-Identifier: BSD-2-Clause */
/* welcome.h -- what kvd says of its memory, checked before it is used for addresses. */
#ifndef CLIENT_CACHE_WELCOME_H
#define CLIENT_CACHE_WELCOME_H

#include <stdbool.h>

#include "common/wire.h"

/* Entries of the directory of segments that a client makes room for. */
#define WELCOME_DIR_ENTRIES_MAX (1ull << 20)

/* True: each part that it names lies within the table, and is not longer than makes
 * sense. */
bool welcome_is_sane(const struct wire_welcome *welcome);

#endif

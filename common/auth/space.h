/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * space.h -- namespaces' names, as people write them and as the wire has them.
 *
 * A client names a namespace with its address, "HOST:PORT/NAME".  Nothing of that name
 * crosses the wire but a number made of it: before a client has proved who it is, that
 * tells a listener no more than it knew already.
 */
#ifndef COMMON_AUTH_SPACE_H
#define COMMON_AUTH_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define SPACE_NAME_BYTES_MAX 32u

/* Letters, digits, '.', '_', '-', of which the first is a letter or digit; 1 to
 * SPACE_NAME_BYTES_MAX of them.  So it is a file name, too. */
bool space_name_is_good(const char *name, size_t bytes);

/* Of the one without a name ("") 0; else never 0.  Any thread. */
uint64_t space_number(const char *name);

/*
 * Takes "ADDRESS/NAME" apart; without a '/' name is "".  address has room for
 * address_bytes, name for SPACE_NAME_BYTES_MAX + 1.  0, or -1 after setting err.
 */
int space_split(const char *text, char *address, size_t address_bytes, char *name,
		struct err *err);

#endif

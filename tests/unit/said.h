/* SPDX-License-Identifier: BSD-2-Clause */
/* said.h -- what is written to standard error meanwhile.  One at a time. */
#ifndef TESTS_UNIT_SAID_H
#define TESTS_UNIT_SAID_H

/* From now on standard error goes to memory. */
void said_begin(void);
/* It is what it was; the text, at most 64 KiB, until the next said_begin(). */
const char *said_end(void);
/* Lines of the last text with that. */
unsigned said_lines(const char *with);
/* The same of what was written since said_begin(), which goes on. */
unsigned said_so_far(const char *with);

#endif

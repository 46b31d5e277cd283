/* SPDX-License-Identifier: BSD-2-Clause */
/* front.h -- a kvfront of this machine, asked how it is. */
#ifndef CLIENT_CLI_SESSION_FRONT_H
#define CLIENT_CLI_SESSION_FRONT_H

#include <stdbool.h>

struct cli_front {
	bool is_there;    /* something listens there */
	const char *mark; /* "ok", "note" or "FIX", as doctor_examine_each() tells it */
	char text[512];   /* a sentence, which begins with where */
};

/*
 * `where` is the path of a Unix socket, or HOST:PORT.  Waits 10 s for an answer at the most.
 * What kvfront says is not believed: whatever it is, the sentence is plain text.
 */
void cli_front_examine(const char *where, struct cli_front *front);

#endif

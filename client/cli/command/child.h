/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * child.h -- a command of the user's that kvcli runs and waits for.
 *
 * Meanwhile an interrupt from the terminal is the command's (it goes to both), and
 * SIGTERM and SIGHUP are passed on to it.  It is spawned, not forked: no page of
 * registered memory is shared with it, and no descriptor of kvcli's but those given.
 */
#ifndef CLIENT_CLI_COMMAND_CHILD_H
#define CLIENT_CLI_COMMAND_CHILD_H

#include <signal.h>
#include <sys/types.h>

#include "client/cli/text/word.h"

#define CLI_CHILD_SIGNALS 5

struct cli_child {
	pid_t pid;
	struct sigaction before[CLI_CHILD_SIGNALS]; /* kvcli's own, until the end */
};

/*
 * Starts a command, found by $PATH, with `in` as its standard input and `out` as its
 * output; -1: kvcli's.  0 or an errno value.  One at a time.
 */
int cli_child_start(struct cli_child *child, const struct cli_word *words, size_t count, int in,
		    int out);

/* Its exit status as a shell tells it: 128 + n if signal n ended it. */
int cli_child_wait(struct cli_child *child);

#endif

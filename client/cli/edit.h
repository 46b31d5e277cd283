/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * edit.h -- lines typed at a terminal: editing, history, and completion of commands,
 * options and keys by Tab where libedit is built in; plain lines where not.
 *
 * The history is kept in $XDG_STATE_HOME/kvcli_history, or
 * ~/.local/state/kvcli_history.  A line that begins with a space is not kept.
 */
#ifndef CLIENT_CLI_EDIT_H
#define CLIENT_CLI_EDIT_H

#include "client/cli/session/cli.h"

/* `cli` is asked for keys; it stays until the end. */
void cli_edit_begin(struct cli *cli);
/* The line without its newline, allocated; NULL at the end, or after an interrupt. */
char *cli_edit_line(const char *prompt);
/* Into the history, unless it begins with a space. */
void cli_edit_keep(const char *line);
void cli_edit_end(void);

#endif

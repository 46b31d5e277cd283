/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * edit.h -- lines typed at a terminal: editing, history, completion of
 * commands by Tab where libedit is built in; plain lines where not.
 *
 * The history is kept in $XDG_STATE_HOME/kvcli_history, or
 * ~/.local/state/kvcli_history.  A line that begins with a space is not kept.
 */
#ifndef CLIENT_CLI_EDIT_H
#define CLIENT_CLI_EDIT_H

void cli_edit_begin(void);
/* The line without its newline, allocated; NULL at the end. */
char *cli_edit_line(const char *prompt);
void cli_edit_end(void);

#endif

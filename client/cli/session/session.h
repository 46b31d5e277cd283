/* SPDX-License-Identifier: BSD-2-Clause */
/* session.h -- the connection to kvd, made when a command needs it. */
#ifndef CLIENT_CLI_SESSION_SESSION_H
#define CLIENT_CLI_SESSION_SESSION_H

#include "client/cli/session/cli.h"

/* The session; connects if need be.  NULL: *result and *error say why, the text
 * until the next call. */
kvd_session *cli_session(struct cli *cli, int *result, const char **error);
/* The same for a command.  NULL: the error is told already, and the command returns *status. */
kvd_session *cli_connect(struct cli *cli, int *status);
/* Gives up the session with all it has in flight. */
void cli_disconnect(struct cli *cli);

#endif

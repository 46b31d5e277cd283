/* SPDX-License-Identifier: BSD-2-Clause */
/* key.h -- the commands on keys and their values. */
#ifndef CLIENT_CLI_COMMAND_KEY_H
#define CLIENT_CLI_COMMAND_KEY_H

#include "client/cli/command/command.h"

/* key.c */
extern const struct cli_command cli_put, cli_del, cli_exists;

/* get.c */
extern const struct cli_command cli_get, cli_ttl;

/* change.c */
extern const struct cli_command cli_incr, cli_decr, cli_append, cli_prepend, cli_touch;

/* keys.c */
extern const struct cli_command cli_keys, cli_flush;

/* txn.c */
extern const struct cli_command cli_txn;

#endif

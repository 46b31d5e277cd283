/* SPDX-License-Identifier: BSD-2-Clause */
/* lock.h -- the commands that run another program while they hold a lock. */
#ifndef CLIENT_CLI_COMMAND_LOCK_H
#define CLIENT_CLI_COMMAND_LOCK_H

#include "client/cli/command/command.h"

extern const struct cli_command cli_lock, cli_update;

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* parse.h -- a line to a command: which protocol it is of.  Any thread. */
#ifndef FRONT_PROTOCOL_PARSE_H
#define FRONT_PROTOCOL_PARSE_H

#include "front/protocol/command.h"

/* Parses a line without its end.  What is wrong with it is in the command. */
void parse_command(struct command *command, const char *line, size_t bytes,
		   const struct command_rules *rules);

#endif

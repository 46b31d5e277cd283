/* SPDX-License-Identifier: BSD-2-Clause */
/* text.h -- inside parse.c: commands of the text protocol. */
#ifndef FRONT_PROTOCOL_TEXT_H
#define FRONT_PROTOCOL_TEXT_H

#include "front/protocol/command.h"

/* `end`: of the line. */
void text_parse(struct command *command, const struct words *words, const char *end,
		const struct command_rules *rules);

#endif

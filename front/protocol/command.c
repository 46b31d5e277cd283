/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/protocol/command.h"

#include <string.h>

const char command_bad_format[] = "CLIENT_ERROR bad command line format";

void command_fail(struct command *command, const char *error)
{
	command->verb = VERB_NONE;
	command->error = command->quiet ? NULL : error;
}

bool command_is_unbound(const char *line, size_t bytes)
{
	const char *at = line, *end = line + bytes;

	while (at < end && *at == ' ' && at - line <= 100)
		at++;
	size_t left = (size_t)(end - at);
	return at - line <= 100 && ((left >= 4 && !memcmp(at, "get ", 4)) ||
				    (left >= 5 && !memcmp(at, "gets ", 5)));
}

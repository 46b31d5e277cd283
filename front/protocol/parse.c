/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/protocol/parse.h"

#include "front/protocol/meta.h"
#include "front/protocol/text.h"

void parse_command(struct command *command, const char *line, size_t bytes,
		   const struct command_rules *rules)
{
	struct words words;

	words_split(&words, line, bytes);
	*command = (struct command){ .rest = line + bytes };
	if (!words.count)
		command_fail(command, "ERROR");
	else if (words.word[0].bytes == 2 && *words.word[0].at == 'm')
		meta_parse(command, &words);
	else
		text_parse(command, &words, line + bytes, rules);
}

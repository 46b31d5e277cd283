/* SPDX-License-Identifier: BSD-2-Clause */
/* source.h -- a value that a command stores, a word of its line, standard input or a file, and
 * for how long. */
#ifndef CLIENT_CLI_SESSION_SOURCE_H
#define CLIENT_CLI_SESSION_SOURCE_H

#include "client/cli/file/value.h"
#include "client/cli/session/cli.h"
#include "client/cli/text/word.h"

struct cli_source {
	const void *data; /* of the word, or of `value` */
	size_t bytes;
	struct cli_value value;
};

/*
 * The value of `command`: `word` (NULL: none was given), where "-" that is not literal is
 * standard input to its end, or the contents of the file that `path` names (NULL: none).
 * CLI_DONE, or the status after the error was told.  Ended by cli_source_free().
 */
int cli_source_load(struct cli *cli, struct cli_source *source, const char *command,
		    const struct cli_word *word, const struct cli_word *path);
void cli_source_free(struct cli_source *source);

/* The time to live that an option or a word says; false: it is told what is wrong with `what`. */
bool cli_source_ttl(struct cli *cli, const char *what, const struct cli_word *word,
		    uint64_t *ttl_ms);

#endif

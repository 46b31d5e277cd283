/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/session/source.h"

#include <stdlib.h>

#include "client/cli/session/answer.h"
#include "client/cli/text/args.h"

static int load_file(struct cli *cli, struct cli_source *source, const char *command,
		     const struct cli_word *word)
{
	char *path = cli_word_string(word);
	int error;

	if (!path)
		return cli_fail(cli, CLI_USAGE, "a path can't hold a zero byte");
	error = cli_value_load(&source->value, path);
	if (error)
		cli_fail(cli, CLI_USAGE, "%s --file %s: %s", command, path, cli_value_error(error));
	free(path);
	return error ? CLI_USAGE : CLI_DONE;
}

static int load_input(struct cli *cli, struct cli_source *source, const char *command)
{
	int error;

	if (cli->shell)
		return cli_fail(cli, CLI_USAGE, "%s: commands come from standard input here; "
				"use --file PATH, or '-' in quotes for that value", command);
	error = cli_value_read(&source->value, 0);
	return error ? cli_fail(cli, CLI_USAGE, "the value on standard input: %s",
				cli_value_error(error))
		     : CLI_DONE;
}

int cli_source_load(struct cli *cli, struct cli_source *source, const char *command,
		    const struct cli_word *word, const struct cli_word *path)
{
	int status;

	*source = (struct cli_source){ 0 };
	if (word && path)
		return cli_fail(cli, CLI_USAGE, "%s: give a value or --file PATH, not both", command);
	if (!word && !path)
		return cli_fail(cli, CLI_USAGE, "%s: no value; give one, or --file PATH, or - for "
				"standard input", command);
	if (word && !cli_word_is(word, "-")) {
		source->data = word->data;
		source->bytes = word->bytes;
		return CLI_DONE;
	}
	status = path ? load_file(cli, source, command, path) : load_input(cli, source, command);
	source->data = source->value.data;
	source->bytes = source->value.bytes;
	return status;
}

void cli_source_free(struct cli_source *source)
{
	cli_value_free(&source->value);
}

bool cli_source_ttl(struct cli *cli, const char *what, const struct cli_word *word, uint64_t *ttl_ms)
{
	if (cli_args_ttl(word, KVD_TTL_MS_MAX, ttl_ms))
		return true;
	cli_fail(cli, CLI_USAGE, "%s wants a time from 1ms to 36500d, as 30, 1.5s, 500ms, 10m, 12h, "
		 "7d", what);
	return false;
}

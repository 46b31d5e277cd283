/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands on many keys. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/command/key.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/session.h"
#include "client/cli/text/json.h"
#include "client/cli/text/word.h"

enum { FLUSH_YES };

static const struct cli_option flush_options[] = {
	[FLUSH_YES] = { "yes", 'y', NULL, "don't ask" },
	{ 0 },
};

enum { KEYS_PREFIX, KEYS_LONG, KEYS_NULL };

static const struct cli_option keys_options[] = {
	[KEYS_PREFIX] = { "prefix", 'p', "P", "only keys that begin with P" },
	[KEYS_LONG] = { "long", 'l', NULL, "with the length of each value" },
	[KEYS_NULL] = { "null", '0', NULL, "keys raw, a zero byte after each" },
	{ 0 },
};

struct listing {
	bool with_bytes, zero_ended;
};

/* One that is no plain text, or looks like a quoted one, is quoted: so every line
 * is one key. */
static void key_write(const char *key, size_t key_bytes)
{
	bool plain = cli_word_is_text(key, key_bytes, false) && key[0] != '"';

	if (plain)
		fwrite(key, 1, key_bytes, stdout);
	else
		cli_word_quote(stdout, key, key_bytes);
}

static int key_line(void *arg, const void *key, size_t key_bytes, uint64_t value_bytes)
{
	const struct listing *listing = arg;

	if (listing->with_bytes)
		printf("%12" PRIu64 "  ", value_bytes);
	if (listing->zero_ended)
		fwrite(key, 1, key_bytes, stdout);
	else
		key_write(key, key_bytes);
	putchar(listing->zero_ended ? '\0' : '\n');
	return ferror(stdout);
}

static int run_keys(struct cli *cli, const struct cli_args *args)
{
	const struct cli_word *prefix = &args->option[KEYS_PREFIX];
	struct listing listing = { args->given[KEYS_LONG], args->given[KEYS_NULL] };
	int result, status;
	kvd_session *session = cli_connect(cli, &status);

	if (!session)
		return status;
	result = kvd_keys(session, prefix->bytes ? prefix->data : "", prefix->bytes, key_line,
			  &listing);
	return result < 0 ? cli_fail_session(cli, result) : CLI_DONE;
}

const struct cli_command cli_keys = {
	.name = "keys",
	.arguments = "",
	.summary = "list keys",
	.help = "Prints keys, one a line, in no order. A key that is no plain text or begins\n"
		"with \" is quoted as the shell of kvcli reads it. A key may be printed twice\n"
		"while keys come and go: use sort -u.",
	.options = keys_options,
	.run = run_keys,
};

static void take_keys(void *arg, const char *path, const char *value)
{
	if (strcmp(path, "keys") == 0)
		snprintf(arg, 32, "%.31s", value);
}

/* How many keys there are, as text; "" if that can't be learnt. */
static void count_keys(kvd_session *session, char count[32])
{
	char *json;

	count[0] = '\0';
	if (kvd_stats(session, &json) < 0)
		return;
	cli_json_each(json, take_keys, count);
	free(json);
}

static bool confirm(struct cli *cli, kvd_session *session)
{
	char count[32], answer[16];

	count_keys(session, count);
	fprintf(stderr, "Delete all %s%skeys of %s? [y/N] ", count, *count ? " " : "", cli->server);
	fflush(stderr);
	if (!fgets(answer, sizeof answer, stdin)) {
		fputc('\n', stderr);
		return false;
	}
	return strcmp(answer, "y\n") == 0 || strcmp(answer, "yes\n") == 0;
}

static int run_flush(struct cli *cli, const struct cli_args *args)
{
	bool yes = args->given[FLUSH_YES];
	int result, status;
	kvd_session *session;

	if (!yes && !isatty(0))
		return cli_fail(cli, CLI_USAGE, "flush deletes every key, and nobody can be asked "
						"here. Nothing was deleted. --yes deletes them");
	session = cli_connect(cli, &status);
	if (!session)
		return status;
	if (!yes && !confirm(cli, session)) {
		puts("nothing was deleted");
		return CLI_FALSE;
	}
	result = kvd_flush(session);
	return result < 0 ? cli_fail_session(cli, result) : cli_ok(cli);
}

const struct cli_command cli_flush = {
	.name = "flush",
	.arguments = "",
	.summary = "delete every key",
	.help = "Deletes every key. On a terminal it asks first. Elsewhere it wants --yes.",
	.options = flush_options,
	.run = run_flush,
};

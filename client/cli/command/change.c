/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands that change a value where it is: incr, decr, append, prepend, touch. */
#include <inttypes.h>
#include <stdio.h>

#include "client/cli/command/key.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/session.h"
#include "client/cli/session/source.h"
#include "client/cli/text/word.h"

/* ------------------------------------------------------------- incr, decr */

enum { INCR_TTL };

static const struct cli_option incr_options[] = {
	[INCR_TTL] = { "ttl", 't', "TIME", "a key that this makes lives so long" },
	{ 0 },
};

static int add(struct cli *cli, const struct cli_args *args, const char *command, int sign)
{
	struct kvd_change change = { .size = sizeof change };
	const struct cli_word *key = &args->operand[0];
	int64_t amount = 1, number, zero = 0;
	kvd_session *session;
	int result, status;

	if (args->count > 1 && (!cli_args_integer(&args->operand[1], &amount) ||
				(sign < 0 && amount == INT64_MIN)))
		return cli_fail(cli, CLI_USAGE, "%s: the amount is a whole number of 64 bits, as 1 or "
				"-20", command);
	if (args->given[INCR_TTL] &&
	    !cli_source_ttl(cli, "--ttl", &args->option[INCR_TTL], &change.ttl_ms))
		return CLI_USAGE;
	session = cli_connect(cli, &status);
	if (!session)
		return status;
	result = kvd_incr(session, key->data, key->bytes, sign * amount, &zero, &change, &number);
	if (result < 0)
		return cli_fail_session(cli, result);
	printf("%" PRId64 "\n", number);
	return CLI_DONE;
}

static int run_incr(struct cli *cli, const struct cli_args *args)
{
	return add(cli, args, "incr", 1);
}

static int run_decr(struct cli *cli, const struct cli_args *args)
{
	return add(cli, args, "decr", -1);
}

const struct cli_command cli_incr = {
	.name = "incr",
	.arguments = "KEY [N]",
	.summary = "add to a number",
	.help = "Adds N, or 1, to a number and prints the sum. It is kept as decimal text. An\n"
		"absent key counts as 0. Whoever else counts meanwhile, no step is lost.",
	.options = incr_options,
	.operands_min = 1,
	.operands_max = 2,
	.run = run_incr,
};

const struct cli_command cli_decr = {
	.name = "decr",
	.arguments = "KEY [N]",
	.summary = "subtract from a number",
	.help = "Takes N, or 1, from a number and prints what is left, which may be negative.",
	.options = incr_options,
	.operands_min = 1,
	.operands_max = 2,
	.run = run_decr,
};

/* -------------------------------------------------------- append, prepend */

enum { APPEND_FILE, APPEND_TTL };

static const struct cli_option append_options[] = {
	[APPEND_FILE] = { "file", 'f', "PATH", "the contents of this file" },
	[APPEND_TTL] = { "ttl", 't', "TIME", "a key that this makes lives so long" },
	{ 0 },
};

typedef int join_fn(kvd_session *session, const void *key, size_t key_bytes, const void *value,
		    size_t value_bytes, const struct kvd_change *change, size_t *total_bytes);

static int join(struct cli *cli, const struct cli_args *args, const char *command, join_fn *call)
{
	struct kvd_change change = { .size = sizeof change };
	const struct cli_word *key = &args->operand[0];
	struct cli_source source;
	kvd_session *session;
	int result, status;

	if (args->given[APPEND_TTL] &&
	    !cli_source_ttl(cli, "--ttl", &args->option[APPEND_TTL], &change.ttl_ms))
		return CLI_USAGE;
	status = cli_source_load(cli, &source, command, args->count > 1 ? &args->operand[1] : NULL,
				 args->given[APPEND_FILE] ? &args->option[APPEND_FILE] : NULL);
	if (status != CLI_DONE)
		return status;
	session = cli_connect(cli, &status);
	if (session) {
		result = call(session, key->data, key->bytes, source.data, source.bytes, &change, NULL);
		status = result < 0 ? cli_fail_session(cli, result) : cli_ok(cli);
	}
	cli_source_free(&source);
	return status;
}

static int run_append(struct cli *cli, const struct cli_args *args)
{
	return join(cli, args, "append", kvd_append);
}

static int run_prepend(struct cli *cli, const struct cli_args *args)
{
	return join(cli, args, "prepend", kvd_prepend);
}

const struct cli_command cli_prepend = {
	.name = "prepend",
	.arguments = "KEY VALUE | KEY - | KEY --file PATH",
	.summary = "put before a value",
	.help = "Puts something before a value. An absent key is made. The value - stands for\n"
		"standard input. A key that is there keeps its time to live.",
	.options = append_options,
	.operands_min = 1,
	.operands_max = 2,
	.run = run_prepend,
};

const struct cli_command cli_append = {
	.name = "append",
	.arguments = "KEY VALUE | KEY - | KEY --file PATH",
	.summary = "append to a value",
	.help = "Appends to a value. An absent key is made. The value - stands for standard\n"
		"input. A key that is there keeps its time to live.",
	.options = append_options,
	.operands_min = 1,
	.operands_max = 2,
	.run = run_append,
};

/* ----------------------------------------------------------------- touch */

static int run_touch(struct cli *cli, const struct cli_args *args)
{
	const struct cli_word *key = &args->operand[0], *time = &args->operand[1];
	kvd_session *session;
	uint64_t ttl_ms = 0;
	int result, status;

	if (!cli_word_is(time, "never") && !cli_source_ttl(cli, "touch", time, &ttl_ms))
		return CLI_USAGE;
	session = cli_connect(cli, &status);
	if (!session)
		return status;
	result = kvd_touch(session, key->data, key->bytes, ttl_ms);
	if (result < 0)
		return cli_fail_session(cli, result);
	return result == KVD_OK ? cli_ok(cli) : cli_not_found(cli, key->data, key->bytes);
}

const struct cli_command cli_touch = {
	.name = "touch",
	.arguments = "KEY TIME",
	.summary = "give a new time to live",
	.help = "The key expires when TIME is over: 30, 1.5s, 500ms, 10m, 12h, 7d; or never.\n"
		"The value stays what it is.",
	.operands_min = 2,
	.operands_max = 2,
	.run = run_touch,
};

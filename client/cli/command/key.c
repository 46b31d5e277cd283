/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands on single keys: put, del, exists. */
#include <stdint.h>
#include <stdio.h>

#include "client/cli/command/key.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/large.h"
#include "client/cli/session/session.h"
#include "client/cli/session/source.h"
#include "client/cli/text/word.h"

enum { PUT_FILE, PUT_TTL, PUT_IF_ABSENT, PUT_IF_PRESENT, PUT_IF_VERSION, PUT_FLAGS };

static const struct cli_option put_options[] = {
	[PUT_FILE] = { "file", 'f', "PATH", "the value is the contents of this file" },
	[PUT_TTL] = { "ttl", 't', "TIME", "it expires then: 30, 1.5s, 500ms, 10m, 12h, 7d" },
	[PUT_IF_ABSENT] = { "if-absent", 0, NULL, "only if there is no such key" },
	[PUT_IF_PRESENT] = { "if-present", 0, NULL, "only if there is one" },
	[PUT_IF_VERSION] = { "if-version", 0, "N", "only if it has this version (get --json)" },
	[PUT_FLAGS] = { "flags", 0, "N", "32 bits that are kept with the value (get --json)" },
	{ 0 },
};

/* What the options of a put say; false: it is told what is wrong. */
static bool take_change(struct cli *cli, const struct cli_args *args, struct kvd_change *change)
{
	uint64_t flags = 0;

	*change = (struct kvd_change){ .size = sizeof *change };
	if (args->given[PUT_IF_ABSENT] + args->given[PUT_IF_PRESENT] + args->given[PUT_IF_VERSION] > 1) {
		cli_fail(cli, CLI_USAGE, "put: one condition at the most");
		return false;
	}
	if (args->given[PUT_IF_VERSION] &&
	    !cli_args_number(&args->option[PUT_IF_VERSION], 1, UINT64_MAX, &change->version)) {
		cli_fail(cli, CLI_USAGE, "put --if-version wants a version, as get --json prints it");
		return false;
	}
	if (args->given[PUT_FLAGS] &&
	    !cli_args_number(&args->option[PUT_FLAGS], 0, UINT32_MAX, &flags)) {
		cli_fail(cli, CLI_USAGE, "put --flags wants a number of 32 bits, 0 to 4294967295");
		return false;
	}
	change->flags = (uint32_t)flags;
	change->condition = args->given[PUT_IF_ABSENT]	? KVD_IF_ABSENT :
			    args->given[PUT_IF_PRESENT] ? KVD_IF_PRESENT :
			    args->given[PUT_IF_VERSION] ? KVD_IF_VERSION :
							  KVD_ALWAYS;
	return !args->given[PUT_TTL] ||
	       cli_source_ttl(cli, "put --ttl", &args->option[PUT_TTL], &change->ttl_ms);
}

static int put(struct cli *cli, const struct cli_word *key, const struct cli_source *source,
	       const struct kvd_change *change)
{
	int result, status;
	kvd_session *session = cli_connect(cli, &status);
	uint64_t version;

	if (!session)
		return status;
	result = cli_large_put(session, key->data, key->bytes, source->data, source->bytes, change,
			       &version);
	if (result < 0)
		return cli_fail_session(cli, result);
	return result == KVD_OK ? cli_ok(cli) : cli_refused(cli, key->data, key->bytes, version);
}

static int run_put(struct cli *cli, const struct cli_args *args)
{
	struct kvd_change change;
	struct cli_source source;
	int status;

	if (!take_change(cli, args, &change))
		return CLI_USAGE;
	status = cli_source_load(cli, &source, "put", args->count > 1 ? &args->operand[1] : NULL,
				 args->given[PUT_FILE] ? &args->option[PUT_FILE] : NULL);
	if (status != CLI_DONE)
		return status;
	status = put(cli, &args->operand[0], &source, &change);
	cli_source_free(&source);
	return status;
}

const struct cli_command cli_put = {
	.name = "put",
	.arguments = "KEY VALUE | KEY - | KEY --file PATH",
	.summary = "store a value",
	.help = "Stores a value. It replaces the old one. The value - stands for standard input,\n"
		"to its end. To store a single -, write: put -- KEY -\n"
		"With a condition that is false nothing is done, and the status is 1.",
	.options = put_options,
	.operands_min = 1,
	.operands_max = 2,
	.run = run_put,
};

static int run_del(struct cli *cli, const struct cli_args *args)
{
	int worst = CLI_DONE, status;
	kvd_session *session = cli_connect(cli, &status);

	if (!session)
		return status;
	for (size_t i = 0; i < args->count; i++) {
		const struct cli_word *key = &args->operand[i];
		int result = kvd_del(session, key->data, key->bytes);
		if (result < 0)
			status = cli_fail_session(cli, result);
		else if (result == KVD_OK)
			status = cli_ok(cli);
		else
			status = cli_not_found(cli, key->data, key->bytes);
		worst = status > worst ? status : worst;
	}
	return worst;
}

const struct cli_command cli_del = {
	.name = "del",
	.arguments = "KEY...",
	.summary = "delete keys",
	.help = "Deletes keys. The status is 1 if one of them was not there.",
	.operands_min = 1,
	.operands_max = SIZE_MAX,
	.run = run_del,
};

static int run_exists(struct cli *cli, const struct cli_args *args)
{
	const struct cli_word *key = &args->operand[0];
	int result, status;
	kvd_session *session = cli_connect(cli, &status);

	if (!session)
		return status;
	result = kvd_exists(session, key->data, key->bytes, NULL);
	if (result < 0)
		return cli_fail_session(cli, result);
	puts(result == KVD_OK ? "yes" : "no");
	return cli_status(result);
}

const struct cli_command cli_exists = {
	.name = "exists",
	.arguments = "KEY",
	.summary = "tell if a key is there",
	.help = "Prints yes, with status 0, or no, with status 1.",
	.operands_min = 1,
	.operands_max = 1,
	.run = run_exists,
};

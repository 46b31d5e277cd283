/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands on single keys. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/cli/command/key.h"
#include "client/cli/file/value.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/session.h"
#include "client/cli/text/word.h"

enum { GET_OUTPUT };

static const struct cli_option get_options[] = {
	[GET_OUTPUT] = { "output", 'o', "PATH", "write the value to this file, whole or not" },
	{ 0 },
};

enum { PUT_FILE };

static const struct cli_option put_options[] = {
	[PUT_FILE] = { "file", 'f', "PATH", "the value is the contents of this file" },
	{ 0 },
};

/* The path that an option names; NULL after a failure. */
static char *path_new(struct cli *cli, const struct cli_word *word)
{
	char *path = cli_word_string(word);

	if (!path)
		cli_fail(cli, CLI_USAGE, "a path can't hold a zero byte");
	return path;
}

static int put_bytes(struct cli *cli, const struct cli_word *key, const void *data, size_t bytes)
{
	int result, status;
	kvd_session *session = cli_connect(cli, &status);

	if (!session)
		return status;
	result = kvd_put(session, key->data, key->bytes, data, bytes, NULL);
	return result < 0 ? cli_fail_session(cli, result) : cli_ok(cli);
}

static int put_file(struct cli *cli, const struct cli_word *key, const struct cli_word *word)
{
	struct cli_value value;
	char *path = path_new(cli, word);
	int error, status;

	if (!path)
		return CLI_USAGE;
	error = cli_value_load(&value, path);
	if (error) {
		status = cli_fail(cli, CLI_USAGE, "put --file %s: %s", path,
				  cli_value_error(error));
	} else {
		status = put_bytes(cli, key, value.data, value.bytes);
		cli_value_free(&value);
	}
	free(path);
	return status;
}

static int put_input(struct cli *cli, const struct cli_word *key)
{
	struct cli_value value;
	int error, status;

	if (cli->shell)
		return cli_fail(cli, CLI_USAGE, "put: commands come from standard input here; "
				"use --file PATH, or '-' in quotes for that value");
	error = cli_value_read(&value, 0);
	if (error)
		return cli_fail(cli, CLI_USAGE, "the value on standard input: %s",
				cli_value_error(error));
	status = put_bytes(cli, key, value.data, value.bytes);
	cli_value_free(&value);
	return status;
}

static int run_put(struct cli *cli, const struct cli_args *args)
{
	const struct cli_word *key = &args->operand[0], *value = &args->operand[1];

	if (args->given[PUT_FILE]) {
		if (args->count > 1)
			return cli_fail(cli, CLI_USAGE,
					"put: give a value or --file PATH, not both");
		return put_file(cli, key, &args->option[PUT_FILE]);
	}
	if (args->count < 2)
		return cli_fail(cli, CLI_USAGE,
				"put: no value; give one, or --file PATH, or - for standard input");
	if (cli_word_is(value, "-"))
		return put_input(cli, key);
	return put_bytes(cli, key, value->data, value->bytes);
}

const struct cli_command cli_put = {
	.name = "put",
	.arguments = "KEY VALUE | KEY - | KEY --file PATH",
	.summary = "store a value",
	.help = "Stores a value. It replaces the old one. The value - stands for standard input,\n"
		"to its end. To store a single -, write: put -- KEY -",
	.options = put_options,
	.operands_min = 1,
	.operands_max = 2,
	.run = run_put,
};

static int get_answer(struct cli *cli, const struct cli_args *args, const void *data, size_t bytes)
{
	const struct cli_word *output = &args->option[GET_OUTPUT];
	char *path;
	int error, status;

	if (!args->given[GET_OUTPUT] || (output->bytes == 1 && output->data[0] == '-'))
		return cli_value_answer(cli, data, bytes);
	path = path_new(cli, output);
	if (!path)
		return CLI_USAGE;
	error = cli_value_save(data, bytes, path);
	status = error ? cli_fail(cli, CLI_USAGE, "get --output %s: %s", path,
				  cli_value_error(error)) : cli_ok(cli);
	free(path);
	return status;
}

static int run_get(struct cli *cli, const struct cli_args *args)
{
	const struct cli_word *key = &args->operand[0];
	int result, status;
	kvd_session *session = cli_connect(cli, &status);
	size_t bytes;
	void *data;

	if (!session)
		return status;
	result = kvd_get_alloc(session, key->data, key->bytes, &data, &bytes, NULL);
	if (result < 0)
		return cli_fail_session(cli, result);
	if (result != KVD_OK)
		return cli_not_found(cli, key->data, key->bytes);
	status = get_answer(cli, args, data, bytes);
	free(data);
	return status;
}

const struct cli_command cli_get = {
	.name = "get",
	.arguments = "KEY",
	.summary = "print a value",
	.help = "Prints the value as it is, and adds nothing. A terminal gets it quoted if it is\n"
		"no plain text. With --output the file is replaced once all of it is written.",
	.options = get_options,
	.operands_min = 1,
	.operands_max = 1,
	.run = run_get,
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

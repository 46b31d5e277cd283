/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands that read values: get, ttl. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/cli/command/key.h"
#include "client/cli/file/value.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/interrupt.h"
#include "client/cli/session/large.h"
#include "client/cli/session/session.h"
#include "client/cli/session/window.h"
#include "client/cli/text/json_write.h"
#include "client/cli/text/word.h"

/* Many keys are in flight at once, and answered in their order. */
struct reading {
	struct cli *cli;
	bool json;
	int worst;
};

static int read_keys(struct cli *cli, const struct cli_args *args, bool json,
		     void (*answer)(void *arg, const struct cli_answer *answer))
{
	struct reading reading = { cli, json, CLI_DONE };
	struct cli_window *window;
	int status;

	if (!cli_connect(cli, &status))
		return status;
	window = cli_window_new(cli, answer, &reading);
	if (!window)
		return cli_fail(cli, CLI_USAGE, "no memory for %zu keys", args->count);
	for (size_t i = 0; i < args->count && !ferror(stdout) && !cli_interrupted(); i++)
		cli_window_get(window, args->operand[i].data, args->operand[i].bytes, NULL);
	cli_window_drain(window);
	cli_window_delete(&window);
	return reading.worst;
}

static void note(struct reading *reading, int status)
{
	reading->worst = status > reading->worst ? status : reading->worst;
}

/* -------------------------------------------------------------------- get */

enum { GET_OUTPUT, GET_JSON };

static const struct cli_option get_options[] = {
	[GET_OUTPUT] = { "output", 'o', "PATH", "write the value to this file, whole or not" },
	[GET_JSON] = { "json", 'j', NULL, "a line for each key: version, time to live, flags" },
	{ 0 },
};

/* import reads this too. */
static int print_json(const struct cli_answer *answer)
{
	struct cli_json json = { .to = stdout };

	cli_json_open(&json, NULL, '{');
	cli_json_bytes(&json, "key", answer->key, answer->key_bytes);
	if (answer->result == KVD_OK) {
		cli_json_bytes(&json, "value", answer->value, answer->value_bytes);
		cli_json_number(&json, "version", answer->version);
		if (answer->ttl_ms)
			cli_json_number(&json, "ttl_ms", answer->ttl_ms);
		if (answer->flags)
			cli_json_number(&json, "flags", answer->flags);
		if (answer->signs & KVD_STALE)
			cli_json_bool(&json, "stale", true);
		if (answer->signs & KVD_CLAIMED)
			cli_json_bool(&json, "claimed", true);
	} else {
		cli_json_null(&json, "value");
	}
	cli_json_end(&json);
	return cli_status(answer->result);
}

static void answer_get(void *arg, const struct cli_answer *answer)
{
	struct reading *reading = arg;
	struct cli *cli = reading->cli;

	if (answer->result < 0)
		note(reading, cli_fail(cli, cli_status(answer->result), "%s", answer->error));
	else if (reading->json)
		note(reading, print_json(answer));
	else if (answer->result == KVD_NOT_FOUND)
		note(reading, cli_not_found(cli, answer->key, answer->key_bytes));
	else
		note(reading, cli_value_answer(cli, answer->value, answer->value_bytes));
}

/* `output`: NULL for standard output. */
static int answer_one(struct cli *cli, const struct cli_word *output, const void *data, size_t bytes)
{
	char *path;
	int error, status;

	if (!output || cli_word_is(&(struct cli_word){ output->data, output->bytes, false }, "-"))
		return cli_value_answer(cli, data, bytes);
	path = cli_word_string(output);
	if (!path)
		return cli_fail(cli, CLI_USAGE, "a path can't hold a zero byte");
	error = cli_value_save(data, bytes, path);
	status = error ? cli_fail(cli, CLI_USAGE, "get --output %s: %s", path,
				  cli_value_error(error)) : cli_ok(cli);
	free(path);
	return status;
}

static int get_one(struct cli *cli, const struct cli_word *key, const struct cli_word *output)
{
	int result, status;
	kvd_session *session = cli_connect(cli, &status);
	size_t bytes;
	void *data;

	if (!session)
		return status;
	result = cli_large_get(session, key->data, key->bytes, &data, &bytes);
	if (result < 0)
		return cli_fail_session(cli, result);
	if (result != KVD_OK)
		return cli_not_found(cli, key->data, key->bytes);
	status = answer_one(cli, output, data, bytes);
	free(data);
	return status;
}

static int run_get(struct cli *cli, const struct cli_args *args)
{
	bool json = args->given[GET_JSON], output = args->given[GET_OUTPUT];

	if (output && (json || args->count > 1))
		return cli_fail(cli, CLI_USAGE, "get: --output takes one value as it is; for %s, send "
				"standard output to a file", json ? "JSON" : "several");
	if (!json && args->count == 1)
		return get_one(cli, &args->operand[0], output ? &args->option[GET_OUTPUT] : NULL);
	return read_keys(cli, args, json, answer_get);
}

const struct cli_command cli_get = {
	.name = "get",
	.arguments = "KEY...",
	.summary = "print values",
	.help = "Prints values as they are, one behind the other, and adds nothing. A terminal\n"
		"gets them quoted if they are no plain text. With --output the file is replaced\n"
		"once all of the value is written. The status is 1 if a key is not there.",
	.options = get_options,
	.operands_min = 1,
	.operands_max = SIZE_MAX,
	.run = run_get,
};

/* -------------------------------------------------------------------- ttl */

enum { TTL_JSON };

static const struct cli_option ttl_options[] = {
	[TTL_JSON] = { "json", 'j', NULL, "as a JSON object" },
	{ 0 },
};

static void print_ttl_json(const struct cli_word *key, uint64_t ttl_ms)
{
	struct cli_json json = { .to = stdout };

	cli_json_open(&json, NULL, '{');
	cli_json_bytes(&json, "key", key->data, key->bytes);
	if (ttl_ms)
		cli_json_number(&json, "ttl_ms", ttl_ms);
	else
		cli_json_null(&json, "ttl_ms");
	cli_json_end(&json);
}

static int run_ttl(struct cli *cli, const struct cli_args *args)
{
	const struct cli_word *key = &args->operand[0];
	struct kvd_info info = { .size = sizeof info };
	int result, status;
	kvd_session *session = cli_connect(cli, &status);

	if (!session)
		return status;
	result = kvd_get_info(session, key->data, key->bytes, NULL, 0, &info);
	if (result < 0 && result != KVD_ESPACE)
		return cli_fail_session(cli, result);
	if (result == KVD_NOT_FOUND)
		return cli_not_found(cli, key->data, key->bytes);
	if (args->given[TTL_JSON])
		print_ttl_json(key, info.ttl_ms);
	else if (info.ttl_ms)
		printf("%" PRIu64 ".%03" PRIu64 "s\n", info.ttl_ms / 1000, info.ttl_ms % 1000);
	else
		puts("never");
	return CLI_DONE;
}

const struct cli_command cli_ttl = {
	.name = "ttl",
	.arguments = "KEY",
	.summary = "print the time to live",
	.help = "Prints when the key expires, as 29.874s from now, or never.",
	.options = ttl_options,
	.operands_min = 1,
	.operands_max = 1,
	.run = run_ttl,
};

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command txn: a batch of gets, puts, deletes and checks, all or nothing.
 *
 * All of the batch is parsed before anything is done.  Then each attempt does it from
 * the start: gets and checks read, puts and deletes are kept, and the commit sends all
 * of it.  If a key that was read has changed meanwhile nothing took place, and there is
 * another attempt, until the time-out.  Values that were got are printed once it is
 * through.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/command/key.h"
#include "client/cli/file/value.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/session.h"
#include "client/cli/text/word.h"

#define ROOM_MIN 4096u

/* Nothing took place: try again. */
#define AGAIN (-1)

enum step_kind { STEP_GET, STEP_PUT, STEP_DEL, STEP_CHECK, STEP_PRESENT, STEP_ABSENT };

struct step {
	enum step_kind kind;
	struct cli_word key, value; /* in `line` */
	char *line;
	struct cli_value got; /* of a get; data is NULL: not found */
	bool found;
};

struct batch {
	struct step *step;
	size_t count, room;
	struct cli_value input; /* what was read from standard input */
	uint8_t *buffer;        /* for values */
	size_t buffer_room;
};

static const struct {
	const char *name;
	size_t words;
	enum step_kind kind;
} forms[] = {
	{ "get", 2, STEP_GET },     { "put", 3, STEP_PUT },        { "del", 2, STEP_DEL },
	{ "check", 3, STEP_CHECK }, { "present", 2, STEP_PRESENT }, { "absent", 2, STEP_ABSENT },
};

/* ------------------------------------------------------------------- parsing */

static int add_step(struct cli *cli, struct batch *b, const struct cli_words *words, char *line)
{
	char shown[80];

	for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
		if (!cli_word_is(&words->word[0], forms[i].name) || words->count != forms[i].words)
			continue;
		b->step[b->count++] = (struct step){
			.kind = forms[i].kind,
			.key = words->word[1],
			.value = words->count > 2 ? words->word[2] : (struct cli_word){ "", 0, true },
			.line = line,
		};
		return CLI_DONE;
	}
	return cli_fail(cli, CLI_USAGE,
			"txn: %s with %zu words behind it is no operation; there are get KEY, put KEY "
			"VALUE, del KEY, check KEY VALUE, present KEY, absent KEY",
			cli_word_show(words->word[0].data, words->word[0].bytes, shown, sizeof shown),
			words->count - 1);
}

static bool make_room(struct batch *b)
{
	size_t room = 2 * b->room + 16;
	struct step *step;

	if (b->count < b->room)
		return true;
	step = realloc(b->step, room * sizeof *step);
	if (!step)
		return false;
	b->step = step;
	b->room = room;
	return true;
}

/* One line of the batch, which is copied. */
static int parse_line(struct cli *cli, struct batch *b, const char *text, size_t bytes)
{
	struct cli_words words = { 0 };
	char error[160], *line = malloc(bytes + 1);
	int status = CLI_DONE;

	if (!line || !make_room(b)) {
		free(line);
		return cli_fail(cli, CLI_USAGE, "txn: no memory for the batch");
	}
	memcpy(line, text, bytes);
	line[bytes] = '\0';
	if (!cli_word_split(&words, line, bytes, error, sizeof error))
		status = cli_fail(cli, CLI_USAGE, "txn: %s", error);
	else if (words.count > 0 && words.word[0].data[0] != '#')
		status = add_step(cli, b, &words, line);
	if (b->count == 0 || b->step[b->count - 1].line != line)
		free(line);
	cli_words_free(&words);
	return status;
}

static int parse_input(struct cli *cli, struct batch *b)
{
	int status = CLI_DONE, error;

	if (cli->shell)
		return cli_fail(cli, CLI_USAGE, "txn: in a shell its lines are its words: "
						"txn 'check a 1' 'put a 2'");
	error = cli_value_read(&b->input, STDIN_FILENO);
	if (error)
		return cli_fail(cli, CLI_USAGE, "standard input: %s", cli_value_error(error));
	const char *at = b->input.data, *end = at + b->input.bytes;
	while (at < end && status == CLI_DONE) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *to = newline ? newline : end;
		status = parse_line(cli, b, at, (size_t)(to - at));
		at = to + 1;
	}
	return status;
}

static int parse(struct cli *cli, struct batch *b, const struct cli_args *args)
{
	int status = CLI_DONE;

	if (args->count == 0)
		return parse_input(cli, b);
	for (size_t i = 0; i < args->count && status == CLI_DONE; i++)
		status = parse_line(cli, b, args->operand[i].data, args->operand[i].bytes);
	return status;
}

static void clear(struct batch *b)
{
	for (size_t i = 0; i < b->count; i++) {
		cli_value_free(&b->step[i].got);
		free(b->step[i].line);
	}
	free(b->step);
	free(b->buffer);
	cli_value_free(&b->input);
}

/* ----------------------------------------------------------------- execution */

static bool grow_buffer(struct batch *b, size_t bytes)
{
	size_t room = bytes > ROOM_MIN ? bytes : ROOM_MIN;
	uint8_t *buffer = malloc(room);

	if (!buffer)
		return false;
	free(b->buffer);
	b->buffer = buffer;
	b->buffer_room = room;
	return true;
}

/* The value of the step's key into b->buffer: a KVD_ result. */
static int read_key(struct batch *b, kvd_txn_t *txn, const struct step *s, size_t *bytes)
{
	int result = KVD_ESPACE;

	*bytes = 0;
	while (result == KVD_ESPACE) {
		if ((!b->buffer || *bytes > b->buffer_room) && !grow_buffer(b, *bytes))
			return KVD_ENOMEM;
		result = kvd_txn_get(txn, s->key.data, s->key.bytes, b->buffer, b->buffer_room,
				     bytes);
	}
	return result;
}

static int check_failed(struct cli *cli, const struct step *s, const char *why)
{
	char shown[80];

	return cli_fail(cli, CLI_FALSE, "%s %s: nothing was done",
			cli_word_show(s->key.data, s->key.bytes, shown, sizeof shown), why);
}

/* CLI_DONE, AGAIN, or a status after telling. */
static int run_read(struct cli *cli, struct batch *b, kvd_txn_t *txn, struct step *s)
{
	size_t bytes;
	int result = read_key(b, txn, s, &bytes);

	if (result == KVD_CONDITION)
		return AGAIN;
	if (result < 0)
		return cli_fail_session(cli, result);
	bool found = result == KVD_OK;
	if (s->kind == STEP_PRESENT && !found)
		return check_failed(cli, s, "is not there");
	if (s->kind == STEP_ABSENT && found)
		return check_failed(cli, s, "is there");
	if (s->kind == STEP_CHECK &&
	    (!found || bytes != s->value.bytes || memcmp(b->buffer, s->value.data, bytes) != 0))
		return check_failed(cli, s, found ? "has another value" : "is not there");
	if (s->kind != STEP_GET)
		return CLI_DONE;
	s->found = found;
	cli_value_free(&s->got);
	if (found && cli_value_copy(&s->got, b->buffer, bytes) != 0)
		return cli_fail(cli, CLI_USAGE, "txn: no memory for a value of %zu bytes", bytes);
	return CLI_DONE;
}

static int run_steps(struct cli *cli, struct batch *b, kvd_txn_t *txn)
{
	int status = CLI_DONE;

	for (size_t i = 0; i < b->count && status == CLI_DONE; i++) {
		struct step *s = &b->step[i];
		int result = KVD_OK;
		if (s->kind == STEP_PUT)
			result = kvd_txn_put(txn, s->key.data, s->key.bytes, s->value.data,
					     s->value.bytes);
		else if (s->kind == STEP_DEL)
			result = kvd_txn_del(txn, s->key.data, s->key.bytes);
		else
			status = run_read(cli, b, txn, s);
		if (result < 0)
			status = cli_fail_session(cli, result);
	}
	return status;
}

static int attempt(struct cli *cli, struct batch *b)
{
	kvd_txn_t *txn;
	int result = kvd_txn_new(cli->session, &txn);

	if (result < 0)
		return cli_fail_session(cli, result);
	int status = run_steps(cli, b, txn);
	if (status != CLI_DONE) {
		kvd_txn_delete(&txn);
		return status;
	}
	result = kvd_txn_commit(&txn, NULL);
	if (result == KVD_CONDITION)
		return AGAIN;
	return result < 0 ? cli_fail_session(cli, result) : CLI_DONE;
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* One line a get, as in a batch of kvcli's. */
static int print(struct cli *cli, const struct batch *b)
{
	for (size_t i = 0; i < b->count; i++) {
		const struct step *s = &b->step[i];
		if (s->kind != STEP_GET)
			continue;
		if (!s->found)
			puts("(not found)");
		else if (isatty(STDOUT_FILENO) && !cli_word_is_text(s->got.data, s->got.bytes, true))
			cli_word_quote(stdout, s->got.data, s->got.bytes);
		else
			fwrite(s->got.data, 1, s->got.bytes, stdout);
		if (s->found)
			putchar('\n');
	}
	return cli_ok(cli);
}

static int run_txn(struct cli *cli, const struct cli_args *args)
{
	struct batch b = { 0 };
	long end_ms = now_ms() + (cli->timeout_ms ? cli->timeout_ms : 5000);
	int status = parse(cli, &b, args);

	if (status == CLI_DONE)
		cli_connect(cli, &status);
	if (status == CLI_DONE) {
		do
			status = attempt(cli, &b);
		while (status == AGAIN && now_ms() < end_ms);
		if (status == AGAIN)
			status = cli_fail(cli, CLI_FALSE, "txn: others changed what it read, again and again. "
							  "Nothing was done");
	}
	if (status == CLI_DONE)
		status = print(cli, &b);
	clear(&b);
	return status;
}

const struct cli_command cli_txn = {
	.name = "txn",
	.arguments = "[OPERATION...]",
	.summary = "keys, all or nothing",
	.help = "Does all operations of a batch, or none. There are get KEY, put KEY VALUE,\n"
		"del KEY, check KEY VALUE (the key has just this value), present KEY, absent KEY.\n"
		"Each is one word, or one line of standard input, written as in the shell. Nobody\n"
		"sees part of the batch. If a check fails, nothing is done, and the status is 1.\n"
		"Values are printed when all is done, a line each. A batch that changes something\n"
		"may have 16 keys and 8,000 bytes.",
	.operands_max = SIZE_MAX,
	.run = run_txn,
};

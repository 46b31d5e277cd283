/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shell: commands from a terminal one by one, from anything else as a batch.
 *
 * In a batch, plain put, get and del go through a window of operations in
 * flight.  Whatever else comes waits until the window is empty, so answers come
 * in the order of the commands.  Before the batch waits for input, it answers
 * all that it has and writes it out: a program can hold a dialogue with it.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/command/table.h"
#include "client/cli/edit.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/interrupt.h"
#include "client/cli/session/session.h"
#include "client/cli/session/window.h"
#include "client/cli/shell.h"
#include "client/cli/text/input.h"

#define OUTPUT_BYTES (64 << 10)

struct shell {
	struct cli *cli;
	struct cli_window *window;
	struct cli_words words;
	int worst;
	bool quit;
};

static void note(struct shell *shell, int status)
{
	if (status > shell->worst)
		shell->worst = status;
	if (status >= CLI_USAGE && shell->cli->stop_on_error)
		shell->quit = true;
	if (ferror(stdout))
		shell->quit = true;
}

static void answer_window(void *arg, const struct cli_answer *answer)
{
	struct shell *shell = arg;
	struct cli *cli = shell->cli;
	int status;

	if (answer->result < 0)
		status = cli_fail(cli, cli_status(answer->result), "%s", answer->error);
	else if (answer->result == KVD_NOT_FOUND)
		status = cli_not_found(cli, answer->key, answer->key_bytes);
	else if (answer->op == CLI_OP_GET)
		status = cli_value_answer(cli, answer->value, answer->value_bytes);
	else
		status = cli_ok(cli);
	note(shell, status);
}

static void submit_get(struct shell *shell, const struct cli_args *args)
{
	for (size_t i = 0; i < args->count && !shell->quit; i++)
		cli_window_get(shell->window, args->operand[i].data, args->operand[i].bytes, NULL);
}

static void submit_del(struct shell *shell, const struct cli_args *args)
{
	for (size_t i = 0; i < args->count && !shell->quit; i++)
		cli_window_del(shell->window, args->operand[i].data, args->operand[i].bytes, NULL);
}

static void submit_put(struct shell *shell, const struct cli_args *args)
{
	const struct cli_word *key = &args->operand[0], *word = &args->operand[1];
	struct cli_value value;

	if (cli_value_copy(&value, word->data, word->bytes) == 0) {
		cli_window_put(shell->window, key->data, key->bytes, &value, NULL);
		return;
	}
	cli_window_drain(shell->window);
	note(shell, cli_fail(shell->cli, CLI_USAGE, "put: no memory for a value of %zu bytes",
			     word->bytes));
}

/* Takes the command if it is a plain one of the three. */
static bool run_in_window(struct shell *shell)
{
	static const struct {
		const char *name;
		size_t words_min, words_max;
		void (*submit)(struct shell *shell, const struct cli_args *args);
	} plain[] = {
		{ "get", 2, SIZE_MAX, submit_get },
		{ "put", 3, 3, submit_put },
		{ "del", 2, SIZE_MAX, submit_del },
	};
	struct cli_words *words = &shell->words;
	struct cli_args args = { .operand = words->word + 1, .count = words->count - 1 };

	for (size_t i = 1; i < words->count; i++)
		if (!words->word[i].literal && words->word[i].data[0] == '-')
			return false;
	for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
		if (words->count >= plain[i].words_min && words->count <= plain[i].words_max &&
		    cli_word_is(&words->word[0], plain[i].name)) {
			plain[i].submit(shell, &args);
			return true;
		}
	}
	return false;
}

static bool is_comment(const char *line, size_t bytes)
{
	while (bytes > 0 && (*line == ' ' || *line == '\t')) {
		line++;
		bytes--;
	}
	return bytes > 0 && *line == '#';
}

/* One line.  A comment or an empty one has no answer. */
static void run_line(struct shell *shell, char *line, size_t bytes)
{
	struct cli_words *words = &shell->words;
	char error[160];

	if (is_comment(line, bytes))
		return;
	if (!cli_word_split(words, line, bytes, error, sizeof error)) {
		cli_window_drain(shell->window);
		note(shell, cli_fail(shell->cli, CLI_USAGE, "%s", error));
		return;
	}
	if (words->count == 0 || run_in_window(shell))
		return;
	cli_window_drain(shell->window);
	if (shell->quit)
		return;
	if (cli_word_is(&words->word[0], "quit") || cli_word_is(&words->word[0], "exit"))
		shell->quit = true;
	else
		note(shell, cli_command_run(shell->cli, words->word, words->count));
}

/* False where there is no more to do. */
static bool answer_all(void *arg)
{
	struct shell *shell = arg;

	cli_window_drain(shell->window);
	if (!cli_output_flush(shell->cli))
		shell->quit = true;
	return !shell->quit;
}

static int run_batch(struct shell *shell)
{
	struct cli_input input = { .fd = 0 };
	char *line;
	size_t bytes;
	int got = 0;

	setvbuf(stdout, NULL, _IOFBF, OUTPUT_BYTES);
	while (!shell->quit &&
	       (got = cli_input_line(&input, answer_all, shell, &line, &bytes)) > 0) {
		run_line(shell, line, bytes);
		if (shell->cli->stop_on_error) /* before the next is under way */
			cli_window_drain(shell->window);
	}
	if (got < 0) {
		cli_window_drain(shell->window);
		note(shell, cli_fail(shell->cli, CLI_USAGE, "reading commands: %s",
				     cli_value_error(errno)));
	}
	answer_all(shell);
	cli_input_free(&input);
	return shell->worst;
}

/* Behind a line whose quotes are open, as long as they are: its next one. */
static char *add_line(char *line)
{
	char *more = cli_edit_line("... "), *both = NULL;
	size_t bytes = strlen(line);

	if (more)
		both = realloc(line, bytes + strlen(more) + 2);
	if (both) {
		both[bytes] = '\n';
		strcpy(both + bytes + 1, more);
	} else {
		free(line);
	}
	free(more);
	return both;
}

/* What is typed until the quotes are closed; NULL at the end, or where Ctrl-C ended it. */
static char *type_line(const char *prompt)
{
	char *line = cli_edit_line(prompt);

	while (line && !is_comment(line, strlen(line)) && cli_word_is_open(line, strlen(line)))
		line = add_line(line);
	if (line)
		cli_edit_keep(line);
	return line;
}

/* An interrupt that came as soon as the line was ended is the command's. */
static void run_typed(struct shell *shell, char *line)
{
	run_line(shell, line, strlen(line));
	answer_all(shell);
	if (cli_interrupted())
		puts("(interrupted)");
	free(line);
}

static int run_terminal(struct shell *shell)
{
	char prompt[128], *line;

	printf("%s\nhelp lists the commands, quit leaves.\n", kvd_client_device(shell->cli->client));
	snprintf(prompt, sizeof prompt, "%.120s> ", shell->cli->server);
	cli_interrupt_catch();
	cli_edit_begin(shell->cli);
	while (!shell->quit) {
		cli_interrupt_forget();
		line = type_line(prompt);
		if (line)
			run_typed(shell, line);
		else if (!cli_interrupted())
			break;
	}
	cli_edit_end();
	return CLI_DONE;
}

int cli_shell(struct cli *cli)
{
	struct shell shell = { .cli = cli };
	int status;

	if (!cli_connect(cli, &status))
		return status;
	shell.window = cli_window_new(cli, answer_window, &shell);
	if (!shell.window)
		return cli_fail(cli, CLI_USAGE, "no memory for a shell");
	cli->shell = true;
	status = isatty(0) && isatty(1) ? run_terminal(&shell) : run_batch(&shell);
	cli_window_delete(&shell.window);
	cli_words_free(&shell.words);
	return status;
}

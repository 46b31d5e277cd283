/* SPDX-License-Identifier: BSD-2-Clause */
#include "config.h"

#include "client/cli/edit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/cli/command/table.h"
#include "client/cli/session/interrupt.h"
#include "client/cli/session/session.h"
#include "client/cli/text/word.h"

#ifdef HAVE_LIBEDIT
#include <editline/readline.h>

#define HISTORY_LINES 1000

static char history_path[4096];

/* Makes the last folder of ~/.local/state too: a new account may have none. */
static void find_history(void)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	char folder[4000];

	if (state && state[0] == '/') {
		snprintf(folder, sizeof folder, "%s", state);
	} else if (home && home[0] == '/') {
		snprintf(folder, sizeof folder, "%s/.local", home);
		mkdir(folder, 0700);
		snprintf(folder, sizeof folder, "%s/.local/state", home);
	} else {
		return;
	}
	mkdir(folder, 0700);
	snprintf(history_path, sizeof history_path, "%s/kvcli_history", folder);
}

static struct cli *asked;

/* ------------------------------------------------------------------ completion */

static char *next_command(const char *text, int again)
{
	static size_t at;
	const char *name;

	if (!again)
		at = 0;
	while (cli_commands[at]) {
		name = cli_commands[at++]->name;
		if (strncmp(name, text, strlen(text)) == 0)
			return strdup(name);
	}
	return NULL;
}

/* The command of the line, or NULL. */
static const struct cli_command *command_of_line(void)
{
	const char *line = rl_line_buffer + strspn(rl_line_buffer, " \t");
	size_t bytes = strcspn(line, " \t");

	for (size_t i = 0; cli_commands[i]; i++)
		if (strlen(cli_commands[i]->name) == bytes &&
		    memcmp(cli_commands[i]->name, line, bytes) == 0)
			return cli_commands[i];
	return NULL;
}

static char *next_option(const char *text, int again)
{
	static const struct cli_option *at;
	static bool help;
	const struct cli_command *command = command_of_line();
	char name[64];

	if (!again) {
		at = command ? command->options : NULL;
		help = false;
	}
	for (; at && at->name; at++) {
		snprintf(name, sizeof name, "--%s", at->name);
		if (strncmp(name, text, strlen(text)) == 0) {
			at++;
			return strdup(name);
		}
	}
	if (!help && command && strncmp("--help", text, strlen(text)) == 0) {
		help = true;
		return strdup("--help");
	}
	return NULL;
}

/* Keys that begin with what was typed; at most so many are shown. */
#define KEYS_MAX 100

static struct {
	char *key[KEYS_MAX];
	size_t count;
} found;

/* One that would need quotes is left out: the word that is typed has none. */
static int take_key(void *arg, const void *key, size_t key_bytes, uint64_t value_bytes)
{
	const struct cli_word word = { key, key_bytes, false };
	const char *text = key;

	(void)arg;
	(void)value_bytes;
	if (!cli_word_is_text(key, key_bytes, false) || text[0] == '-' || text[0] == '#')
		return 0;
	for (size_t i = 0; i < key_bytes; i++)
		if (strchr(" \t\"'", text[i]))
			return 0;
	found.key[found.count] = cli_word_string(&word);
	found.count += found.key[found.count] != NULL;
	return found.count == KEYS_MAX || cli_interrupted();
}

static char *next_key(const char *text, int again)
{
	static size_t at;
	const char *error;
	kvd_session *session;
	int result;

	if (!again) {
		at = found.count = 0;
		session = cli_session(asked, &result, &error);
		if (session)
			kvd_keys(session, text, strlen(text), take_key, NULL);
	}
	return at < found.count ? found.key[at++] : NULL;
}

/* What the words of the command are. */
static bool takes(const char *const *names)
{
	const struct cli_command *command = command_of_line();

	for (; command && *names; names++)
		if (strcmp(*names, command->name) == 0)
			return true;
	return false;
}

static char **complete(const char *text, int start, int end)
{
	static const char *const keys[] = { "put", "get", "del", "exists", "incr", "decr", "append",
					    "prepend", "touch", "ttl", "keys", "lock", "update", NULL };
	static const char *const paths[] = { "put-tree", "get-tree", "check-tree", "export", "import",
					     NULL };

	(void)end;
	rl_attempted_completion_over = 1; /* no names of files */
	if (strspn(rl_line_buffer, " \t") >= (size_t)start)
		return rl_completion_matches(text, next_command);
	if (text[0] == '-')
		return rl_completion_matches(text, next_option);
	if (takes(keys))
		return rl_completion_matches(text, next_key);
	rl_attempted_completion_over = !takes(paths);
	return NULL;
}

/* ----------------------------------------------------------------------- lines */

void cli_edit_begin(struct cli *cli)
{
	static char breaks[] = " \t";

	asked = cli;
	rl_readline_name = "kvcli";
	rl_initialize();
	rl_attempted_completion_function = complete;
	rl_completer_word_break_characters = breaks;
	using_history();
	stifle_history(HISTORY_LINES);
	find_history();
	if (*history_path)
		read_history(history_path);
}

/* Written line by line: a signal may end the shell without cli_edit_end(). */
void cli_edit_keep(const char *line)
{
	mode_t mask;

	if (*line == '\0' || *line == ' ')
		return;
	add_history(line);
	if (!*history_path)
		return;
	mask = umask(077);
	write_history(history_path);
	umask(mask);
}

char *cli_edit_line(const char *prompt)
{
	char *line = readline(prompt);

	if (!line)
		putchar('\n');
	return line;
}

void cli_edit_end(void)
{
	clear_history();
}

#else

void cli_edit_begin(struct cli *cli)
{
	(void)cli;
}

void cli_edit_keep(const char *line)
{
	(void)line;
}

char *cli_edit_line(const char *prompt)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t bytes;

	fputs(prompt, stdout);
	fflush(stdout);
	bytes = getline(&line, &room, stdin);
	if (bytes < 0) {
		clearerr(stdin);
		putchar('\n');
		free(line);
		return NULL;
	}
	if (bytes > 0 && line[bytes - 1] == '\n')
		line[bytes - 1] = '\0';
	return line;
}

void cli_edit_end(void)
{
}
#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "config.h"

#include "client/cli/edit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/cli/command/table.h"

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

static char **complete(const char *text, int start, int end)
{
	(void)end;
	rl_attempted_completion_over = 1; /* no names of files */
	return start == 0 ? rl_completion_matches(text, next_command) : NULL;
}

void cli_edit_begin(void)
{
	static char breaks[] = " \t";

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

/* Written line by line: Ctrl-C ends the shell without cli_edit_end(). */
static void keep(const char *line)
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

	if (line)
		keep(line);
	else
		putchar('\n');
	return line;
}

void cli_edit_end(void)
{
	clear_history();
}

#else

void cli_edit_begin(void)
{
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

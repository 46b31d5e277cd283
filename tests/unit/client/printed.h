/* SPDX-License-Identifier: BSD-2-Clause */
/* printed.h -- a command of kvcli is run in this process; what it prints is kept. */
#ifndef TESTS_UNIT_CLIENT_PRINTED_H
#define TESTS_UNIT_CLIENT_PRINTED_H

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/cli/session/cli.h"
#include "client/cli/text/args.h"

static char printed_out[1 << 16], printed_err[1 << 16];

static inline void printed_take(int memory, int fd, int was, char *text, size_t bytes)
{
	ssize_t n;

	dup2(was, fd);
	close(was);
	n = pread(memory, text, bytes - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	close(memory);
}

/* The words of `line` as the command gets them; the exit status, or -1: they are wrong. */
static inline int printed_run(struct cli *cli, const struct cli_option *options,
			      int (*run)(struct cli *cli, const struct cli_args *args), const char *line)
{
	int status = -1, memory[2], was[2];
	char words_of[512], error[256];
	struct cli_words words = { 0 };
	struct cli_args args;

	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		memory[i] = memfd_create("printed", MFD_CLOEXEC);
		was[i] = dup(i + 1);
		dup2(memory[i], i + 1);
	}
	snprintf(words_of, sizeof words_of, "%s", line);
	if (cli_word_split(&words, words_of, strlen(words_of), error, sizeof error) &&
	    cli_args_parse(&args, options, words.word, words.count, error, sizeof error))
		status = run(cli, &args);
	fflush(stdout);
	printed_take(memory[0], 1, was[0], printed_out, sizeof printed_out);
	printed_take(memory[1], 2, was[1], printed_err, sizeof printed_err);
	cli_words_free(&words);
	return status;
}

#endif

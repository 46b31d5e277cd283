/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/session/answer.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/text/word.h"

#define RED "\033[1;31m"
#define FAINT "\033[2m"
#define PLAIN "\033[0m"

bool cli_color(int fd)
{
	static int wanted[3] = { -1, -1, -1 };
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	if (wanted[fd] < 0)
		wanted[fd] = !(no && *no) && term && strcmp(term, "dumb") != 0 && isatty(fd);
	return wanted[fd];
}

/* Which error an earlier write had is not kept, but a pipe tells that nobody
 * reads it any more. */
static int output_error(void)
{
	struct pollfd output = { .fd = 1 };

	return poll(&output, 1, 0) == 1 && output.revents & POLLERR ? EPIPE : EIO;
}

bool cli_output_flush(struct cli *cli)
{
	if (cli->output_error)
		return false;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return true;
	cli->output_error = output_error();
	if (cli->output_error != EPIPE)
		fputs("kvcli: standard output can't be written. Part of it is missing. Is the "
		      "disk full?\n", stderr);
	return false;
}

int cli_ok(struct cli *cli)
{
	if (cli->shell)
		puts("OK");
	return CLI_DONE;
}

int cli_not_found(struct cli *cli, const void *key, size_t key_bytes)
{
	char shown[80];

	if (!cli->shell)
		fprintf(stderr, "kvcli: not found: %s\n",
			cli_word_show(key, key_bytes, shown, sizeof shown));
	else if (cli_color(1))
		puts(FAINT "(not found)" PLAIN);
	else
		puts("(not found)");
	return CLI_FALSE;
}

int cli_refused(struct cli *cli, const void *key, size_t key_bytes, uint64_t version)
{
	char shown[80], is[48] = "is absent";

	cli_word_show(key, key_bytes, shown, sizeof shown);
	if (version)
		snprintf(is, sizeof is, "has version %" PRIu64, version);
	if (cli->shell)
		printf("(not done: %s %s)\n", shown, is);
	else
		fprintf(stderr, "kvcli: not done: %s %s\n", shown, is);
	return CLI_FALSE;
}

/* A terminal obeys control characters in a value, so gets them quoted. */
int cli_value_answer(struct cli *cli, const void *value, size_t value_bytes)
{
	static int terminal = -1;
	const char *text = value;
	bool ends = value_bytes > 0 && text[value_bytes - 1] == '\n';

	if (terminal < 0)
		terminal = isatty(1);
	if (terminal && !cli_word_is_text(value, value_bytes, true)) {
		cli_word_quote(stdout, value, value_bytes);
		ends = false; /* that is an escape now */
	} else {
		fwrite(value, 1, value_bytes, stdout);
	}
	if (cli->shell || (terminal && !ends))
		putchar('\n');
	return CLI_DONE;
}

/* An answer is one line, and what others wrote moves no terminal. */
static void make_line(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = ' ';
}

int cli_fail(struct cli *cli, int status, const char *format, ...)
{
	char text[2048];
	FILE *file = cli->shell ? stdout : stderr;
	const char *word = cli->shell ? "ERROR " : "kvcli: ";
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	make_line(text);
	if (cli_color(cli->shell ? 1 : 2))
		fprintf(file, RED "%s" PLAIN "%s\n", word, text);
	else
		fprintf(file, "%s%s\n", word, text);
	return status;
}

int cli_status(int result)
{
	switch (result) {
	case KVD_OK:
		return CLI_DONE;
	case KVD_NOT_FOUND:
	case KVD_CONDITION:
		return CLI_FALSE;
	case KVD_EINVAL:
	case KVD_ETOOBIG:
	case KVD_ENUMBER:
	case KVD_ERANGE:
		return CLI_USAGE;
	default:
		return CLI_SERVER;
	}
}

int cli_fail_session(struct cli *cli, int result)
{
	const char *error = cli->session ? kvd_session_error(cli->session) : "";

	return cli_fail(cli, cli_status(result), "%s", *error ? error : kvd_strerror(result));
}

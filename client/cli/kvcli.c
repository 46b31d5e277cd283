/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kvcli -- the command line of kvd: one command, or a shell of them.
 */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/command/table.h"
#include "client/cli/file/value.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/session.h"
#include "client/cli/shell.h"
#include "client/cli/text/args.h"
#include "common/addr.h"
#include "common/opt.h"
#include "common/rdma/device.h"

#define TIMEOUT_MS 5000

struct options {
	const char *server, *device, *bootstrap, *timeout, *credentials;
	bool stop_on_error, help, version;
};

static int parse_options(struct options *o, int argc, char **argv, char *error, size_t error_bytes)
{
	const struct opt table[] = {
		{ "server", 's', OPT_STRING, &o->server, 0, 0, NULL, "ADDR[:PORT]",
		  "kvd; default $KVD_SERVER or 127.0.0.1:7480" },
		{ "device", 'd', OPT_STRING, &o->device, 0, 0, NULL, "NAME",
		  "RDMA device, or soft; default: by address" },
		{ "bootstrap", 'b', OPT_STRING, &o->bootstrap, 0, 0, NULL, "HOW",
		  "tcp: for RDMA networks without IP addresses" },
		{ "timeout", 't', OPT_STRING, &o->timeout, 0, 0, NULL, "TIME",
		  "of each call: 5, 1.5s, 500ms; default 5s" },
		{ "credentials", 'c', OPT_STRING, &o->credentials, 0, 0, NULL, "FILE",
		  "who you are; default $KVD_CREDENTIALS_FILE" },
		{ "stop-on-error", 'e', OPT_FLAG, &o->stop_on_error, 0, 0, NULL, NULL,
		  "end a batch at its first error" },
		{ "help", 'h', OPT_FLAG, &o->help, 0, 0, NULL, NULL, "show this" },
		{ "version", 'V', OPT_FLAG, &o->version, 0, 0, NULL, NULL, "show the version" },
		{ 0 },
	};

	if (argc == 0) {
		opt_print_help(table);
		return 0;
	}
	return opt_parse(table, argc, argv, error, error_bytes);
}

static void print_help(void)
{
	struct options o = { 0 };

	puts("Usage: kvcli [OPTION]... [COMMAND [WORD]...]    no COMMAND: a shell, or a batch");
	puts("\nCommands (kvcli help tells what each does, kvcli COMMAND --help how):");
	cli_command_names();
	puts("\nOptions, before the command:");
	parse_options(&o, 0, NULL, NULL, 0);
	puts("\nStatus: 0 done, 1 not found, 2 wrong use or file, 3 server or connection.");
}

static int usage(struct cli *cli, const char *text)
{
	return cli_fail(cli, CLI_USAGE, "%s", text);
}

static int run(struct cli *cli, int argc, char **argv)
{
	struct cli_word *words;
	int status;

	if (argc == 0)
		return cli_shell(cli);
	words = calloc((size_t)argc, sizeof *words);
	if (!words)
		return usage(cli, "no memory for the command");
	for (int i = 0; i < argc; i++)
		words[i] = (struct cli_word){ argv[i], strlen(argv[i]), false };
	status = cli_command_run(cli, words, (size_t)argc);
	free(words);
	return status;
}

/* Who closes the pipe of a single command has what was wanted; the commands of a
 * batch behind that point were not run. */
static int finish(struct cli *cli, int status)
{
	bool written = cli_output_flush(cli);

	if (!written && (cli->shell || cli->output_error != EPIPE) && status < CLI_USAGE)
		status = CLI_USAGE;
	cli_disconnect(cli);
	return status;
}

int main(int argc, char **argv)
{
	struct cli cli = { .server = addr_server_default(), .timeout_ms = TIMEOUT_MS };
	struct options o = { 0 };
	char error[512], device[192];
	int first;

	setlocale(LC_CTYPE, "");
	signal(SIGPIPE, SIG_IGN);
	cli_value_guard(CLI_USAGE);
	first = parse_options(&o, argc, argv, error, sizeof error);
	if (first < 0)
		return usage(&cli, error);
	if (o.help) {
		print_help();
		return finish(&cli, CLI_DONE);
	}
	if (o.version) {
		printf("kvcli %s\n", kvd_version());
		return finish(&cli, CLI_DONE);
	}
	if (o.timeout && !cli_args_time(&(struct cli_word){ o.timeout, strlen(o.timeout), true }, 1,
					&cli.timeout_ms))
		return usage(&cli, "--timeout wants a time from 1ms to 24 hours, as 5, 1.5s, 500ms");
	if (o.server)
		cli.server = o.server;
	cli.device = device_spec(o.device, o.bootstrap, device, sizeof device);
	cli.credentials = o.credentials;
	cli.stop_on_error = o.stop_on_error;
	return finish(&cli, run(&cli, argc - first, argv + first));
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/command/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/command/device.h"
#include "client/cli/command/key.h"
#include "client/cli/command/lock.h"
#include "client/cli/command/server.h"
#include "client/cli/command/tree.h"
#include "client/cli/session/answer.h"

static int run_help(struct cli *cli, const struct cli_args *args);

static const struct cli_command help = {
	.name = "help",
	.arguments = "[COMMAND]",
	.summary = "show this, or a command",
	.help = "Shows the commands, or one of them.",
	.operands_max = 1,
	.run = run_help,
};

/* In the order of the list. */
const struct cli_command *const cli_commands[] = {
	&cli_put,
	&cli_get,
	&cli_del,
	&cli_exists,
	&cli_incr,
	&cli_decr,
	&cli_append,
	&cli_prepend,
	&cli_touch,
	&cli_ttl,
	&cli_keys,
	&cli_flush,
	&cli_lock,
	&cli_update,
	&cli_txn,
	&cli_put_tree,
	&cli_get_tree,
	&cli_check_tree,
	&cli_backup,
	&cli_export,
	&cli_import,
	&cli_ping,
	&cli_info,
	&cli_stats,
	&cli_user,
	&cli_cluster,
	&cli_top,
	&cli_devices,
	&cli_doctor,
	&cli_counters,
	&help,
	NULL,
};

/* NULL if there is none of that name. */
static const struct cli_command *command_find(const struct cli_word *name)
{
	for (size_t i = 0; cli_commands[i]; i++)
		if (strlen(cli_commands[i]->name) == name->bytes &&
		    memcmp(cli_commands[i]->name, name->data, name->bytes) == 0)
			return cli_commands[i];
	return NULL;
}

/* What others call it; NULL if it is none of these. */
static const char *command_alias(const struct cli_word *name)
{
	static const struct {
		const char *name, *is;
	} others[] = { { "set", "put" },      { "delete", "del" },   { "rm", "del" },
		       { "remove", "del" },   { "list", "keys" },    { "ls", "keys" },
		       { "scan", "keys" },    { "clear", "flush" },  { "flushall", "flush" },
		       { "mget", "get" },     { "inc", "incr" },     { "dec", "decr" },
		       { "expire", "touch" }, { "persist", "touch" },
		       { "store", "put-tree" }, { "fetch", "get-tree" } };

	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
		if (name->bytes == strlen(others[i].name) &&
		    memcmp(name->data, others[i].name, name->bytes) == 0)
			return others[i].is;
	return NULL;
}

/* The name that was meant by a wrong one, or NULL. */
static const char *command_nearest(const struct cli_word *name)
{
	const char *found = command_alias(name);
	size_t found_at = found ? 0 : SIZE_MAX;

	for (size_t i = 0; cli_commands[i]; i++) {
		const char *other = cli_commands[i]->name;
		size_t distance = cli_args_distance(name->data, name->bytes, other);
		if (distance < found_at && cli_args_near(name->data, name->bytes, other)) {
			found = other;
			found_at = distance;
		}
	}
	return found;
}

void cli_command_names(void)
{
	int column = 1;

	putchar(' ');
	for (size_t i = 0; cli_commands[i]; i++) {
		int length = (int)strlen(cli_commands[i]->name);
		if (column + 1 + length > 78) {
			fputs("\n ", stdout);
			column = 1;
		}
		column += printf(" %s", cli_commands[i]->name);
	}
	putchar('\n');
}

/* Names and summaries, two a line. */
static void command_list(void)
{
	size_t count = sizeof cli_commands / sizeof cli_commands[0] - 1;
	size_t rows = (count + 1) / 2;

	for (size_t i = 0; i < rows; i++) {
		const struct cli_command *left = cli_commands[i];
		if (i + rows < count)
			printf("  %-11s%-27s%-11s%s\n", left->name, left->summary,
			       cli_commands[i + rows]->name, cli_commands[i + rows]->summary);
		else
			printf("  %-11s%s\n", left->name, left->summary);
	}
}

static void print_options(const struct cli_option *options)
{
	char name[40];

	puts("\nOptions:");
	for (; options && options->name; options++) {
		snprintf(name, sizeof name, "--%s %s", options->name,
			 options->argument ? options->argument : "");
		if (options->letter)
			printf("  -%c, %-16s %s\n", options->letter, name, options->help);
		else
			printf("      %-16s %s\n", name, options->help);
	}
	puts("      --help           show this");
}

static void command_help(const struct cli_command *command)
{
	printf("Usage: kvcli %s%s%s%s\n\n%s\n", command->name,
	       command->options ? " [OPTION]..." : "", *command->arguments ? " " : "",
	       command->arguments, command->help);
	print_options(command->options);
}

static int wrong_count(struct cli *cli, const struct cli_command *command, size_t count)
{
	const char *what = count < command->operands_min ? "something is missing" : "too many words";

	return cli_fail(cli, CLI_USAGE, "%s: %s; usage: %s%s%s%s", command->name, what,
			command->name, command->options ? " [OPTION]..." : "",
			*command->arguments ? " " : "", command->arguments);
}

static int unknown(struct cli *cli, const struct cli_word *name)
{
	const char *near = command_nearest(name);
	char shown[80];

	cli_word_show(name->data, name->bytes, shown, sizeof shown);
	if (near)
		return cli_fail(cli, CLI_USAGE, "no command %s; did you mean %s?", shown, near);
	return cli_fail(cli, CLI_USAGE, "no command %s; %s", shown,
			cli->shell ? "help lists them" : "kvcli --help lists them");
}

int cli_command_run(struct cli *cli, struct cli_word *words, size_t count)
{
	const struct cli_command *command = command_find(&words[0]);
	struct cli_args args;
	char error[256];

	if (!command)
		return unknown(cli, &words[0]);
	if (!cli_args_parse(&args, command->options, words + 1, count - 1, error, sizeof error))
		return cli_fail(cli, CLI_USAGE, "%s: %s", command->name, error);
	if (args.help) {
		command_help(command);
		return CLI_DONE;
	}
	if (args.count < command->operands_min || args.count > command->operands_max)
		return wrong_count(cli, command, args.count);
	return command->run(cli, &args);
}

static int run_help(struct cli *cli, const struct cli_args *args)
{
	const struct cli_command *command;

	if (args->count == 0) {
		command_list();
		if (cli->shell)
			puts("  quit       leave; so does Ctrl-D");
		return CLI_DONE;
	}
	command = command_find(&args->operand[0]);
	if (!command)
		return unknown(cli, &args->operand[0]);
	command_help(command);
	return CLI_DONE;
}

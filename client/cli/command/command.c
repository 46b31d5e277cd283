/* SPDX-License-Identifier: BSD-2-Clause */
/* The commands: their names, help, and how one is found and run. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/session/cli.h"

#define ANY SIZE_MAX

static const struct cli_option put_options[] = {
	[CLI_PUT_FILE] = { "file", 'f', "PATH", "the value is the contents of this file" },
	{ 0 },
};

static const struct cli_option get_options[] = {
	[CLI_GET_OUTPUT] = { "output", 'o', "PATH", "write the value to this file, whole or not" },
	{ 0 },
};

static const struct cli_option keys_options[] = {
	[CLI_KEYS_PREFIX] = { "prefix", 'p', "P", "only keys that begin with P" },
	[CLI_KEYS_LONG] = { "long", 'l', NULL, "with the length of each value" },
	[CLI_KEYS_NULL] = { "null", '0', NULL, "keys raw, a zero byte after each" },
	{ 0 },
};

static const struct cli_option flush_options[] = {
	[CLI_FLUSH_YES] = { "yes", 'y', NULL, "don't ask" },
	{ 0 },
};

static const struct cli_option lock_options[] = {
	[CLI_LOCK_TIMEOUT] = { "timeout", 't', "TIME", "how long to wait for the lock; 0: not at all" },
	{ 0 },
};

static const struct cli_option export_options[] = {
	[CLI_EXPORT_PREFIX] = { "prefix", 'p', "P", "only keys that begin with P" },
	[CLI_EXPORT_JSON] = { "json", 'j', NULL, "lines of JSON, without checksums" },
	{ 0 },
};

static const struct cli_option import_options[] = {
	[CLI_IMPORT_FROM] = { "from", 'f', "BYTE", "go on where an import was cut off" },
	[CLI_IMPORT_CHECK] = { "check", 'c', NULL, "read and check all of it, store nothing" },
	{ 0 },
};

static const struct cli_option tree_options[] = {
	[CLI_TREE_PREFIX] = { "prefix", 'p', "P", "what the keys begin with; default nothing" },
	{ 0 },
};

static const struct cli_option ping_options[] = {
	[CLI_PING_COUNT] = { "count", 'n', "N", "how many round trips; default 100" },
	{ 0 },
};

static const struct cli_option stats_options[] = {
	[CLI_STATS_JSON] = { "json", 'j', NULL, "as one JSON object" },
	{ 0 },
};

static const struct cli_option user_options[] = {
	[CLI_USER_USERS] = { "users", 'u', "FILE", "kvd's users file; default $KVD_USERS_FILE" },
	{ 0 },
};

static const struct cli_option counters_options[] = {
	[CLI_COUNTERS_ALL] = { "all", 'a', NULL, "those that are 0, too" },
	{ 0 },
};

static const struct cli_option top_options[] = {
	[CLI_TOP_INTERVAL] = { "interval", 'i', "TIME", "how often; default 1s" },
	[CLI_TOP_COUNT] = { "count", 'n', "N", "end after so many; default never" },
	{ 0 },
};

const struct cli_command cli_commands[] = {
	{ "put", "KEY VALUE | KEY - | KEY --file PATH", "store a value",
	  "Stores a value, new or over the old one. - is standard input, to its end;\n"
	  "to store a single -, write: put -- KEY -", put_options, 1, 2, cli_put },
	{ "get", "KEY", "print a value",
	  "Prints the value as it is, with nothing added; a terminal gets it quoted if it\n"
	  "is no plain text. With --output the file is replaced only once all is written.",
	  get_options, 1, 1, cli_get },
	{ "del", "KEY...", "delete keys", "Deletes keys. The status is 1 if one was not there.",
	  NULL, 1, ANY, cli_del },
	{ "exists", "KEY", "tell if a key is there",
	  "Prints yes, with status 0, or no, with status 1.", NULL, 1, 1, cli_exists },
	{ "keys", "", "list keys",
	  "Prints keys, one a line, in no order. A key that is no plain text or begins\n"
	  "with \" is quoted as the shell of kvcli reads it. While keys come and go, one\n"
	  "may be told twice: sort -u.", keys_options, 0, 0, cli_keys },
	{ "flush", "", "delete every key",
	  "Deletes every key, after asking on a terminal; elsewhere it wants --yes.",
	  flush_options, 0, 0, cli_flush },
	{ "lock", "KEY -- COMMAND...", "run a command, key locked",
	  "Runs a command while it holds the lock of a key, which may be absent; the status\n"
	  "is the command's. Others may read the key, but not change it. A command that\n"
	  "keeps others waiting for longer than kvd's --lease goes on without the lock:\n"
	  "kvcli tells so at the end, with status 3.", lock_options, 2, ANY, cli_lock },
	{ "update", "KEY -- FILTER...", "filter a value",
	  "Runs a command that gets the value on standard input and writes the new one to\n"
	  "standard output, and stores that: atomically, with the key locked. An absent key\n"
	  "is empty input. If the filter fails nothing is stored, and the status is its.",
	  lock_options, 2, ANY, cli_update },
	{ "txn", "[OPERATION...]", "keys, all or nothing",
	  "Does a batch of operations in one, or none of them: get KEY, put KEY VALUE,\n"
	  "del KEY, check KEY VALUE (it has just this value), present KEY, absent KEY. Each\n"
	  "is one word, or one line of standard input, written as in the shell. Nobody sees\n"
	  "part of it. A check that fails ends it with status 1, and nothing is done.\n"
	  "Values are printed when all is done, a line each. With a change at most 16\n"
	  "keys and 8,000 bytes.", NULL, 0, ANY, cli_txn },
	{ "put-tree", "DIR", "store a folder's files",
	  "Stores each regular file below DIR under its path from there, as in lib/a.txt.\n"
	  "Symbolic links and empty folders are left out.", tree_options, 1, 1, cli_put_tree },
	{ "get-tree", "DIR", "write keys as files",
	  "Writes each key as a file below DIR, which is made if need be; a / in a key\n"
	  "makes a folder. The prefix is not part of the path. A key that would lead out\n"
	  "of DIR (.. or a leading /) is an error, and is left out.",
	  tree_options, 1, 1, cli_get_tree },
	{ "check-tree", "DIR", "compare files with values",
	  "Reads the value of each file that put-tree would store, and compares every byte.\n"
	  "The status is 1 if one differs or is not there.", tree_options, 1, 1,
	  cli_check_tree },
	{ "backup", "DIR", "copy what is durable",
	  "Makes a copy of all that kvd keeps in its --data-dir, while it serves, in a new\n"
	  "folder of kvd's machine, which is named from / on. To go back to it, start kvd\n"
	  "with a copy of that folder as --data-dir.", NULL, 1, 1, cli_backup },
	{ "export", "FILE | -", "write all keys to a file",
	  "Writes every key with its value and what is left of its time to live to a file,\n"
	  "which gets its name once it is whole. What is changed meanwhile is in it with\n"
	  "the old value or the new one.", export_options, 1, 1, cli_export },
	{ "import", "FILE | -", "store an export's keys",
	  "Stores what export wrote, in either format, over what is there. If it is cut off\n"
	  "it tells where, and how to go on from there.", import_options, 1, 1, cli_import },
	{ "ping", "", "measure the round trip",
	  "Measures round trips through a worker thread of kvd, one after another.",
	  ping_options, 0, 0, cli_ping },
	{ "info", "", "show server and device",
	  "Shows the server, the RDMA device that leads to it and why it was chosen.", NULL, 0,
	  0, cli_info },
	{ "stats", "", "show figures of kvd",
	  "Shows the figures that kvd keeps: keys, memory, operations, connections.",
	  stats_options, 0, 0, cli_stats },
	{ "user", "add NAME ROLE | remove NAME | passwd NAME | list", "change kvd's users",
	  "Changes the users file of a kvd on this machine, which notices at once. ROLE is\n"
	  "read, write or admin. add, and passwd (a new key for a user), print the user's\n"
	  "credentials: one line, for a file of mode 600. remove and passwd cut the user's\n"
	  "connections off. Needs no server.", user_options, 1, 3, cli_user },
	{ "top", "", "watch figures of kvd",
	  "Shows the figures again and again: on a terminal as a screen, until q; elsewhere\n"
	  "a line for each interval.", top_options, 0, 0, cli_top },
	{ "devices", "", "show RDMA devices here",
	  "Shows every RDMA device of this machine and the software device: ports, GIDs,\n"
	  "atomic capability, limits. Needs no server.", NULL, 0, 0, cli_devices },
	{ "doctor", "", "find what hinders RDMA here",
	  "Looks at modules, devices, ports, limits, huge pages, NUMA and firewall of this\n"
	  "machine: a line each, ok, or what to type. The status is 1 if there is something\n"
	  "to put right. Needs no server.", NULL, 0, 0, cli_doctor },
	{ "counters", "", "show counters of devices",
	  "Shows what the RDMA devices of this machine have counted, and what it means; !\n"
	  "marks what tells of trouble. Needs no server.", counters_options, 0, 0,
	  cli_counters },
	{ "help", "[COMMAND]", "show this, or a command", "Shows the commands, or one of them.",
	  NULL, 0, 1, cli_help },
	{ 0 },
};

const struct cli_command *cli_command_find(const struct cli_word *name)
{
	const struct cli_command *command = cli_commands;

	for (; command->name; command++)
		if (strlen(command->name) == name->bytes &&
		    memcmp(command->name, name->data, name->bytes) == 0)
			return command;
	return NULL;
}

const char *cli_command_nearest(const struct cli_word *name)
{
	static const struct {
		const char *name, *is;
	} others[] = { { "set", "put" },      { "delete", "del" }, { "rm", "del" },
		       { "remove", "del" },   { "list", "keys" },  { "ls", "keys" },
		       { "scan", "keys" },    { "clear", "flush" }, { "flushall", "flush" },
		       { "store", "put-tree" }, { "fetch", "get-tree" } };
	const char *found = NULL;
	size_t found_at = name->bytes / 2 + 1;

	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
		if (name->bytes == strlen(others[i].name) &&
		    memcmp(name->data, others[i].name, name->bytes) == 0)
			return others[i].is;
	for (const struct cli_command *command = cli_commands; command->name; command++) {
		size_t distance = cli_args_distance(name->data, name->bytes, command->name);
		if (distance < found_at) {
			found = command->name;
			found_at = distance;
		}
	}
	return found;
}

void cli_command_list(void)
{
	size_t count = sizeof cli_commands / sizeof cli_commands[0] - 1;
	size_t rows = (count + 1) / 2;

	for (size_t i = 0; i < rows; i++) {
		const struct cli_command *left = &cli_commands[i], *right = left + rows;
		if (i + rows < count)
			printf("  %-11s%-27s%-11s%s\n", left->name, left->summary, right->name,
			       right->summary);
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
		printf("  -%c, %-16s %s\n", options->letter, name, options->help);
	}
	puts("      --help           show this");
}

void cli_command_help(const struct cli_command *command)
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
	const char *near = cli_command_nearest(name);
	char shown[80];

	cli_word_show(name->data, name->bytes, shown, sizeof shown);
	if (near)
		return cli_fail(cli, CLI_USAGE, "no command %s; did you mean %s?", shown, near);
	return cli_fail(cli, CLI_USAGE, "no command %s; %s", shown,
			cli->shell ? "help lists them" : "kvcli --help lists them");
}

int cli_command_run(struct cli *cli, struct cli_word *words, size_t count)
{
	const struct cli_command *command = cli_command_find(&words[0]);
	struct cli_args args;
	char error[256];

	if (!command)
		return unknown(cli, &words[0]);
	if (!cli_args_parse(&args, command->options, words + 1, count - 1, error, sizeof error))
		return cli_fail(cli, CLI_USAGE, "%s: %s", command->name, error);
	if (args.help) {
		cli_command_help(command);
		return CLI_DONE;
	}
	if (args.count < command->operands_min || args.count > command->operands_max)
		return wrong_count(cli, command, args.count);
	return command->run(cli, &args);
}

int cli_help(struct cli *cli, const struct cli_args *args)
{
	const struct cli_command *command;

	if (args->count == 0) {
		cli_command_list();
		if (cli->shell)
			puts("  quit       leave; so does Ctrl-D");
		return CLI_DONE;
	}
	command = cli_command_find(&args->operand[0]);
	if (!command)
		return unknown(cli, &args->operand[0]);
	cli_command_help(command);
	return CLI_DONE;
}

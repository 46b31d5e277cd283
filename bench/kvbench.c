/* SPDX-License-Identifier: BSD-2-Clause */
/* kvbench -- measures kvd with the workloads of YCSB. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "bench/command/bank.h"
#include "bench/command/command.h"
#include "bench/command/compare.h"
#include "bench/command/plot.h"
#include "bench/command/raw.h"
#include "bench/command/run.h"
#include "bench/command/sg.h"
#include "bench/measure/stopwatch.h"
#include "client/kvd.h"

#include "config.h"

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
	{ "load", command_load, "store the records of a workload" },
	{ "run", command_run, "run a workload on the stored records" },
	{ "compare", command_compare, "run it on Redis or memcached too, side by side" },
	{ "bank", command_bank, "transfers in transactions, and audits of the total" },
	{ "raw", command_raw, "measure verbs with nothing around them" },
	{ "sg", command_sg, "scattered values: lists of blocks against copies" },
	{ "plot", command_plot, "draw pictures of reports" },
};

#define COMMANDS (sizeof commands / sizeof *commands)

static void print_help(void)
{
	printf("usage: kvbench COMMAND [options]\n\n"
	       "Measures kvd with the workloads of YCSB.\n\nCommands:\n");
	for (size_t i = 0; i < COMMANDS; i++)
		printf("  %-10s %s\n", commands[i].name, commands[i].help);
	printf("\nOptions:\n"
	       "  -h, --help     this list\n"
	       "  -V, --version  the version\n");
	printf("\nkvbench COMMAND --help lists a command's options.  For a start:\n"
	       "  kvbench load -P workloada -p recordcount=100000\n"
	       "  kvbench run -P workloada -p recordcount=100000 --duration 10\n");
}

static void print_version(void)
{
	printf("kvbench %s\n", kvd_version());
#ifdef HAVE_HIREDIS
	printf("compares with redis\n");
#endif
#ifdef HAVE_LIBMEMCACHED
	printf("compares with memcached\n");
#endif
}

int main(int argc, char **argv)
{
	struct err err;

	if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		print_help();
		return argc < 2 ? EXIT_USAGE : EXIT_DONE;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		print_version();
		return EXIT_DONE;
	}
	stopwatch_init();
	for (size_t i = 0; i < COMMANDS; i++) {
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	}
	err_set(&err, -1, "'%s' is not a command; kvbench --help lists them", argv[1]);
	return command_fail(EXIT_USAGE, &err);
}

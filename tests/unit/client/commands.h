/* SPDX-License-Identifier: BSD-2-Clause */
/* commands.h -- a command of kvcli is run over made_kvd.h: what it prints and calls. */
#ifndef TESTS_UNIT_CLIENT_COMMANDS_H
#define TESTS_UNIT_CLIENT_COMMANDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <malloc.h>
#include <cmocka.h>

#include "client/cli/command/command.h"
#include "client/cli/session/session.h"
#include "tests/unit/client/made_kvd.h"
#include "tests/unit/client/printed.h"

static bool in_shell; /* what runs is a line of a shell */

static inline int run(const struct cli_command *command, const char *line)
{
	struct cli cli = { .server = "here:1", .timeout_ms = 700, .shell = in_shell };
	int status;

	made.calls[0] = '\0';
	made.count = 0;
	status = printed_run(&cli, command->options, command->run, line);
	assert_false(cli.output_error);
	cli_disconnect(&cli);
	assert_int_equal(made.clients, 0);
	assert_int_equal(made.sessions, 0);
	return status;
}

/* It ends so, and prints that. */
#define RUNS(status, out, err, command, line) \
	do { \
		assert_int_equal(run(command, line), status); \
		assert_string_equal(printed_out, out); \
		assert_string_equal(printed_err, err); \
	} while (0)

/* However often it runs, it has no more memory. */
static inline void keeps_nothing(const struct cli_command *command, const char *line)
{
	size_t used = 0;

	for (unsigned i = 0; i < 60; i++) {
		if (i == 30)
			used = mallinfo2().uordblks;
		run(command, line);
	}
	assert_int_equal(mallinfo2().uordblks, used);
}

/* The next run of it finds that this call fails. */
static inline void fails(const char *call, int result)
{
	made.fails = call;
	made.result = result;
	made.well = 0;
	made.once = false;
}

#endif

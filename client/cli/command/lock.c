/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands that run a command of the user's while they hold a lock.
 *
 * The filter of an update reads the value from an anonymous file, so that it may
 * write before it has read all; its output is stored only if it succeeds.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/cli/command/child.h"
#include "client/cli/command/lock.h"
#include "client/cli/file/value.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/session.h"
#include "client/cli/text/word.h"

#define FIRST_BYTES (64u << 10)

/* As a shell tells that it can't run a command. */
#define STATUS_CANT_RUN 126
#define STATUS_NO_COMMAND 127

enum { LOCK_TIMEOUT };

static const struct cli_option lock_options[] = {
	[LOCK_TIMEOUT] = { "timeout", 't', "TIME", "how long to wait for the lock; 0: not at all" },
	{ 0 },
};

/* How long to wait for the lock; -1: as long as any call may take. */
static bool wait_time(struct cli *cli, const struct cli_args *args, int *wait_ms)
{
	*wait_ms = -1;
	if (!args->given[LOCK_TIMEOUT] ||
	    cli_args_time(&args->option[LOCK_TIMEOUT], 0, wait_ms))
		return true;
	cli_fail(cli, CLI_USAGE, "--timeout wants a time up to 24 hours, as 5, 1.5s, 500ms, or 0 "
				 "not to wait");
	return false;
}

static int start(struct cli *cli, struct cli_child *child, const struct cli_args *args, int in,
		 int out)
{
	const struct cli_word *words = args->operand + 1;
	char shown[80];
	int error;

	cli_output_flush(cli); /* it may write there too */
	error = cli_child_start(child, words, args->count - 1, in, out);
	if (!error)
		return CLI_DONE;
	return cli_fail(cli, error == ENOENT ? STATUS_NO_COMMAND : STATUS_CANT_RUN,
			"can't run %s: %s", cli_word_show(words->data, words->bytes, shown, sizeof shown),
			strerror(error));
}

/* -------------------------------------------------------------------- lock */

/* Runs the command.  Commands of a batch stand in its input: not for this one. */
static int run(struct cli *cli, const struct cli_args *args)
{
	struct cli_child child;
	int in = cli->shell && !isatty(0) ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
	int status = start(cli, &child, args, in, -1);

	if (in >= 0)
		close(in);
	if (status != CLI_DONE)
		return status;
	status = cli_child_wait(&child);
	if (status != 0 && cli->shell)
		return cli_fail(cli, status, "the command ended with status %d", status);
	return status == 0 ? cli_ok(cli) : status;
}

static int run_lock(struct cli *cli, const struct cli_args *args)
{
	const struct kvd_key key = { args->operand[0].data, args->operand[0].bytes };
	int status, result, wait_ms;
	kvd_session *session;
	kvd_lock_t *lock;

	if (!wait_time(cli, args, &wait_ms))
		return CLI_USAGE;
	session = cli_connect(cli, &status);
	if (!session)
		return status;
	result = kvd_lock(session, &key, 1, wait_ms, &lock);
	if (result < 0)
		return cli_fail_session(cli, result);
	status = run(cli, args);
	result = kvd_lock_check(lock);
	if (result < 0)
		status = cli_fail(cli, CLI_SERVER, "the lock was lost while the command ran: %s",
				  kvd_session_error(session));
	kvd_unlock(&lock);
	return status;
}

const struct cli_command cli_lock = {
	.name = "lock",
	.arguments = "KEY -- COMMAND...",
	.summary = "run a command, key locked",
	.help = "Runs a command while kvcli holds the lock of a key. The key may be absent. The\n"
		"status is the command's. Others may read the key, but not change it. A command\n"
		"that keeps others waiting for longer than kvd's --lease loses the lock and goes\n"
		"on without it; so does one whose lock somebody with the role write broke. kvcli\n"
		"says so at the end, with status 3.",
	.options = lock_options,
	.operands_min = 2,
	.operands_max = SIZE_MAX,
	.run = run_lock,
};

/* ------------------------------------------------------------------ update */

/* The value of the key, which is then locked; nothing if it is absent. */
static int lock_value(struct cli *cli, const struct cli_word *key, int wait_ms,
		      struct cli_value *value, kvd_lock_t **lock)
{
	kvd_session *session = cli->session;
	int result;

	*value = (struct cli_value){ malloc(FIRST_BYTES), 0, FIRST_BYTES };
	if (!value->data)
		return cli_fail(cli, CLI_USAGE, "no memory for the value");
	result = kvd_lock_get(session, key->data, key->bytes, wait_ms, value->data, value->room,
			      &value->bytes, NULL, lock);
	while (result == KVD_ESPACE) {
		size_t room = value->bytes;
		cli_value_free(value);
		*value = (struct cli_value){ malloc(room), 0, room };
		if (!value->data) {
			kvd_unlock(lock);
			return cli_fail(cli, CLI_USAGE, "no memory for a value of %zu bytes", room);
		}
		result = kvd_locked_get(*lock, key->data, key->bytes, value->data, room,
					&value->bytes, NULL);
	}
	if (result >= 0)
		return CLI_DONE;
	cli_value_free(value);
	cli_fail_session(cli, result);
	kvd_unlock(lock);
	return cli_status(result);
}

/* An anonymous file of these bytes, at its beginning; -1 and errno. */
static int file_of(const struct cli_value *value)
{
	int fd = memfd_create("value", MFD_CLOEXEC);
	int error = fd < 0 ? errno : cli_value_write(fd, value->data, value->bytes);

	if (!error && lseek(fd, 0, SEEK_SET) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	errno = error ? error : EIO;
	return -1;
}

/* Sends a value through the filter: its status, and on 0 *out is what it wrote. */
static int filter(struct cli *cli, const struct cli_args *args, const struct cli_value *value,
		  struct cli_value *out)
{
	struct cli_child child;
	int in = file_of(value), ends[2], status, error;

	if (in < 0 || pipe2(ends, O_CLOEXEC) < 0) {
		status = cli_fail(cli, CLI_USAGE, "the filter's input: %s", strerror(errno));
		goto close_in;
	}
	status = start(cli, &child, args, in, ends[1]);
	close(ends[1]);
	if (status != CLI_DONE)
		goto close_out;
	error = cli_value_read(out, ends[0]);
	close(ends[0]); /* a filter whose output is too long is told so */
	close(in);
	status = cli_child_wait(&child);
	if (error)
		return cli_fail(cli, CLI_USAGE, "what the filter wrote: %s", cli_value_error(error));
	if (status != 0) {
		cli_value_free(out);
		cli_fail(cli, status, "the filter ended with status %d; nothing was stored", status);
	}
	return status;
close_out:
	close(ends[0]);
close_in:
	if (in >= 0)
		close(in);
	return status;
}

/* Most filters end their output with a line end, and with one a number is no counter any
 * more.  Text stays as the filter wrote it: the next filter may count on its lines. */
static void keep_counter(const struct cli_value *before, struct cli_value *after)
{
	const char *old = before->data;
	struct cli_word number = { after->data, after->bytes ? after->bytes - 1 : 0, true };
	int64_t sum;

	if (number.bytes && number.data[number.bytes] == '\n' && cli_args_integer(&number, &sum) &&
	    !(before->bytes && old[before->bytes - 1] == '\n'))
		after->bytes--;
}

static int run_update(struct cli *cli, const struct cli_args *args)
{
	const struct cli_word *key = &args->operand[0];
	struct cli_value value, out;
	kvd_lock_t *lock;
	int status, result, wait_ms;

	if (!wait_time(cli, args, &wait_ms))
		return CLI_USAGE;
	if (!cli_connect(cli, &status))
		return status;
	status = lock_value(cli, key, wait_ms, &value, &lock);
	if (status != CLI_DONE)
		return status;
	status = filter(cli, args, &value, &out);
	if (status == 0)
		keep_counter(&value, &out);
	cli_value_free(&value);
	if (status == 0) {
		result = kvd_locked_put(lock, key->data, key->bytes, out.data, out.bytes, NULL);
		cli_value_free(&out);
		status = result < 0 ? cli_fail_session(cli, result) : cli_ok(cli);
	}
	kvd_unlock(&lock);
	return status;
}

const struct cli_command cli_update = {
	.name = "update",
	.arguments = "KEY -- FILTER...",
	.summary = "filter a value",
	.help = "Runs a command that reads the value from standard input and writes the new one\n"
		"to standard output. The key is locked meanwhile, so the change is atomic. An\n"
		"absent key is empty input. If the command fails, nothing is stored, and the\n"
		"status is the command's. The line end behind a whole number is left out, unless\n"
		"the old value had one: so a counter stays one.",
	.options = lock_options,
	.operands_min = 2,
	.operands_max = SIZE_MAX,
	.run = run_update,
};

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli.h -- what the parts of kvcli share: the connection, the commands, and how
 * a command answers.
 *
 * kvcli is one thread.  It works on <kvd.h> only, and on neutral helpers of
 * common/.
 */
#ifndef CLIENT_CLI_SESSION_CLI_H
#define CLIENT_CLI_SESSION_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "client/cli/text/args.h"
#include "client/kvd.h"

/* Exit statuses, and what a command returns.  The larger is the worse. */
#define CLI_DONE 0
#define CLI_FALSE 1  /* not found, or a condition was false */
#define CLI_USAGE 2  /* wrong use, or a local file that can't be read or written */
#define CLI_SERVER 3 /* trouble with the server or with the connection */

struct cli {
	/* Of the command line. */
	const char *server;
	const char *device;
	const char *credentials; /* or NULL */
	int timeout_ms;
	bool stop_on_error;
	/* Both NULL until cli_session(). */
	kvd_client *client;
	kvd_session *session;
	/* Commands come from a shell or a batch: every one of them answers. */
	bool shell;
	/* Standard output failed: EPIPE if its reader left, else EIO. */
	int output_error;
};

/* Connection (session.c) */

/* The session; connects if need be.  NULL: *result and *error say why, the text
 * until the next call. */
kvd_session *cli_session(struct cli *cli, int *result, const char **error);
/* The same for a command, which then has answered already and returns *status. */
kvd_session *cli_connect(struct cli *cli, int *status);
/* Gives up the session with all it has in flight. */
void cli_disconnect(struct cli *cli);
/* The exit status of a result of <kvd.h>. */
int cli_status(int result);

/*
 * Answers (answer.c).  A command that stands alone has standard output for
 * data and standard error for the rest; in a shell everything is an answer on
 * standard output.  Each returns the status to return.
 */
int cli_ok(struct cli *cli);
int cli_not_found(struct cli *cli, const void *key, size_t key_bytes);
int cli_value_answer(struct cli *cli, const void *value, size_t value_bytes);
int cli_fail(struct cli *cli, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The error of a call on the session. */
int cli_fail_session(struct cli *cli, int result);
/* Writes standard output through; false if its reader is gone or it failed. */
bool cli_output_flush(struct cli *cli);
/* Colour is wanted on this stream: 1 or 2. */
bool cli_color(int fd);

/* Commands (command.c) */
struct cli_command {
	const char *name;
	const char *arguments;
	const char *summary; /* at most 26 columns, for the list */
	const char *help;
	const struct cli_option *options; /* or NULL */
	size_t operands_min, operands_max;
	int (*run)(struct cli *cli, const struct cli_args *args);
};

extern const struct cli_command cli_commands[];

/* NULL if there is none of that name. */
const struct cli_command *cli_command_find(const struct cli_word *name);
/* The name nearest to a wrong one, or NULL. */
const char *cli_command_nearest(const struct cli_word *name);
/* Runs words[0] with the rest; `words` is reordered. */
int cli_command_run(struct cli *cli, struct cli_word *words, size_t count);
void cli_command_list(void);
void cli_command_help(const struct cli_command *command);

/* Runs commands from standard input (shell.c). */
int cli_shell(struct cli *cli);

int cli_put(struct cli *cli, const struct cli_args *args);
int cli_get(struct cli *cli, const struct cli_args *args);
int cli_del(struct cli *cli, const struct cli_args *args);
int cli_exists(struct cli *cli, const struct cli_args *args);
int cli_keys(struct cli *cli, const struct cli_args *args);
int cli_flush(struct cli *cli, const struct cli_args *args);
int cli_export(struct cli *cli, const struct cli_args *args);
int cli_top(struct cli *cli, const struct cli_args *args);
int cli_import(struct cli *cli, const struct cli_args *args);
int cli_lock(struct cli *cli, const struct cli_args *args);
int cli_update(struct cli *cli, const struct cli_args *args);
int cli_txn(struct cli *cli, const struct cli_args *args);
int cli_put_tree(struct cli *cli, const struct cli_args *args);
int cli_get_tree(struct cli *cli, const struct cli_args *args);
int cli_check_tree(struct cli *cli, const struct cli_args *args);
int cli_ping(struct cli *cli, const struct cli_args *args);
int cli_info(struct cli *cli, const struct cli_args *args);
int cli_backup(struct cli *cli, const struct cli_args *args);
int cli_stats(struct cli *cli, const struct cli_args *args);
int cli_user(struct cli *cli, const struct cli_args *args);
int cli_devices(struct cli *cli, const struct cli_args *args);
int cli_doctor(struct cli *cli, const struct cli_args *args);
int cli_counters(struct cli *cli, const struct cli_args *args);
int cli_help(struct cli *cli, const struct cli_args *args);

/* Options of commands, by their place in the command's table. */
enum { CLI_PUT_FILE };
enum { CLI_GET_OUTPUT };
enum { CLI_KEYS_PREFIX, CLI_KEYS_LONG, CLI_KEYS_NULL };
enum { CLI_FLUSH_YES };
enum { CLI_LOCK_TIMEOUT }; /* of lock and update */
enum { CLI_EXPORT_PREFIX, CLI_EXPORT_JSON };
enum { CLI_IMPORT_FROM, CLI_IMPORT_CHECK };
enum { CLI_TREE_PREFIX };
enum { CLI_PING_COUNT };
enum { CLI_STATS_JSON };
enum { CLI_COUNTERS_ALL };
enum { CLI_TOP_INTERVAL, CLI_TOP_COUNT };
enum { CLI_USER_USERS };

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export and import: all keys in a file, and back.
 *
 * Export lists the keys on one session and GETs them on another, many in flight, as
 * the list comes: nothing grows with the number of keys.  Import tells the place in
 * the file of the first record that is not known to be stored; all before it is, so an
 * import from there completes the one that was cut off.  Doing a part again does no
 * harm.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/command/tree.h"
#include "client/cli/file/dump.h"
#include "client/cli/file/value.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/session.h"
#include "client/cli/session/window.h"
#include "client/cli/text/json.h"
#include "client/cli/text/progress.h"
#include "client/cli/text/word.h"
#include "common/beside.h"

enum { IMPORT_FROM, IMPORT_CHECK };

static const struct cli_option import_options[] = {
	[IMPORT_FROM] = { "from", 'f', "BYTE", "go on where an import was cut off" },
	[IMPORT_CHECK] = { "check", 'c', NULL, "read and check all of it, store nothing" },
	{ 0 },
};

enum { EXPORT_PREFIX, EXPORT_JSON };

static const struct cli_option export_options[] = {
	[EXPORT_PREFIX] = { "prefix", 'p', "P", "only keys that begin with P" },
	[EXPORT_JSON] = { "json", 'j', NULL, "lines of JSON, without checksums" },
	{ 0 },
};

static const int caught[] = { SIGINT, SIGTERM, SIGHUP };
#define CAUGHT (sizeof caught / sizeof caught[0])

static struct sigaction before[CAUGHT];
static volatile int stop_signal;

static void on_signal(int number)
{
	stop_signal = number;
}

/* An interrupt ends the command in order; the second one at once. */
static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

	stop_signal = 0;
	for (unsigned i = 0; i < CAUGHT; i++)
		sigaction(caught[i], &action, &before[i]);
}

/* A shell may have a handler of its own. */
static void release_signals(void)
{
	for (unsigned i = 0; i < CAUGHT; i++)
		sigaction(caught[i], &before[i], NULL);
}

/* ------------------------------------------------------------------- export */

struct export {
	struct cli *cli;
	struct cli listing; /* its session lists the keys */
	const struct cli_word *prefix;
	char *path;         /* NULL: standard output */
	char *partial;
	int fd;
	struct dump_writer writer;
	struct cli_window *window;
	struct cli_progress progress;
	int status;
	bool unread; /* the pipe's reader left: it has what was wanted */
};

static bool export_stops(const struct export *x)
{
	return x->status != CLI_DONE || x->unread;
}

static void export_fail(struct export *x, int status, const char *text)
{
	if (x->status == CLI_DONE) {
		cli_progress_hide(&x->progress);
		x->status = cli_fail(x->cli, status, "export: %s", text);
	}
}

static void export_fail_file(struct export *x, int error)
{
	char text[512];

	if (!x->path && error == EPIPE) {
		x->cli->output_error = EPIPE;
		x->unread = true;
		cli_progress_hide(&x->progress);
		return;
	}
	snprintf(text, sizeof text, "%s: %s", x->path ? x->path : "standard output",
		 cli_value_error(error));
	export_fail(x, CLI_USAGE, text);
}

static void export_answer(void *arg, const struct cli_answer *answer)
{
	struct export *x = arg;
	struct dump_item item = { answer->key, answer->key_bytes, answer->value,
				  answer->value_bytes, answer->ttl_ms, answer->flags,
				  answer->signs };

	if (export_stops(x) || answer->result == KVD_NOT_FOUND)
		return; /* it went away since it was listed */
	if (answer->result < 0) {
		export_fail(x, cli_status(answer->result), answer->error);
		return;
	}
	int error = dump_add(&x->writer, &item);
	if (error)
		export_fail_file(x, error);
	else
		cli_progress_add(&x->progress, answer->key_bytes + answer->value_bytes);
}

static int export_key(void *arg, const void *key, size_t key_bytes, uint64_t value_bytes)
{
	struct export *x = arg;

	(void)value_bytes;
	if (stop_signal)
		export_fail(x, CLI_USAGE, "interrupted");
	if (!export_stops(x))
		cli_window_get(x->window, key, key_bytes, NULL);
	return export_stops(x);
}

static void take_keys(void *arg, const char *path, const char *value)
{
	if (strcmp(path, "keys") == 0)
		*(uint64_t *)arg = strtoull(value, NULL, 10);
}

/* For the bar only. */
static uint64_t count_keys(kvd_session *session)
{
	uint64_t keys = 0;
	char *json;

	if (kvd_stats(session, &json) < 0)
		return 0;
	cli_json_each(json, take_keys, &keys);
	free(json);
	return keys;
}

static void export_all(struct export *x)
{
	kvd_session *list;
	int status;

	list = cli_connect(&x->listing, &status);
	if (!list) {
		x->status = status;
		return;
	}
	cli_progress_begin(&x->progress, "export", x->prefix->bytes ? 0 : count_keys(list), 0);
	x->progress.unit = "key";
	x->progress.to = x->path ? stdout : stderr;
	int result = kvd_keys(list, x->prefix->bytes ? x->prefix->data : "", x->prefix->bytes,
			      export_key, x);
	if (result < 0)
		export_fail(x, cli_status(result), kvd_session_error(list));
	cli_window_drain(x->window);
	int error = export_stops(x) ? 0 : dump_end(&x->writer);
	if (error)
		export_fail_file(x, error);
}

static int export_open(struct export *x, const struct cli_word *word, bool json)
{
	x->fd = 1;
	if (!cli_word_is(word, "-")) {
		x->path = cli_word_string(word);
		size_t bytes = x->path ? strlen(x->path) + BESIDE_BYTES : 0;
		x->partial = x->path ? malloc(bytes) : NULL;
		if (!x->partial)
			return cli_fail(x->cli, CLI_USAGE, "export: no memory, or a zero byte in the path");
		x->fd = beside_create(AT_FDCWD, x->path, 0600, x->partial, bytes);
		if (x->fd < 0)
			return cli_fail(x->cli, CLI_USAGE, "export: a file beside %s: %s", x->path,
					strerror(errno));
	} else if (x->cli->shell) {
		return cli_fail(x->cli, CLI_USAGE, "export: in a shell it wants a file: answers stand "
						   "on standard output");
	} else if (isatty(1) && !json) {
		return cli_fail(x->cli, CLI_USAGE, "export: a terminal can't show it; give a file, "
						   "or --json");
	}
	int error = dump_begin(&x->writer, x->fd, json);
	if (error)
		export_fail_file(x, error);
	return x->status;
}

/* The file has its name only once all of it is on disk. */
static void export_close(struct export *x)
{
	if (!x->path || x->fd < 0)
		return;
	if (x->status == CLI_DONE && fsync(x->fd) && errno != EINVAL && errno != EROFS)
		export_fail_file(x, errno);
	if (close(x->fd) && x->status == CLI_DONE)
		export_fail_file(x, errno);
	if (x->status == CLI_DONE && rename(x->partial, x->path))
		export_fail_file(x, errno);
	if (x->status != CLI_DONE)
		unlink(x->partial);
}

static int run_export(struct cli *cli, const struct cli_args *args)
{
	struct export x = { .cli = cli, .listing = *cli, .fd = -1, .status = CLI_DONE,
			    .prefix = &args->option[EXPORT_PREFIX] };
	int status;

	if (!cli_connect(cli, &status))
		return status;
	x.listing.client = NULL;
	x.listing.session = NULL;
	catch_signals();
	x.window = cli_window_new(cli, export_answer, &x);
	if (!x.window)
		x.status = cli_fail(cli, CLI_USAGE, "export: no memory");
	else if (export_open(&x, &args->operand[0], args->given[EXPORT_JSON]) != CLI_DONE)
		x.status = x.status == CLI_DONE ? CLI_USAGE : x.status;
	else
		export_all(&x);
	export_close(&x);
	if (!export_stops(&x)) {
		cli_progress_end(&x.progress);
		fputc('\n', x.progress.to);
	}
	cli_disconnect(&x.listing);
	dump_free(&x.writer);
	cli_window_delete(&x.window);
	release_signals();
	free(x.path);
	free(x.partial);
	return x.status;
}

const struct cli_command cli_export = {
	.name = "export",
	.arguments = "FILE | -",
	.summary = "write all keys to a file",
	.help = "Writes every key to a file, with its value, flags and what is left of its time\n"
		"to live. The file gets its name once it is whole. A key that changes meanwhile\n"
		"is in the file with its old value or its new one.",
	.options = export_options,
	.operands_min = 1,
	.operands_max = 1,
	.run = run_export,
};

/* ------------------------------------------------------------------- import */

struct import {
	struct cli *cli;
	const char *name; /* of the file, for people */
	bool check;       /* store nothing */
	struct dump_reader reader;
	struct cli_window *window;
	struct cli_progress progress;
	uint64_t stored;
	bool failed;      /* a record was not stored: */
	uint64_t failed_at;
	bool foreign;     /* the file is no export */
	const char *once; /* what going on needs first; NULL: there is no going on */
	int status;
	char why[1024];
};

/* In the order of the records: the first failure is where to go on. */
static void import_answer(void *arg, const struct cli_answer *answer)
{
	struct import *m = arg;

	if (answer->result == KVD_OK && !m->failed) {
		m->stored++;
		cli_progress_add(&m->progress, answer->key_bytes + answer->value_bytes);
	} else if (answer->result != KVD_OK && !m->failed) {
		m->failed = true;
		m->failed_at = (uint64_t)(uintptr_t)answer->tag;
		m->status = cli_status(answer->result);
		snprintf(m->why, sizeof m->why, "%s", answer->error);
	}
}

static bool import_item(struct import *m, const struct dump_item *item)
{
	struct kvd_change change = { .size = sizeof change, .ttl_ms = item->ttl_ms,
				     .flags = item->flags, .signs = item->signs };
	struct cli_value value = { 0 };

	if (m->check) {
		m->stored++;
		cli_progress_add(&m->progress, item->key_bytes + item->value_bytes);
		return true;
	}
	if (cli_value_copy(&value, item->value, item->value_bytes)) {
		m->status = CLI_USAGE;
		snprintf(m->why, sizeof m->why, "no memory for a value of %zu bytes", item->value_bytes);
		return false;
	}
	cli_window_put_with(m->window, item->key, item->key_bytes, &value, &change,
			    (void *)(uintptr_t)m->reader.begin);
	return !m->failed;
}

static void import_stopped(struct import *m, enum dump_got got)
{
	m->status = CLI_USAGE;
	m->foreign = got == DUMP_FOREIGN;
	m->once = got == DUMP_CUT		      ? " with the whole file"
		  : got == DUMP_DAMAGED && !m->reader.json ? NULL
		  : got == DUMP_DAMAGED		      ? " once that line is right"
						      : "";
	if (got == DUMP_STOPPED)
		snprintf(m->why, sizeof m->why, "interrupted");
	else if (got == DUMP_CUT)
		snprintf(m->why, sizeof m->why, "the file is cut off: its end is missing");
	else if (got == DUMP_FAILED)
		snprintf(m->why, sizeof m->why, "%s can't be read: %s", m->name,
			 strerror(m->reader.error));
	else if (got == DUMP_FOREIGN)
		snprintf(m->why, sizeof m->why, "%s is no export: %s", m->name, m->reader.why);
	else
		snprintf(m->why, sizeof m->why, "the file is damaged at byte %" PRIu64 ": %s",
			 m->reader.begin, m->reader.why);
}

static void import_all(struct import *m, int fd, uint64_t from)
{
	struct dump_item item;
	enum dump_got got = dump_open(&m->reader, fd, from, &stop_signal);

	while (got == DUMP_RECORD) {
		got = dump_next(&m->reader, &item);
		if (got == DUMP_RECORD && !import_item(m, &item))
			break;
		m->progress.bytes_read = m->reader.at;
	}
	if (m->window)
		cli_window_drain(m->window);
	if (got != DUMP_RECORD && got != DUMP_END && !m->failed)
		import_stopped(m, got);
}

/* The command that goes on at a byte of the file; with the server, unless a shell has it. */
static void go_on(const struct import *m, uint64_t at, char *text, size_t text_bytes)
{
	const bool shell = m->cli->shell;
	char server[256] = "";

	if (!shell)
		snprintf(server, sizeof server, "kvcli -s %s ", m->cli->server);
	snprintf(text, text_bytes, ". To go on from there%s: %simport '%s' --from %" PRIu64, m->once,
		 server, m->name, at);
}

/* What is to be done to go on. */
static int import_report(struct import *m)
{
	uint64_t at = m->failed ? m->failed_at : m->reader.begin;
	char more[1024] = "";

	if (m->status == CLI_DONE) {
		cli_progress_end(&m->progress);
		fputc('\n', stdout);
		return CLI_DONE;
	}
	cli_progress_hide(&m->progress);
	if (m->foreign)
		return cli_fail(m->cli, m->status, "import: %s", m->why);
	if (m->check)
		return cli_fail(m->cli, m->status, "import: %s; the %" PRIu64 " records before that are "
				"right", m->why, m->stored);
	if (m->once)
		go_on(m, at, more, sizeof more);
	return cli_fail(m->cli, m->status, "import: stopped after %" PRIu64 " stored record%s: %s%s",
			m->stored, m->stored == 1 ? "" : "s", m->why, more);
}

static int import_file(struct cli *cli, const struct cli_args *args, char *path, uint64_t from)
{
	struct import m = { .cli = cli, .name = path ? path : "-", .once = "", .status = CLI_DONE,
			    .check = args->given[IMPORT_CHECK] };
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : 0, status;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return cli_fail(cli, CLI_USAGE, "import: %s: %s", m.name, strerror(errno));
	if (!m.check) {
		m.window = cli_connect(cli, &status) ? cli_window_new(cli, import_answer, &m) : NULL;
		if (!m.window && cli->session)
			status = cli_fail(cli, CLI_USAGE, "import: no memory");
	}
	if (m.check || m.window) {
		catch_signals();
		cli_progress_begin(&m.progress, m.check ? "check" : "import", 0,
				   S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0);
		m.progress.unit = "key";
		import_all(&m, fd, from);
		release_signals();
		status = import_report(&m);
	}
	dump_close(&m.reader);
	cli_window_delete(&m.window);
	if (path)
		close(fd);
	return status;
}

static int run_import(struct cli *cli, const struct cli_args *args)
{
	uint64_t from = 0;
	char *path = NULL;

	if (args->given[IMPORT_FROM] &&
	    !cli_args_number(&args->option[IMPORT_FROM], 0, INT64_MAX, &from))
		return cli_fail(cli, CLI_USAGE, "import --from wants the byte that a cut-off import told");
	if (cli_word_is(&args->operand[0], "-")) {
		if (cli->shell)
			return cli_fail(cli, CLI_USAGE, "import: in a shell it wants a file: standard "
							"input holds commands");
	} else {
		path = cli_word_string(&args->operand[0]);
		if (!path)
			return cli_fail(cli, CLI_USAGE, "import: no memory, or a zero byte in the path");
	}
	int status = import_file(cli, args, path, from);
	free(path);
	return status;
}

const struct cli_command cli_import = {
	.name = "import",
	.arguments = "FILE | -",
	.summary = "store an export's keys",
	.help = "Stores what export wrote, in either format. It replaces what is there. If an\n"
		"import is cut off, kvcli says where, and how to go on from there.",
	.options = import_options,
	.operands_min = 1,
	.operands_max = 1,
	.run = run_import,
};

/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands on many keys. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/command/key.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/interrupt.h"
#include "client/cli/session/session.h"
#include "client/cli/session/source.h"
#include "client/cli/text/args.h"
#include "client/cli/text/glob.h"
#include "client/cli/text/json.h"
#include "client/cli/text/json_write.h"
#include "client/cli/text/word.h"

enum { FLUSH_YES, FLUSH_AT, FLUSH_DELAY };

static const struct cli_option flush_options[] = {
	[FLUSH_YES] = { "yes", 'y', NULL, "don't ask" },
	[FLUSH_AT] = { "at", 'a', "WHEN", "then: 2026-12-31T23:59:59Z, Unix time, or never" },
	[FLUSH_DELAY] = { "delay", 'd', "TIME", "in so long: 30, 1.5s, 500ms, 10m, 12h, 7d" },
	{ 0 },
};

enum { KEYS_PREFIX, KEYS_LONG, KEYS_NULL, KEYS_JSON };

static const struct cli_option keys_options[] = {
	[KEYS_PREFIX] = { "prefix", 'p', "P", "only keys that begin with P" },
	[KEYS_LONG] = { "long", 'l', NULL, "with the length of each value" },
	[KEYS_NULL] = { "null", '0', NULL, "keys raw, a zero byte after each" },
	[KEYS_JSON] = { "json", 'j', NULL, "a line of JSON for each, with the length" },
	{ 0 },
};

struct listing {
	const struct cli_word *pattern; /* or NULL */
	bool with_bytes, zero_ended, json;
};

/* One that is no plain text, or looks like a quoted one, is quoted: so every line
 * is one key. */
static void key_write(const char *key, size_t key_bytes)
{
	bool plain = cli_word_is_text(key, key_bytes, false) && key[0] != '"';

	if (plain)
		fwrite(key, 1, key_bytes, stdout);
	else
		cli_word_quote(stdout, key, key_bytes);
}

static int key_json(const void *key, size_t key_bytes, uint64_t value_bytes)
{
	struct cli_json json = { .to = stdout };

	cli_json_open(&json, NULL, '{');
	cli_json_bytes(&json, "key", key, key_bytes);
	cli_json_number(&json, "value_bytes", value_bytes);
	cli_json_end(&json);
	return ferror(stdout);
}

static int key_line(void *arg, const void *key, size_t key_bytes, uint64_t value_bytes)
{
	const struct listing *listing = arg;

	if (cli_interrupted())
		return 1;
	if (listing->pattern && !cli_glob_match(listing->pattern->data, listing->pattern->bytes, key,
						key_bytes))
		return 0;
	if (listing->json)
		return key_json(key, key_bytes, value_bytes);
	if (listing->with_bytes)
		printf("%12" PRIu64 "  ", value_bytes);
	if (listing->zero_ended)
		fwrite(key, 1, key_bytes, stdout);
	else
		key_write(key, key_bytes);
	putchar(listing->zero_ended ? '\0' : '\n');
	return ferror(stdout);
}

/* What all keys that are wanted begin with, into `prefix`; false: it is told what is wrong. */
static bool take_prefix(struct cli *cli, const struct cli_args *args, struct cli_word *prefix,
			char room[KVD_KEY_BYTES_MAX])
{
	const struct cli_word *pattern = args->operand;
	const char *wrong;

	*prefix = args->given[KEYS_PREFIX] ? args->option[KEYS_PREFIX] : (struct cli_word){ "", 0, 0 };
	if (args->count == 0)
		return true;
	wrong = args->given[KEYS_PREFIX]	    ? "its beginning is a prefix: give one of the two" :
		pattern->bytes > KVD_KEY_BYTES_MAX ? "it is longer than any key" :
						     cli_glob_check(pattern->data, pattern->bytes);
	if (wrong) {
		cli_fail(cli, CLI_USAGE, "keys: the pattern won't do: %s", wrong);
		return false;
	}
	*prefix = (struct cli_word){ room, cli_glob_prefix(pattern->data, pattern->bytes, room), true };
	return true;
}

static int run_keys(struct cli *cli, const struct cli_args *args)
{
	struct listing listing = { args->count ? &args->operand[0] : NULL, args->given[KEYS_LONG],
				   args->given[KEYS_NULL], args->given[KEYS_JSON] };
	char room[KVD_KEY_BYTES_MAX];
	struct cli_word prefix;
	kvd_session *session;
	int result, status;

	if (listing.json && (listing.with_bytes || listing.zero_ended))
		return cli_fail(cli, CLI_USAGE, "keys: --json has the length, and ends lines; give it "
						"without --long and --null");
	if (!take_prefix(cli, args, &prefix, room))
		return CLI_USAGE;
	session = cli_connect(cli, &status);
	if (!session)
		return status;
	result = kvd_keys(session, prefix.data, prefix.bytes, key_line, &listing);
	return result < 0 ? cli_fail_session(cli, result) : CLI_DONE;
}

const struct cli_command cli_keys = {
	.name = "keys",
	.arguments = "[PATTERN]",
	.summary = "list keys",
	.help = "Prints keys, one a line, in no order. In a PATTERN * is any characters, ? is\n"
		"one, [a-z] one of these, [!a-z] none of these; quote it from the shell. A key\n"
		"that is no plain text or begins with \" is quoted as the shell of kvcli reads\n"
		"it. A key may be printed twice while keys come and go: use sort -u.",
	.options = keys_options,
	.operands_max = 1,
	.run = run_keys,
};

static void take_keys(void *arg, const char *path, const char *value)
{
	if (strcmp(path, "keys") == 0)
		snprintf(arg, 32, "%.31s", value);
}

/* How many keys there are, as text; "" if that can't be learnt. */
static void count_keys(kvd_session *session, char count[32])
{
	char *json;

	count[0] = '\0';
	if (kvd_stats(session, &json) < 0)
		return;
	cli_json_each(json, take_keys, count);
	free(json);
}

/* When all keys go. */
struct flush {
	bool later;
	uint64_t unix_ms; /* 0: never */
	char when[32];    /* for people; "": now */
};

static uint64_t unix_ms_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static const char never[] = "never"; /* an option's word is literal */

static int read_at(struct cli *cli, const struct cli_word *word, struct flush *f)
{
	if (word->bytes == strlen(never) && memcmp(word->data, never, word->bytes) == 0)
		return CLI_DONE;
	if (!cli_args_unix_time(word, KVD_UNIX_MS_MAX, &f->unix_ms))
		return cli_fail(cli, CLI_USAGE,
				"--at wants 2026-12-31T23:59:59Z, a Unix time in seconds, or never");
	if (f->unix_ms <= unix_ms_now())
		return cli_fail(cli, CLI_USAGE, "--at is over; flush without it deletes now");
	return CLI_DONE;
}

static int read_delay(struct cli *cli, const struct cli_word *word, struct flush *f)
{
	uint64_t now = unix_ms_now();

	if (!cli_source_ttl(cli, "--delay", word, &f->unix_ms))
		return CLI_USAGE;
	f->unix_ms = f->unix_ms < KVD_UNIX_MS_MAX - now ? f->unix_ms + now : KVD_UNIX_MS_MAX;
	return CLI_DONE;
}

/* CLI_DONE, or the status after the error was told. */
static int read_flush(struct cli *cli, const struct cli_args *args, struct flush *f)
{
	struct tm tm;
	int status;

	f->later = args->given[FLUSH_AT] || args->given[FLUSH_DELAY];
	if (!f->later)
		return CLI_DONE;
	if (args->given[FLUSH_AT] && args->given[FLUSH_DELAY])
		return cli_fail(cli, CLI_USAGE, "--at and --delay: give one of the two");
	status = args->given[FLUSH_AT] ? read_at(cli, &args->option[FLUSH_AT], f)
				       : read_delay(cli, &args->option[FLUSH_DELAY], f);
	if (status == CLI_DONE && f->unix_ms)
		strftime(f->when, sizeof f->when, "%Y-%m-%dT%H:%M:%SZ",
			 gmtime_r(&(time_t){ (time_t)(f->unix_ms / 1000) }, &tm));
	return status;
}

static bool confirm(struct cli *cli, kvd_session *session, const struct flush *f)
{
	char count[32], answer[16];

	count_keys(session, count);
	fprintf(stderr, "Delete all %s%skeys of %s%s%s? [y/N] ", count, *count ? " " : "",
		cli->server, f->later ? " at " : "", f->when);
	fflush(stderr);
	if (!fgets(answer, sizeof answer, stdin)) {
		fputc('\n', stderr);
		return false;
	}
	return strcmp(answer, "y\n") == 0 || strcmp(answer, "yes\n") == 0;
}

static int flush(struct cli *cli, kvd_session *session, const struct flush *f)
{
	int result = f->later ? kvd_flush_at(session, f->unix_ms) : kvd_flush(session);

	if (result < 0)
		return cli_fail_session(cli, result);
	if (!f->later)
		return cli_ok(cli);
	if (f->unix_ms)
		printf("every key goes at %s\n", f->when);
	else
		puts("no flush is to come");
	return CLI_DONE;
}

static int run_flush(struct cli *cli, const struct cli_args *args)
{
	struct flush f = { 0 };
	int status = read_flush(cli, args, &f);
	bool yes = args->given[FLUSH_YES] || (f.later && !f.unix_ms);
	kvd_session *session;

	if (status != CLI_DONE)
		return status;
	if (!yes && !isatty(0))
		return cli_fail(cli, CLI_USAGE, "flush deletes every key, and nobody can be asked "
						"here. Nothing was deleted. --yes deletes them");
	session = cli_connect(cli, &status);
	if (!session)
		return status;
	if (!yes && !confirm(cli, session, &f)) {
		puts("nothing was deleted");
		return CLI_FALSE;
	}
	return flush(cli, session, &f);
}

const struct cli_command cli_flush = {
	.name = "flush",
	.arguments = "",
	.summary = "delete every key",
	.help = "Deletes every key, now or at a time by the server's clock: what is there then\n"
		"goes, what is stored later stays. The server knows one such time. Another takes\n"
		"its place, --at never takes it away, and a restart of the server forgets it.\n"
		"On a terminal it asks first. Elsewhere it wants --yes.",
	.options = flush_options,
	.run = run_flush,
};

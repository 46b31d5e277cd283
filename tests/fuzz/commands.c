/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * commands.c -- each command of kvcli that asks kvd, in this process.  Nothing that kvd
 * says may lead a command to write outside the folder that it was given.
 */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/command/table.h"
#include "client/cli/session/cli.h"
#include "client/cli/text/word.h"
#include "tests/fuzz/calls.h"
#include "tests/fuzz/fuzz.h"

/* Where a command is to stay: a folder in one that holds nothing else. */
static char base[PATH_MAX], folder[PATH_MAX + 8];

static const char *const commands[] = {
	"put key value", "put key value --ttl 5", "get key", "get key --output \"$\"/value",
	"del key other", "exists key", "keys", "keys --prefix k --long", "flush --yes",
	"lock key -- true", "update key -- cat", "put-tree \"$\"/tree", "get-tree \"$\"/tree",
	"get-tree \"$\"/tree --prefix key", "check-tree \"$\"/tree", "backup /nowhere",
	"export \"$\"/dump", "export - --json", "export - --json --prefix k", "ping -n 2",
	"info", "stats", "stats --json", "top --count 1", "txn --file \"$\"/batch",
};

int __real_kvd_client_new(const char *server, const struct kvd_options *options,
			  kvd_client **client);
int __wrap_kvd_client_new(const char *server, const struct kvd_options *options,
			  kvd_client **client);

/* Some commands take a second client: it is of the same kvd. */
int __wrap_kvd_client_new(const char *server, const struct kvd_options *options,
			  kvd_client **client)
{
	struct kvd_options o = *options;

	o.device = NULL;
	o.credentials = "";
	int rc = __real_kvd_client_new(server, &o, client);
	if (!rc)
		fuzz_device(*client);
	return rc;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void remove_all(void)
{
	nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void begin(void)
{
	const char *tmp = getenv("TMPDIR");
	char path[PATH_MAX + 32];

	snprintf(base, sizeof base, "%s/kvd-fuzz.XXXXXX", tmp ? tmp : "/tmp");
	FUZZ_CHECK(mkdtemp(base));
	snprintf(folder, sizeof folder, "%s/in", base);
	FUZZ_CHECK(!mkdir(folder, 0700));
	snprintf(path, sizeof path, "%s/tree", folder);
	FUZZ_CHECK(!mkdir(path, 0700));
	snprintf(path, sizeof path, "%s/batch", folder);
	FILE *f = fopen(path, "we");
	FUZZ_CHECK(f && fputs("get a\nput b c\n", f) >= 0 && !fclose(f));
	atexit(remove_all);
}

/* Nothing is beside the folder. */
static void check_base(void)
{
	DIR *d = opendir(base);
	const struct dirent *e;

	FUZZ_CHECK(d);
	while ((e = readdir(d)))
		FUZZ_CHECK(e->d_name[0] == '.' || !strcmp(e->d_name, "in"));
	closedir(d);
}

/* Standard output and error to nowhere, or back to what they were. */
static void silence(int kept[2], bool quiet)
{
	fflush(stdout);
	fflush(stderr);
	for (int i = 0; i < 2; i++) {
		if (quiet)
			kept[i] = fcntl(1 + i, F_DUPFD_CLOEXEC, 10);
		int to = quiet ? open("/dev/null", O_WRONLY | O_CLOEXEC) : kept[i];
		FUZZ_CHECK(to >= 0 && dup2(to, 1 + i) >= 0);
		close(to);
	}
}

static void run(struct cli *cli, const char *command)
{
	char line[sizeof folder + 64], error[160];
	struct cli_words words = { 0 };
	size_t used = 0;

	for (const char *c = command; *c; c++) {
		if (*c == '$')
			used += (size_t)snprintf(line + used, sizeof line - used, "%s", folder);
		else
			line[used++] = *c;
	}
	FUZZ_CHECK(cli_word_split(&words, line, used, error, sizeof error));
	int status = cli_command_run(cli, words.word, words.count);
	FUZZ_CHECK(status >= 0 && status < 128);
	cli_words_free(&words);
}

void fuzz_call(kvd_client **client, kvd_session **session, unsigned which)
{
	struct cli cli = { .server = "127.0.0.1:1", .timeout_ms = 10, .client = *client,
			   .session = *session };
	int kept[2];

	if (!*base)
		begin();
	silence(kept, true);
	run(&cli, commands[which % (sizeof commands / sizeof *commands)]);
	silence(kept, false);
	*client = cli.client;
	*session = cli.session;
	check_base();
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli user: changes the users file of a kvd on this machine. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "client/cli/command/server.h"
#include "client/cli/session/answer.h"
#include "client/cli/text/json_write.h"
#include "client/cli/text/word.h"
#include "common/auth/file.h"

enum { USER_USERS, USER_OUTPUT, USER_JSON };

static const struct cli_option user_options[] = {
	[USER_USERS] = { "users", 'u', "FILE", "kvd's users file; default $KVD_USERS_FILE" },
	[USER_OUTPUT] = { "output", 'o', "FILE", "credentials into this new file, of mode 600" },
	[USER_JSON] = { "json", 'j', NULL, "the list: a line of JSON for each user" },
	{ 0 },
};

struct edit {
	struct cli *cli;
	char *path;
	char *output;  /* where credentials go; NULL: standard output */
	bool json;
	int folder_fd; /* locked: two that change the file must not meet */
	struct users *users;
};

static int begin(struct edit *e, struct err *err)
{
	char *copy = strdup(e->path);

	if (!copy || auth_init())
		return err_set(err, -1, "out of memory");
	e->folder_fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(copy);
	if (e->folder_fd >= 0)
		flock(e->folder_fd, LOCK_EX);
	return users_load_to_edit(e->path, &e->users, err);
}

static void print_credentials(const struct credentials *c)
{
	char line[CREDENTIALS_BYTES_MAX];

	credentials_format(c, line);
	puts(line);
	auth_wipe(line, sizeof line);
}

/* The file of the credentials comes first: what can't be handed out is not made. */
static int save(struct edit *e, const struct credentials *c, struct err *err)
{
	int fd = e->output ? credentials_create(e->output, err) : -1;

	if (e->output && fd < 0)
		return -1;
	if (!users_save(e->users, e->path, false, err)) {
		if (e->output)
			return credentials_write(c, fd, e->output, err);
		print_credentials(c);
		return 0;
	}
	if (e->output) {
		close(fd);
		unlink(e->output);
	}
	return -1;
}

/* A new user, or with ROLE_NONE a new key of an old one. */
static int add(struct edit *e, const char *name, enum role role, struct err *err)
{
	struct credentials c = { .server = e->users->key };
	int rc = users_add(e->users, name, role, &c.secret, err);

	if (!rc) {
		memcpy(c.name, name, strlen(name));
		rc = save(e, &c, err);
	}
	auth_wipe(&c, sizeof c);
	return rc;
}

static int discard(struct edit *e, const char *name, struct err *err)
{
	return users_remove(e->users, name, err) || users_save(e->users, e->path, false, err);
}

static void print_user(const struct edit *e, const char *name, const char *role)
{
	struct cli_json json = { .to = stdout };

	if (!e->json) {
		printf("%-32s %s\n", name, role);
		return;
	}
	cli_json_open(&json, NULL, '{');
	cli_json_text(&json, "name", name);
	cli_json_text(&json, "role", role);
	cli_json_end(&json);
}

static int list(const struct edit *e)
{
	for (unsigned i = 0; i < e->users->count; i++)
		print_user(e, e->users->user[i].name, role_name(e->users->user[i].role));
	return 0;
}

static int wrong_use(struct cli *cli)
{
	return cli_fail(cli, CLI_USAGE, "user: usage: user add NAME ROLE [--output FILE] | user remove NAME | user "
			"passwd NAME | user list [--json]; ROLE is read, write or admin");
}

static int run(struct edit *e, const struct cli_args *args, char **word)
{
	const struct cli_word *what = &args->operand[0];
	size_t n = args->count;
	struct err err;
	int rc;

	if (cli_word_is(what, "add") && n == 3) {
		enum role role = role_parse(word[2], strlen(word[2]));
		if (role == ROLE_NONE)
			return wrong_use(e->cli);
		rc = begin(e, &err) || add(e, word[1], role, &err);
	} else if (cli_word_is(what, "passwd") && n == 2) {
		rc = begin(e, &err) || add(e, word[1], ROLE_NONE, &err);
	} else if (cli_word_is(what, "remove") && n == 2) {
		rc = begin(e, &err) || discard(e, word[1], &err);
	} else if (cli_word_is(what, "list") && n == 1) {
		rc = begin(e, &err) || list(e);
	} else {
		return wrong_use(e->cli);
	}
	return rc ? cli_fail(e->cli, CLI_USAGE, "user: %s", err.text) : CLI_DONE;
}

static int run_user(struct cli *cli, const struct cli_args *args)
{
	struct edit e = { .cli = cli, .json = args->given[USER_JSON], .folder_fd = -1 };
	const char *named = getenv("KVD_USERS_FILE");
	char *word[3] = { NULL };
	int status = CLI_USAGE;

	e.path = args->given[USER_USERS] ? cli_word_string(&args->option[USER_USERS])
		 : named		     ? strdup(named)
					     : NULL;
	if (args->given[USER_OUTPUT])
		e.output = cli_word_string(&args->option[USER_OUTPUT]);
	for (size_t i = 0; i < args->count; i++)
		word[i] = cli_word_string(&args->operand[i]);
	if (!e.path)
		cli_fail(cli, CLI_USAGE, "user: --users FILE or KVD_USERS_FILE says which file");
	else if (args->given[USER_OUTPUT] && !e.output)
		cli_fail(cli, CLI_USAGE, "user: no memory, or a zero byte in the path");
	else if ((args->count > 1 && !word[1]) || (args->count > 2 && !word[2]))
		wrong_use(cli);
	else
		status = run(&e, args, word);
	if (e.folder_fd >= 0)
		close(e.folder_fd);
	users_delete(&e.users);
	for (size_t i = 0; i < args->count; i++)
		free(word[i]);
	free(e.path);
	free(e.output);
	return status;
}

const struct cli_command cli_user = {
	.name = "user",
	.arguments = "add NAME ROLE | remove NAME | passwd NAME | list",
	.summary = "change kvd's users",
	.help = "Changes the users file of a kvd on this machine. kvd notices at once. ROLE is\n"
		"read, write or admin. add makes a user, passwd a new key for a user. Both print\n"
		"the user's credentials, or write them to a new FILE. remove and passwd cut off\n"
		"the user's connections. It needs no server.",
	.options = user_options,
	.operands_min = 1,
	.operands_max = 3,
	.run = run_user,
};

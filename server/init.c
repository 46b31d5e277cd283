/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/init.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/auth/file.h"
#include "common/opt.h"

static void print_help(const struct opt *table)
{
	printf("kvd init - makes a users file with a first user, who may do everything\n"
	       "usage: kvd init --users FILE [--user NAME] [--output FILE]\n\n");
	opt_print_help(table);
	printf("\nWithout --output the user's credentials go to standard output: keep them in a file\n"
	       "of mode 600.\n"
	       "More users: kvcli user add.\n");
}

static int print(const struct credentials *c, const char *path, struct err *err)
{
	char line[CREDENTIALS_BYTES_MAX];

	credentials_format(c, line);
	int rc = printf("%s\n", line) < 0 || fflush(stdout)
			 ? err_set(err, -1, "can't write the credentials: they are lost; remove %s and "
				   "begin again", path)
			 : 0;
	auth_wipe(line, sizeof line);
	return rc;
}

struct init {
	const char *path, *name;
	const char *output; /* NULL: standard output */
};

/* The file of the credentials comes first: what can't be handed out is not made. */
static int make_files(const struct init *i, const struct users *users, struct credentials *c,
		      struct err *err)
{
	int fd = i->output ? credentials_create(i->output, err) : -1;

	if (i->output && fd < 0)
		return -1;
	memcpy(c->name, i->name, strlen(i->name));
	c->server = users->key;
	if (!users_save(users, i->path, true, err))
		return i->output ? credentials_write(c, fd, i->output, err) : print(c, i->path, err);
	if (i->output) {
		close(fd);
		unlink(i->output);
	}
	return -1;
}

static int make(const struct init *i, struct err *err)
{
	struct users *users = users_new();
	struct credentials c = { 0 };
	int rc;

	if (!users)
		return err_set(err, -1, "out of memory");
	rc = users_add(users, i->name, ROLE_ADMIN, &c.secret, err) ||
			     make_files(i, users, &c, err)
		     ? -1
		     : 0;
	auth_wipe(&c, sizeof c);
	users_delete(&users);
	return rc;
}

/* What is to be done now. */
static void tell(const struct init *i)
{
	fprintf(stderr, "kvd init: made %s; start kvd --users %s.  ", i->path, i->path);
	if (i->output)
		fprintf(stderr, "Clients of %s need\n%s: named by --credentials or KVD_CREDENTIALS_FILE.\n",
			i->name, i->output);
	else
		fprintf(stderr, "Clients of %s need the line that\n"
			"was printed: in a file of mode 600 named by --credentials or\n"
			"KVD_CREDENTIALS_FILE, or in KVD_CREDENTIALS.\n", i->name);
}

int init_run(int argc, char **argv)
{
	struct init i = { .name = "admin" };
	bool help = false;
	char error[512];
	struct err err;
	const struct opt table[] = {
		{ "users", 'u', OPT_STRING, &i.path, 0, 0, NULL, "FILE", "the file to make" },
		{ "user", 0, OPT_STRING, &i.name, 0, 0, NULL, "NAME", "the first user (admin)" },
		{ "output", 'o', OPT_STRING, &i.output, 0, 0, NULL, "FILE",
		  "the user's credentials into this new file, of mode 600" },
		{ "help", 'h', OPT_FLAG, &help, 0, 0, NULL, NULL, "show this help" },
		{ 0 },
	};
	int first = opt_parse(table, argc, argv, error, sizeof error);

	if (first >= 0 && help) {
		print_help(table);
		return 0;
	}
	if (first >= 0 && (first < argc || !i.path)) {
		snprintf(error, sizeof error, "%s", i.path ? "init takes no other arguments"
							   : "--users says which file to make");
		first = -1;
	}
	if (first < 0) {
		fprintf(stderr, "kvd init: %s\nTry 'kvd init --help'.\n", error);
		return 2;
	}
	if (auth_init()) {
		fprintf(stderr, "kvd init: libsodium does not start\n");
		return 1;
	}
	if (make(&i, &err)) {
		fprintf(stderr, "kvd init: %s\n", err.text);
		return 1;
	}
	tell(&i);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/init.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/auth/file.h"
#include "common/opt.h"

static void print_help(const struct opt *table)
{
	printf("kvd init - makes a users file with a first user, who may do everything\n"
	       "usage: kvd init --users FILE [--user NAME]\n\n");
	opt_print_help(table);
	printf("\nThe user's credentials go to standard output: keep them in a file of mode 600.\n"
	       "More users: kvcli user add.\n");
}

static int make(const char *path, const char *name, struct err *err)
{
	struct users *users = users_new();
	struct credentials c = { 0 };
	char line[CREDENTIALS_BYTES_MAX];
	int rc = -1;

	if (!users)
		return err_set(err, -1, "out of memory");
	if (!users_add(users, name, ROLE_ADMIN, &c.secret, err) &&
	    !users_save(users, path, true, err)) {
		memcpy(c.name, name, strlen(name));
		c.server = users->key;
		credentials_format(&c, line);
		rc = printf("%s\n", line) < 0 || fflush(stdout)
			     ? err_set(err, -1, "can't write the credentials: they are lost; remove %s and "
				       "begin again", path)
			     : 0;
		auth_wipe(line, sizeof line);
	}
	auth_wipe(&c, sizeof c);
	users_delete(&users);
	return rc;
}

int init_run(int argc, char **argv)
{
	const char *path = NULL, *name = "admin";
	bool help = false;
	char error[512];
	struct err err;
	const struct opt table[] = {
		{ "users", 'u', OPT_STRING, &path, 0, 0, NULL, "FILE", "the file to make" },
		{ "user", 0, OPT_STRING, &name, 0, 0, NULL, "NAME", "the first user (admin)" },
		{ "help", 'h', OPT_FLAG, &help, 0, 0, NULL, NULL, "show this help" },
		{ 0 },
	};
	int first = opt_parse(table, argc, argv, error, sizeof error);

	if (first >= 0 && help) {
		print_help(table);
		return 0;
	}
	if (first >= 0 && (first < argc || !path)) {
		snprintf(error, sizeof error, "%s", path ? "init takes no other arguments"
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
	if (make(path, name, &err)) {
		fprintf(stderr, "kvd init: %s\n", err.text);
		return 1;
	}
	fprintf(stderr, "kvd init: made %s; start kvd --users %s.  Clients of %s need the line that\n"
			"was printed: in a file of mode 600 named by --credentials or\n"
			"KVD_CREDENTIALS_FILE, or in KVD_CREDENTIALS.\n", path, path, name);
	return 0;
}

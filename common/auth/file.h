/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * file.h -- the two files of authentication: kvd's users, and a user's
 * credentials.  Both are text, and refused if others than their owner can read them.
 *
 * The users file, made by `kvd init`, changed by `kvcli user`:
 *
 *     # comment
 *     server SECRET
 *     user NAME ROLE KEY
 *
 * where SECRET is kvd's, KEY a user's public key, ROLE read, write or admin.
 *
 * Credentials are one line: kvd1:NAME:SECRET:KEY, of the user's secret and kvd's
 * public key.
 */
#ifndef COMMON_AUTH_FILE_H
#define COMMON_AUTH_FILE_H

#include "common/auth/auth.h"
#include "common/err.h"

/* In the order of what they may do. */
enum role { ROLE_NONE, ROLE_READ, ROLE_WRITE, ROLE_ADMIN };
const char *role_name(enum role role);
enum role role_parse(const char *text, size_t bytes); /* ROLE_NONE: there is no such role */

#define USERS_MAX 4096u
#define USERS_FILE_BYTES_MAX (1u << 20)
#define CREDENTIALS_BYTES_MAX 256u

struct user {
	char name[AUTH_NAME_BYTES_MAX + 1];
	enum role role;
	struct auth_key key;
};

struct users {
	struct auth_secret secret; /* kvd's own */
	struct auth_key key;
	struct user *user;
	unsigned count;
};

/* A fresh one, with a new secret and no users; NULL: no memory. */
struct users *users_new(void);
void users_delete(struct users **users);
/* `what` names the file in errors, with the line.  0, or -1 after setting err. */
int users_parse(const char *text, size_t bytes, const char *what, struct users **users,
		struct err *err);
/* Checks that nobody but its owner may read the file, and parses it. */
int users_load(const char *path, struct users **users, struct err *err);
/* The same for a program that edits the file: root may, though the file belongs to kvd's
 * own user. */
int users_load_to_edit(const char *path, struct users **users, struct err *err);
/* Whole or not at all, mode 0600, the owner as before.  must_be_new: an existing file is
 * an error. */
int users_save(const struct users *users, const char *path, bool must_be_new, struct err *err);

struct user *users_find(const struct users *users, const char *name, size_t bytes);
/* A new user with a new key, or a new key of an old one (ROLE_NONE: the role stays);
 * *secret is the caller's.  0, or -1 after setting err. */
int users_add(struct users *users, const char *name, enum role role, struct auth_secret *secret,
	      struct err *err);
int users_remove(struct users *users, const char *name, struct err *err);

struct credentials {
	char name[AUTH_NAME_BYTES_MAX + 1];
	struct auth_secret secret;
	struct auth_key server;
};

/* One line, with or without its end. */
int credentials_parse(const char *text, size_t bytes, const char *what, struct credentials *c,
		      struct err *err);
int credentials_load(const char *path, struct credentials *c, struct err *err);
/* Into buf of CREDENTIALS_BYTES_MAX, without a line's end. */
void credentials_format(const struct credentials *c, char *buf);
/* The descriptor of a new file of mode 0600, for credentials_write(); or -1 after setting
 * err: what is there, if only a link, is never written to. */
int credentials_create(const char *path, struct err *err);
/* One line, on disk; it closes fd, and a file that can't be written goes away.  0, or -1
 * after setting err. */
int credentials_write(const struct credentials *c, int fd, const char *path, struct err *err);

#endif

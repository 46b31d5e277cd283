/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/auth/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/beside.h"

static const char *const role_names[] = { NULL, "read", "write", "admin" };

const char *role_name(enum role role)
{
	return role > ROLE_NONE && role <= ROLE_ADMIN ? role_names[role] : "none";
}

enum role role_parse(const char *text, size_t bytes)
{
	for (int r = ROLE_READ; r <= ROLE_ADMIN; r++)
		if (strlen(role_names[r]) == bytes && memcmp(role_names[r], text, bytes) == 0)
			return (enum role)r;
	return ROLE_NONE;
}

/* -------------------------------------------------------------------- files */

/* A secret's file has to be readable by its owner only, who is this user or root. */
static int check_private(int fd, const char *path, bool any_owner, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st))
		return err_set_errno(err, -1, errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -1, "%s is no regular file", path);
	if (st.st_mode & 077)
		return err_set(err, -1, "%s holds secrets, but others than its owner may read or change it "
			       "(mode %03o): chmod 600 %s", path, (unsigned)(st.st_mode & 0777), path);
	if (!any_owner && st.st_uid != geteuid() && st.st_uid != 0)
		return err_set(err, -1, "%s belongs to another user (uid %u): chown it", path,
			       (unsigned)st.st_uid);
	return 0;
}

/* The text is the caller's to wipe and to free. */
static int read_private(const char *path, bool any_owner, size_t bytes_max, char **text,
			size_t *bytes, struct err *err)
{
	/* Not to wait for a pipe's writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char *buf = malloc(bytes_max + 1);
	size_t used = 0;
	ssize_t n = 0;
	int rc = -1;

	if (fd < 0 || !buf) {
		err_set_errno(err, -1, fd < 0 ? errno : ENOMEM, "can't read %s", path);
		goto out;
	}
	if (check_private(fd, path, any_owner, err))
		goto out;
	while (used <= bytes_max && (n = read(fd, buf + used, bytes_max + 1 - used)) > 0)
		used += (size_t)n;
	if (n < 0)
		err_set_errno(err, -1, errno, "can't read %s", path);
	else if (used > bytes_max)
		err_set(err, -1, "%s is longer than %zu bytes", path, bytes_max);
	else
		rc = 0;
out:
	if (fd >= 0)
		close(fd);
	if (rc) {
		if (buf)
			auth_wipe(buf, used);
		free(buf);
		return rc;
	}
	*text = buf;
	*bytes = used;
	return 0;
}

/* -------------------------------------------------------------------- users */

struct users *users_new(void)
{
	struct users *u = calloc(1, sizeof *u);

	if (u)
		auth_new(&u->secret, &u->key);
	return u;
}

void users_delete(struct users **users)
{
	struct users *u = *users;

	if (!u)
		return;
	free(u->user);
	auth_wipe(u, sizeof *u);
	free(u);
	*users = NULL;
}

struct user *users_find(const struct users *u, const char *name, size_t bytes)
{
	for (unsigned i = 0; i < u->count; i++)
		if (strlen(u->user[i].name) == bytes && memcmp(u->user[i].name, name, bytes) == 0)
			return &u->user[i];
	return NULL;
}

static int append(struct users *u, const struct user *user, struct err *err)
{
	if (u->count == USERS_MAX)
		return err_set(err, -1, "there are %u users already, and no more can be", USERS_MAX);
	if ((u->count & (u->count - 1)) == 0) {
		struct user *more = realloc(u->user, (u->count ? 2 * u->count : 1) * sizeof *more);
		if (!more)
			return err_set(err, -1, "out of memory");
		u->user = more;
	}
	u->user[u->count++] = *user;
	return 0;
}

/* The words of a line, at most `max`; one more if there are more. */
struct word {
	const char *at;
	size_t bytes;
};

static unsigned split(const char *at, const char *end, struct word *words, unsigned max)
{
	unsigned n = 0;

	while (at < end) {
		while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
			at++;
		if (at == end)
			break;
		if (n == max)
			return max + 1;
		words[n].at = at;
		while (at < end && *at != ' ' && *at != '\t' && *at != '\r')
			at++;
		words[n].bytes = (size_t)(at - words[n].at);
		n++;
	}
	return n;
}

static bool is_word(const struct word *w, const char *text)
{
	return w->bytes == strlen(text) && memcmp(w->at, text, w->bytes) == 0;
}

static const char *parse_user(struct users *u, const struct word *w, struct err *err)
{
	struct user user = { .role = role_parse(w[2].at, w[2].bytes) };

	if (!auth_name_is_good(w[1].at, w[1].bytes))
		return "a name has 1 to 32 letters, digits, '.', '_', '-'";
	if (user.role == ROLE_NONE)
		return "a role is read, write or admin";
	if (!auth_from_text(w[3].at, w[3].bytes, user.key.bytes))
		return "the key is none";
	if (users_find(u, w[1].at, w[1].bytes))
		return "this user stands there twice";
	memcpy(user.name, w[1].at, w[1].bytes);
	return append(u, &user, err) ? err->text : NULL;
}

/* What is wrong with a line, or NULL. */
static const char *parse_line(struct users *u, bool *has_secret, const char *at, const char *end,
			      struct err *err)
{
	struct word w[4];
	unsigned n = split(at, end, w, 4);

	if (n == 0 || *w[0].at == '#')
		return NULL;
	if (n == 2 && is_word(&w[0], "server")) {
		if (*has_secret)
			return "a second line 'server'";
		*has_secret = auth_from_text(w[1].at, w[1].bytes, u->secret.bytes);
		if (*has_secret)
			auth_key_of(&u->secret, &u->key);
		return *has_secret ? NULL : "the server's secret is none";
	}
	if (n == 4 && is_word(&w[0], "user"))
		return parse_user(u, w, err);
	return "a line is 'server SECRET' or 'user NAME ROLE KEY'";
}

int users_parse(const char *text, size_t bytes, const char *what, struct users **users,
		struct err *err)
{
	const char *at = text, *end = text + bytes;
	struct users *u = calloc(1, sizeof *u);
	bool has_secret = false;
	struct err why;

	if (!u)
		return err_set(err, -1, "out of memory");
	for (unsigned line = 1; at < end; line++) {
		const char *eol = memchr(at, '\n', (size_t)(end - at));
		const char *wrong = parse_line(u, &has_secret, at, eol ? eol : end, &why);
		if (wrong) {
			err_set(err, -1, "%s:%u: %s", what, line, wrong);
			users_delete(&u);
			return -1;
		}
		at = eol ? eol + 1 : end;
	}
	if (!has_secret) {
		users_delete(&u);
		return err_set(err, -1, "%s has no line 'server SECRET': 'kvd init' makes such a file",
			       what);
	}
	*users = u;
	return 0;
}

static int load_users(const char *path, bool any_owner, struct users **users, struct err *err)
{
	char *text;
	size_t bytes;
	int rc = read_private(path, any_owner, USERS_FILE_BYTES_MAX, &text, &bytes, err);

	if (rc)
		return rc;
	rc = users_parse(text, bytes, path, users, err);
	auth_wipe(text, bytes);
	free(text);
	return rc;
}

int users_load(const char *path, struct users **users, struct err *err)
{
	return load_users(path, false, users, err);
}

int users_load_to_edit(const char *path, struct users **users, struct err *err)
{
	return load_users(path, geteuid() == 0, users, err);
}

static bool write_users(FILE *f, const struct users *u)
{
	char text[AUTH_TEXT_BYTES];

	auth_to_text(u->secret.bytes, text);
	bool ok = fprintf(f, "# kvd's secret and its users' public keys: see kvd(8), kvcli user.\n"
			     "server %s\n", text) > 0;
	auth_wipe(text, sizeof text);
	for (unsigned i = 0; ok && i < u->count; i++) {
		auth_to_text(u->user[i].key.bytes, text);
		ok = fprintf(f, "user %s %s %s\n", u->user[i].name, role_name(u->user[i].role),
			     text) > 0;
	}
	return ok;
}

int users_save(const struct users *u, const char *path, bool must_be_new, struct err *err)
{
	char tmp[4096], buffer[BUFSIZ];
	struct stat old;
	bool had = stat(path, &old) == 0;

	if (must_be_new && had)
		return err_set(err, -1, "%s is there already: it stays as it is", path);
	if (strlen(path) + BESIDE_BYTES > sizeof tmp)
		return err_set(err, -1, "the path is too long: %s", path);
	int fd = beside_create(AT_FDCWD, path, 0600, tmp, sizeof tmp);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f) {
		err_set_errno(err, -1, errno, "can't write %s", path);
		if (fd >= 0) {
			close(fd);
			unlink(tmp);
		}
		return -1;
	}
	setvbuf(f, buffer, _IOFBF, sizeof buffer); /* the secret goes through it */
	bool ok = write_users(f, u) && fflush(f) == 0 && fsync(fd) == 0;
	/* kvd must be able to read it when root changed it. */
	if (ok && had && old.st_uid != geteuid())
		ok = fchown(fd, old.st_uid, old.st_gid) == 0;
	ok &= fclose(f) == 0;
	auth_wipe(buffer, sizeof buffer);
	if (ok && must_be_new)
		ok = link(tmp, path) == 0 && unlink(tmp) == 0;
	else if (ok)
		ok = rename(tmp, path) == 0;
	if (ok)
		return 0;
	err_set_errno(err, -1, errno, "can't write %s", path);
	unlink(tmp);
	return -1;
}

int users_add(struct users *u, const char *name, enum role role, struct auth_secret *secret,
	      struct err *err)
{
	struct user *old = users_find(u, name, strlen(name));
	struct user user = { .role = role };

	if (!auth_name_is_good(name, strlen(name)))
		return err_set(err, -1, "'%s' is no name: 1 to %u letters, digits, '.', '_', '-'", name,
			       AUTH_NAME_BYTES_MAX);
	if (role != ROLE_NONE && old)
		return err_set(err, -1, "there is a user %s already", name);
	if (role == ROLE_NONE && !old)
		return err_set(err, -1, "there is no user %s", name);
	auth_new(secret, &user.key);
	if (old) {
		old->key = user.key;
		return 0;
	}
	memcpy(user.name, name, strlen(name));
	return append(u, &user, err);
}

int users_remove(struct users *u, const char *name, struct err *err)
{
	struct user *user = users_find(u, name, strlen(name));

	if (!user)
		return err_set(err, -1, "there is no user %s", name);
	u->count--;
	memmove(user, user + 1, (size_t)(u->user + u->count - user) * sizeof *user);
	/* append() takes a power of two for a full array. */
	return 0;
}

/* -------------------------------------------------------------- credentials */

static const char credentials_magic[] = "kvd1";

static int no_credentials(struct err *err, const char *what)
{
	return err_set(err, -1, "%s is no line of credentials (kvd1:NAME:SECRET:KEY, as 'kvd init' and "
		       "'kvcli user add' print it)", what);
}

int credentials_parse(const char *text, size_t bytes, const char *what, struct credentials *c,
		      struct err *err)
{
	const char *part[4], *at = text;
	size_t length[4];

	memset(c, 0, sizeof *c);
	while (bytes && (text[bytes - 1] == '\n' || text[bytes - 1] == '\r'))
		bytes--;
	const char *end = text + bytes;
	for (unsigned i = 0; i < 4; i++) {
		const char *colon = memchr(at, ':', (size_t)(end - at));
		if ((i < 3) != (colon != NULL))
			return no_credentials(err, what);
		part[i] = at;
		length[i] = (size_t)((colon ? colon : end) - at);
		at = colon ? colon + 1 : end;
	}
	if (length[0] != sizeof credentials_magic - 1 ||
	    memcmp(part[0], credentials_magic, length[0]) != 0 ||
	    !auth_name_is_good(part[1], length[1]) ||
	    !auth_from_text(part[2], length[2], c->secret.bytes) ||
	    !auth_from_text(part[3], length[3], c->server.bytes)) {
		auth_wipe(c, sizeof *c);
		return no_credentials(err, what);
	}
	memcpy(c->name, part[1], length[1]);
	return 0;
}

int credentials_load(const char *path, struct credentials *c, struct err *err)
{
	char *text;
	size_t bytes;
	int rc = read_private(path, false, CREDENTIALS_BYTES_MAX, &text, &bytes, err);

	if (rc)
		return rc;
	rc = credentials_parse(text, bytes, path, c, err);
	auth_wipe(text, bytes);
	free(text);
	return rc;
}

void credentials_format(const struct credentials *c, char *buf)
{
	char secret[AUTH_TEXT_BYTES], server[AUTH_TEXT_BYTES];

	auth_to_text(c->secret.bytes, secret);
	auth_to_text(c->server.bytes, server);
	snprintf(buf, CREDENTIALS_BYTES_MAX, "%s:%s:%s:%s", credentials_magic, c->name, secret,
		 server);
	auth_wipe(secret, sizeof secret);
}

int credentials_create(const char *path, struct err *err)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 && errno == EEXIST)
		return err_set(err, -1, "%s is there already: it stays as it is", path);
	return fd < 0 ? err_set_errno(err, -1, errno, "can't write %s", path) : fd;
}

int credentials_write(const struct credentials *c, int fd, const char *path, struct err *err)
{
	char line[CREDENTIALS_BYTES_MAX];

	credentials_format(c, line);
	bool ok = dprintf(fd, "%s\n", line) > 0 && fsync(fd) == 0;
	int error = errno;
	auth_wipe(line, sizeof line);
	if (close(fd) && ok) {
		ok = false;
		error = errno;
	}
	if (ok)
		return 0;
	unlink(path);
	return err_set_errno(err, -1, error, "can't write %s", path);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/conn/auth.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct auth {
	unsigned count;
	/* As a client sends them, filled up with zeros. */
	char text[AUTH_USERS_MAX][AUTH_LINE_BYTES_MAX];
};

/* All of it, whatever differs: the time tells nothing. */
static bool is_same(const char *a, const char *b)
{
	unsigned differs = 0;

	for (size_t i = 0; i < AUTH_LINE_BYTES_MAX; i++)
		differs |= (unsigned char)(a[i] ^ b[i]);
	return !differs;
}

bool auth_knows(const struct auth *auth, const char *text, size_t bytes)
{
	char padded[AUTH_LINE_BYTES_MAX] = "";
	bool known = false;

	if (bytes >= sizeof padded)
		return false;
	memcpy(padded, text, bytes);
	for (unsigned i = 0; i < auth->count; i++)
		known |= is_same(auth->text[i], padded);
	return known;
}

static int add_line(struct auth *auth, char *line, const char *path, unsigned number,
		    struct err *err)
{
	line[strcspn(line, "\r\n")] = '\0';
	char *colon = strchr(line, ':');
	if (!*line || *line == '#')
		return 0;
	if (!colon || colon == line || !colon[1])
		return err_set(err, -1, "%s:%u: a line is NAME:PASSWORD", path, number);
	if (auth->count == AUTH_USERS_MAX)
		return err_set(err, -1, "%s: more than %u names", path, AUTH_USERS_MAX);
	*colon = ' ';
	strcpy(auth->text[auth->count++], line);
	return 0;
}

static int read_lines(struct auth *auth, FILE *f, const char *path, struct err *err)
{
	char line[AUTH_LINE_BYTES_MAX];
	unsigned number = 0;
	int rc = 0;

	while (!rc && fgets(line, sizeof line, f)) {
		number++;
		if (strlen(line) + 1 == sizeof line)
			rc = err_set(err, -1, "%s:%u: the line is too long", path, number);
		else
			rc = add_line(auth, line, path, number, err);
	}
	explicit_bzero(line, sizeof line);
	if (!rc && !auth->count)
		rc = err_set(err, -1, "%s has no line NAME:PASSWORD", path);
	return rc;
}

int auth_load(const char *path, struct auth **auth, struct err *err)
{
	FILE *f = fopen(path, "re");
	struct stat st;

	*auth = NULL;
	if (!f || fstat(fileno(f), &st)) {
		err_set_errno(err, -1, errno, "can't read %s", path);
		if (f)
			fclose(f);
		return -1;
	}
	int rc = st.st_mode & 077 ? err_set(err, -1, "others may read the passwords in %s: chmod 600",
					    path)
				  : 0;
	struct auth *a = rc ? NULL : calloc(1, sizeof *a);
	if (!rc && !a)
		rc = err_set(err, -1, "out of memory");
	if (!rc)
		rc = read_lines(a, f, path, err);
	fclose(f);
	if (rc)
		auth_delete(&a);
	*auth = a;
	return rc;
}

void auth_delete(struct auth **auth)
{
	if (*auth)
		explicit_bzero(*auth, sizeof **auth);
	free(*auth);
	*auth = NULL;
}

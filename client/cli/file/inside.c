/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/file/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/file/value.h"
#include "common/beside.h"

/* A folder in a folder, made if need be.  A descriptor, or -1 with errno. */
static int open_folder(int parent, const char *name)
{
	struct stat st;
	int fd;

	if (mkdirat(parent, name, 0777) < 0 && errno != EEXIST)
		return -1;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOTDIR && fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		errno = S_ISLNK(st.st_mode) ? ELOOP : ENOTDIR;
	return fd;
}

/* What is to become of a file that is there; 0, or an errno value. */
static int look_at_old(int folder, const char *name, bool *is_there, mode_t *mode)
{
	struct stat st;

	*is_there = fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (!*is_there)
		return errno == ENOENT ? 0 : errno;
	*mode = st.st_mode & 0777;
	if (S_ISLNK(st.st_mode))
		return ELOOP;
	return S_ISREG(st.st_mode) ? 0 : EEXIST;
}

/* The name is replaced: a link that comes meanwhile is not followed either. */
static int save_in(int folder, const char *name, const void *data, size_t bytes)
{
	char beside[NAME_MAX + BESIDE_BYTES];
	bool is_there;
	mode_t mode;
	int error = look_at_old(folder, name, &is_there, &mode);

	if (error)
		return error;
	int fd = beside_create(folder, name, 0666, beside, sizeof beside);
	if (fd < 0)
		return errno;
	if (is_there)
		(void)fchmod(fd, mode); /* some file systems have no modes */
	error = cli_value_write(fd, data, bytes);
	if (close(fd) < 0 && !error)
		error = errno; /* some file systems tell a full disk here */
	if (!error && renameat(folder, beside, folder, name) < 0)
		error = errno;
	if (error)
		unlinkat(folder, beside, 0);
	return error;
}

int cli_inside_save(int root, const char *path, const void *data, size_t bytes)
{
	char name[NAME_MAX + 1];
	int folder = root, error = 0;

	for (;;) {
		size_t part = strcspn(path, "/");
		if (part > NAME_MAX) {
			error = ENAMETOOLONG;
			break;
		}
		memcpy(name, path, part);
		name[part] = '\0';
		if (!path[part]) {
			error = save_in(folder, name, data, bytes);
			break;
		}
		int next = open_folder(folder, name);
		error = next < 0 ? errno : 0;
		if (folder != root)
			close(folder);
		folder = next;
		if (error)
			return error;
		path += part + 1;
	}
	if (folder != root)
		close(folder);
	return error;
}

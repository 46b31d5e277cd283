/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/file/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096

struct walk {
	struct cli_files *files;
	char path[PATH_BYTES]; /* from the folder */
	size_t path_bytes;
};

bool cli_files_add(struct cli_files *files, const void *path, size_t path_bytes, uint64_t bytes)
{
	char *copy = malloc(path_bytes + 1);

	if (!copy)
		return false;
	if (files->count == files->room) {
		size_t room = files->room ? 2 * files->room : 256;
		struct cli_file *file = realloc(files->file, room * sizeof *file);
		if (!file) {
			free(copy);
			return false;
		}
		files->file = file;
		files->room = room;
	}
	memcpy(copy, path, path_bytes);
	copy[path_bytes] = '\0';
	files->file[files->count++] = (struct cli_file){ copy, path_bytes, bytes };
	files->bytes += bytes;
	return true;
}

static int walk_folder(struct walk *walk, int fd);

static int walk_entry(struct walk *walk, int folder, const char *name)
{
	struct stat st;
	int fd;

	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno;
	if (S_ISREG(st.st_mode))
		return cli_files_add(walk->files, walk->path, walk->path_bytes,
				     (uint64_t)st.st_size) ? 0 : ENOMEM;
	if (!S_ISDIR(st.st_mode)) {
		walk->files->left_out++;
		return 0;
	}
	fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? errno : walk_folder(walk, fd);
}

static int walk_name(struct walk *walk, int folder, const char *name)
{
	size_t before = walk->path_bytes;
	int added, error;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	added = snprintf(walk->path + before, sizeof walk->path - before, "%s%s",
			 before ? "/" : "", name);
	if ((size_t)added >= sizeof walk->path - before)
		return ENAMETOOLONG;
	walk->path_bytes += (size_t)added;
	error = walk_entry(walk, folder, name);
	if (error)
		return error; /* the path stays, for the message */
	walk->path_bytes = before;
	walk->path[before] = '\0';
	return 0;
}

/* Closes fd. */
static int walk_folder(struct walk *walk, int fd)
{
	DIR *dir = fdopendir(fd);
	struct dirent *entry;
	int error = 0;

	if (!dir) {
		error = errno;
		close(fd);
		return error;
	}
	while (!error && (errno = 0, entry = readdir(dir)) != NULL)
		error = walk_name(walk, fd, entry->d_name);
	if (!error)
		error = errno;
	closedir(dir);
	return error;
}

int cli_files_find(struct cli_files *files, const char *folder, char *where, size_t where_bytes)
{
	struct walk walk = { .files = files };
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int error = fd < 0 ? errno : walk_folder(&walk, fd);

	snprintf(where, where_bytes, "%s%s%s", folder, walk.path_bytes ? "/" : "", walk.path);
	if (!error)
		cli_files_sort(files);
	return error;
}

static int compare_files(const void *a, const void *b)
{
	const struct cli_file *x = a, *y = b;
	size_t bytes = x->path_bytes < y->path_bytes ? x->path_bytes : y->path_bytes;
	int order = memcmp(x->path, y->path, bytes);

	return order ? order : (x->path_bytes > y->path_bytes) - (x->path_bytes < y->path_bytes);
}

void cli_files_sort(struct cli_files *files)
{
	size_t kept = 0;

	if (files->count == 0)
		return;
	qsort(files->file, files->count, sizeof *files->file, compare_files);
	for (size_t i = 1; i < files->count; i++) {
		if (compare_files(&files->file[kept], &files->file[i]) != 0) {
			files->file[++kept] = files->file[i];
		} else {
			files->bytes -= files->file[i].bytes;
			free(files->file[i].path);
		}
	}
	files->count = kept + 1;
}

void cli_files_free(struct cli_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		free(files->file[i].path);
	free(files->file);
	*files = (struct cli_files){ 0 };
}

bool cli_files_stays_inside(const char *path, size_t path_bytes)
{
	const char *end = path + path_bytes;

	if (memchr(path, 0, path_bytes))
		return false;
	for (const char *part = path; part <= end;) {
		size_t bytes = strcspn(part, "/");
		if (bytes == 0 || (part[0] == '.' && (bytes == 1 || (bytes == 2 && part[1] == '.'))))
			return false;
		part += bytes + 1;
	}
	return true;
}

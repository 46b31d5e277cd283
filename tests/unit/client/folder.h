/* SPDX-License-Identifier: BSD-2-Clause */
/* folder.h -- a test of kvcli's that works in a folder of its own: files are written, and what is
 * there is told as text. */
#ifndef TESTS_UNIT_CLIENT_FOLDER_H
#define TESTS_UNIT_CLIENT_FOLDER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/descriptors.h"

static char folder_name[] = "/tmp/kvcli-folder.XXXXXX";

/* Into the folder; false: there is none. */
static inline bool folder_begin(void)
{
	return mkdtemp(folder_name) && chdir(folder_name) == 0;
}

static inline int folder_erase(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st, (void)kind;
	return at->level ? remove(path) : 0;
}

/* Nothing is in it any more. */
static inline void folder_clear(void)
{
	nftw(folder_name, folder_erase, 8, FTW_DEPTH | FTW_PHYS);
}

/* Of each test: the folder is empty, and as many descriptors are open behind it as before. */
static int folder_open;

static inline int folder_set_up(void **state)
{
	(void)state;
	folder_clear();
	umask(0);
	folder_open = count_descriptors();
	return 0;
}

static inline int folder_tear_down(void **state)
{
	(void)state;
	return count_descriptors() != folder_open;
}

/* It is gone. */
static inline bool folder_end(void)
{
	folder_clear();
	return chdir("/") == 0 && rmdir(folder_name) == 0;
}

/* Folders on the way are made. */
static inline void write_file(const char *path, const char *text)
{
	char parent[512];
	FILE *file;

	for (const char *end = path; (end = strchr(end, '/')); end++) {
		snprintf(parent, sizeof parent, "%.*s", (int)(end - path), path);
		mkdir(parent, 0777);
	}
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static inline char *read_file(const char *path, char *text, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t bytes = read(fd, text, room - 1);

	if (bytes < 0)
		fail_msg("no file %s", path);
	text[bytes] = '\0';
	close(fd);
	return text;
}

static inline void file_is(const char *path, const char *want)
{
	char text[1024];

	assert_string_equal(read_file(path, text, sizeof text), want);
}

static inline void tell_folder(const char *path, char *told, size_t room);

/* A line of it: PATH=TEXT; what is neither a file nor a folder is PATH?. */
static inline void tell_entry(const char *path, char *told, size_t room)
{
	size_t used = strlen(told);
	char text[64];
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	if (S_ISDIR(st.st_mode))
		tell_folder(path, told, room);
	else if (S_ISREG(st.st_mode))
		snprintf(told + used, room - used, "%s=%s\n", path, read_file(path, text, sizeof text));
	else
		snprintf(told + used, room - used, "%s?\n", path);
}

static inline void tell_folder(const char *path, char *told, size_t room)
{
	struct dirent **names;
	char inner[512];
	int n = scandir(path, &names, NULL, alphasort);

	assert_true(n >= 2);
	if (n == 2)
		snprintf(told + strlen(told), room - strlen(told), "%s/\n", path);
	for (int i = 0; i < n; i++) {
		snprintf(inner, sizeof inner, "%s/%s", path, names[i]->d_name);
		if (strcmp(names[i]->d_name, ".") != 0 && strcmp(names[i]->d_name, "..") != 0)
			tell_entry(inner, told, room);
		free(names[i]);
	}
	free(names);
}

/* All below it, in the order of the names; an empty folder is PATH/. */
static inline void folder_is(const char *path, const char *want)
{
	char told[4096] = "";

	tell_folder(path, told, sizeof told);
	assert_string_equal(told, want);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/beside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define LETTERS 6
#define TRIES 100
#define FILE_BYTES_MAX (NAME_MAX - (LETTERS + 1u))

/* ".Ab3xYz" behind the path. */
static int make_name(char *end)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	uint8_t random[LETTERS];

	if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
		return -1;
	*end++ = '.';
	for (unsigned i = 0; i < LETTERS; i++)
		*end++ = letters[random[i] % (sizeof letters - 1)];
	*end = '\0';
	return 0;
}

/* A file's name that leaves no room behind it gives up its last letters. */
static size_t stem_bytes(const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t bytes = strlen(path);
	size_t file_bytes = slash ? bytes - (size_t)(slash + 1 - path) : bytes;

	return file_bytes > FILE_BYTES_MAX ? bytes - (file_bytes - FILE_BYTES_MAX) : bytes;
}

int beside_create(int dir, const char *path, mode_t mode, char *name, size_t name_bytes)
{
	size_t bytes = stem_bytes(path);
	int fd = -1;

	if (bytes + BESIDE_BYTES > name_bytes) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(name, path, bytes);
	for (unsigned i = 0; fd < 0 && i < TRIES; i++) {
		if (make_name(name + bytes))
			return -1;
		fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
		if (fd < 0 && errno != EEXIST)
			return -1;
	}
	return fd;
}

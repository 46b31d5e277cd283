/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bad_disk -- to be preloaded into kvd: while the file $BAD_DISK is there, syncing a
 * log of its database fails with EIO, as on a disk that breaks.  What was written is in
 * the kernel all the same; but if the file says "lose", what was not synced is lost, as
 * where the kernel drops the pages that it could not write.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fails(int fd)
{
	const char *file = getenv("BAD_DISK");
	char link[64], path[512];

	if (!file || access(file, F_OK))
		return 0;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path - 1);
	if (n < 4)
		return 0;
	path[n] = '\0';
	return !strcmp(path + n - 4, ".log");
}

/* The length of each log when it was last synced. */
static struct {
	ino_t inode;
	off_t bytes;
} synced[256];

static off_t *synced_of(ino_t inode)
{
	unsigned i = 0;

	while (i < 255 && synced[i].inode && synced[i].inode != inode)
		i++;
	synced[i].inode = inode;
	return &synced[i].bytes;
}

static int fail(int fd)
{
	char how[8] = "";
	struct stat st;
	FILE *f = fopen(getenv("BAD_DISK"), "re");

	if (f) {
		if (fgets(how, sizeof how, f) && !strncmp(how, "lose", 4) && !fstat(fd, &st) &&
		    ftruncate(fd, *synced_of(st.st_ino)))
			perror("bad_disk");
		fclose(f);
	}
	errno = EIO;
	return -1;
}

static int note(int fd, long rc)
{
	struct stat st;

	if (!rc && !fstat(fd, &st))
		*synced_of(st.st_ino) = st.st_size;
	return (int)rc;
}

#define EXPORT __attribute__((visibility("default")))

EXPORT int fdatasync(int fd)
{
	return fails(fd) ? fail(fd) : note(fd, syscall(SYS_fdatasync, fd));
}

EXPORT int fsync(int fd)
{
	return fails(fd) ? fail(fd) : note(fd, syscall(SYS_fsync, fd));
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/durable/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MARKER "KVD-DATA"
#define MARKER_TEXT "kvd data, format 1\n"
#define MARKER_LOG "newest log %" PRIu64
#define MARKER_NEW "kvd data, format 1, being made\n"

static bool is_empty(const char *dir)
{
	DIR *d = opendir(dir);
	const struct dirent *e;
	unsigned n = 0;

	if (!d)
		return false;
	while ((e = readdir(d)))
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
		     strcmp(e->d_name, "lost+found");
	closedir(d);
	return n == 0;
}

static int sync_dir(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = fd < 0 || fsync(fd) ? errno : 0;

	if (fd >= 0)
		close(fd);
	return rc;
}

static int write_marker(const char *dir, const char *text, struct err *err)
{
	char path[4096], tmp[4096];
	ssize_t bytes = (ssize_t)strlen(text);
	int fd, rc = 0;

	if (snprintf(path, sizeof path, "%s/" MARKER, dir) >= (int)sizeof path ||
	    snprintf(tmp, sizeof tmp, "%s/" MARKER ".tmp", dir) >= (int)sizeof tmp)
		return err_set(err, -1, "the path %.100s... is too long", dir);
	/* One that a crash left goes.  It is made anew: whatever is put there is not followed. */
	if (unlink(tmp) && errno != ENOENT)
		return err_set_errno(err, -1, errno, "can't write to %s", dir);
	fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set_errno(err, -1, errno, "can't write to %s", dir);
	errno = ENOSPC;
	if (write(fd, text, (size_t)bytes) != bytes || fsync(fd))
		rc = errno;
	close(fd);
	if (!rc && rename(tmp, path))
		rc = errno;
	if (!rc)
		rc = sync_dir(dir);
	return rc ? err_set_errno(err, -1, rc, "can't write to %s", dir) : 0;
}

int folder_begin(const char *dir, struct err *err)
{
	return write_marker(dir, MARKER_NEW, err);
}

int folder_complete(const char *dir, uint64_t newest, struct err *err)
{
	char text[128] = MARKER_TEXT;

	if (newest)
		snprintf(text, sizeof text, MARKER_TEXT MARKER_LOG "\n", newest);
	return write_marker(dir, text, err);
}

int folder_look(const char *dir, uint64_t *newest, struct err *err)
{
	char path[4096], text[128] = "";
	int fd;

	if (snprintf(path, sizeof path, "%s/" MARKER, dir) >= (int)sizeof path)
		return err_set(err, -1, "the path %.100s... is too long", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		ssize_t n = read(fd, text, sizeof text - 1);
		close(fd);
		if (n >= 0 && !strcmp(text, MARKER_NEW))
			return 0;
		if (n < 0 || strncmp(text, MARKER_TEXT, sizeof MARKER_TEXT - 1))
			return err_set(err, -1, "%s is not of a version that this kvd can read: it says "
					      "'%.40s'", path, n < 0 ? "" : text);
		sscanf(text + sizeof MARKER_TEXT - 1, "newest log %" SCNu64, newest);
		return 1;
	}
	if (errno != ENOENT)
		return err_set_errno(err, -1, errno, "can't read %s", path);
	if (is_empty(dir))
		return 0;
	return err_set(err, -1, "%s has files in it that are not kvd's (no " MARKER "): name another "
		       "folder, or restore what is missing", dir);
}

uint64_t folder_free_bytes(const char *dir)
{
	struct statvfs fs;

	return statvfs(dir, &fs) ? UINT64_MAX : (uint64_t)fs.f_bavail * fs.f_frsize;
}

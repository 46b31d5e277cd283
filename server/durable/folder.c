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
#define MEMBER "KVD-MEMBER"
#define MEMBER_TEXT "kvd member, format 1\nincarnation %016" PRIx64 "\nstripes %" PRIu64 "\n" \
		    "cluster %016" PRIx64 "\n"
#define MEMBER_SCAN "kvd member, format 1 incarnation %16" SCNx64 " stripes %" SCNu64 " cluster %16" SCNx64

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

static int name_file(char path[4096], const char *dir, const char *name, const char *more,
		     struct err *err)
{
	if (snprintf(path, 4096, "%s/%s%s", dir, name, more) >= 4096)
		return err_set(err, -1, "the path %.100s... is too long", dir);
	return 0;
}

/* Whole or not at all, and on disk when this returns. */
static int write_file(const char *dir, const char *name, const char *text, struct err *err)
{
	char path[4096], tmp[4096];
	ssize_t bytes = (ssize_t)strlen(text);
	int fd, rc = 0;

	if (name_file(path, dir, name, "", err) || name_file(tmp, dir, name, ".tmp", err))
		return -1;
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

/* 1: *text has it; 0: there is none; -1 after setting err. */
static int read_file(const char *dir, const char *name, char *text, size_t bytes, struct err *err)
{
	char path[4096];
	ssize_t n;
	int fd;

	if (name_file(path, dir, name, "", err))
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 0;
	n = fd < 0 ? -1 : read(fd, text, bytes - 1);
	if (n < 0)
		err_set_errno(err, -1, errno, "can't read %s", path);
	if (fd >= 0)
		close(fd);
	text[n < 0 ? 0 : n] = 0;
	return n < 0 ? -1 : 1;
}

int folder_begin(const char *dir, struct err *err)
{
	return write_file(dir, MARKER, MARKER_NEW, err);
}

int folder_complete(const char *dir, uint64_t newest, struct err *err)
{
	char text[128] = MARKER_TEXT;

	if (newest)
		snprintf(text, sizeof text, MARKER_TEXT MARKER_LOG "\n", newest);
	return write_file(dir, MARKER, text, err);
}

int folder_look(const char *dir, uint64_t *newest, struct err *err)
{
	char text[128];
	int is_there = read_file(dir, MARKER, text, sizeof text, err);

	if (is_there < 0)
		return -1;
	if (is_there) {
		if (!strcmp(text, MARKER_NEW))
			return 0;
		if (strncmp(text, MARKER_TEXT, sizeof MARKER_TEXT - 1))
			return err_set(err, -1, "%s/" MARKER " is not of a version that this kvd can read: it "
				       "says '%.40s'", dir, text);
		sscanf(text + sizeof MARKER_TEXT - 1, "newest log %" SCNu64, newest);
		return 1;
	}
	if (is_empty(dir))
		return 0;
	return err_set(err, -1, "%s has files in it that are not kvd's (no " MARKER "): name another "
		       "folder, or restore what is missing", dir);
}

int folder_read_member(const char *dir, struct folder_member *m, struct err *err)
{
	char text[160];
	int is_there = read_file(dir, MEMBER, text, sizeof text, err);

	if (is_there == 1 && sscanf(text, MEMBER_SCAN, &m->incarnation, &m->stripes, &m->cluster) != 3)
		return err_set(err, -1, "%s/" MEMBER " is not of a version that this kvd can read: it says "
			       "'%.40s'", dir, text);
	return is_there;
}

int folder_write_member(const char *dir, const struct folder_member *m, struct err *err)
{
	char text[160];

	snprintf(text, sizeof text, MEMBER_TEXT, m->incarnation, m->stripes, m->cluster);
	return write_file(dir, MEMBER, text, err);
}

int folder_drop_member(const char *dir, struct err *err)
{
	char path[4096];
	int rc;

	if (name_file(path, dir, MEMBER, "", err))
		return -1;
	rc = unlink(path) && errno != ENOENT ? errno : sync_dir(dir);
	return rc ? err_set_errno(err, -1, rc, "can't write to %s", dir) : 0;
}

uint64_t folder_free_bytes(const char *dir)
{
	struct statvfs fs;

	return statvfs(dir, &fs) ? UINT64_MAX : (uint64_t)fs.f_bavail * fs.f_frsize;
}

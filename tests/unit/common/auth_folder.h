/* SPDX-License-Identifier: BSD-2-Clause */
/* auth_folder.h -- for each test a folder of its own, with one file that is to be loaded. */
#ifndef TESTS_UNIT_COMMON_AUTH_FOLDER_H
#define TESTS_UNIT_COMMON_AUTH_FOLDER_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/auth/file.h"

/* Any 32 bytes are a secret; a key is of one. */
#define SECRET "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

static char folder[] = "/tmp/auth_folder.XXXXXX";
static char path[64];
static struct err err;
static int lowest; /* descriptor that is free */

static int lowest_free(void)
{
	int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);

	close(fd);
	return fd;
}

static int set_up(void **state)
{
	(void)state;
	lowest = lowest_free();
	strcpy(strrchr(folder, '.') + 1, "XXXXXX");
	if (auth_init() || !mkdtemp(folder))
		return -1;
	snprintf(path, sizeof path, "%s/file", folder);
	return 0;
}

/* Nothing was left beside the file, nor open. */
static int tear_down(void **state)
{
	(void)state;
	if (lowest_free() != lowest)
		return -1;
	unlink(path);
	return rmdir(folder);
}

static void write_file(const char *text, size_t bytes, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_int_equal(write(fd, text, bytes), bytes);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void must_say(const char *what)
{
	if (!strstr(err.text, what))
		fail_msg("'%s' instead of '%s'", err.text, what);
}

static void must_not_load(const char *why)
{
	struct credentials c;
	struct users *users;

	assert_int_equal(users_load(path, &users, &err), -1);
	must_say(why);
	assert_int_equal(credentials_load(path, &c, &err), -1);
	must_say(why);
}

#endif

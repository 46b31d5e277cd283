/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/file/value.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/kvd.h"
#include "common/beside.h"

/* Mapping costs more than copying below about this. */
#define MAPPED_BYTES_MIN (256 << 10)

void cli_value_free(struct cli_value *value)
{
	if (value->room > 0)
		free(value->data);
	else if (value->data)
		munmap(value->data, value->bytes);
	*value = (struct cli_value){ 0 };
}

int cli_value_copy(struct cli_value *value, const void *data, size_t bytes)
{
	size_t room = bytes ? bytes : 1;
	void *copy = malloc(room);

	if (!copy)
		return ENOMEM;
	memcpy(copy, data, bytes);
	*value = (struct cli_value){ copy, bytes, room };
	return 0;
}

static int value_grow(struct cli_value *value, size_t room)
{
	void *data = realloc(value->data, room);

	if (!data)
		return ENOMEM;
	value->data = data;
	value->room = room;
	return 0;
}

/* Reads to the end; `room` is how much is expected. */
static int read_all(struct cli_value *value, int fd, size_t room)
{
	*value = (struct cli_value){ 0 };
	for (;;) {
		int error = 0;
		ssize_t got;
		if (value->bytes > KVD_VALUE_BYTES_MAX)
			error = EFBIG;
		else if (value->bytes == value->room)
			error = value_grow(value, value->room ? 2 * value->room : room);
		got = error ? -1 : read(fd, (char *)value->data + value->bytes,
					value->room - value->bytes);
		if (got == 0)
			return 0;
		if (got > 0) {
			value->bytes += (size_t)got;
		} else if (error || errno != EINTR) {
			error = error ? error : errno;
			cli_value_free(value);
			return error;
		}
	}
}

int cli_value_read(struct cli_value *value, int fd)
{
	return read_all(value, fd, 64 << 10);
}

static int load_fd(struct cli_value *value, int fd)
{
	struct stat st;
	void *map;

	if (fstat(fd, &st) < 0)
		return errno;
	if (S_ISDIR(st.st_mode))
		return EISDIR;
	if (!S_ISREG(st.st_mode) || st.st_size == 0)
		return cli_value_read(value, fd);
	if ((uint64_t)st.st_size > KVD_VALUE_BYTES_MAX)
		return EFBIG;
	if (st.st_size < MAPPED_BYTES_MIN)
		return read_all(value, fd, (size_t)st.st_size + 1);
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return read_all(value, fd, (size_t)st.st_size + 1);
	*value = (struct cli_value){ map, (size_t)st.st_size, 0 };
	return 0;
}

int cli_value_load(struct cli_value *value, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), error;

	if (fd < 0)
		return errno;
	error = load_fd(value, fd);
	close(fd);
	return error;
}

int cli_value_write(int fd, const void *data, size_t bytes)
{
	const char *at = data;

	while (bytes > 0) {
		ssize_t done = write(fd, at, bytes);
		if (done < 0 && errno != EINTR)
			return errno;
		if (done > 0) {
			at += done;
			bytes -= (size_t)done;
		}
	}
	return 0;
}

/* Takes the error of close() too: some file systems tell a full disk there. */
static int write_close(int fd, const void *data, size_t bytes)
{
	int error = cli_value_write(fd, data, bytes);

	if (close(fd) < 0 && !error)
		error = errno;
	return error;
}

static mode_t new_mode(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

static int save_renamed(const void *data, size_t bytes, const char *path, mode_t mode)
{
	size_t room = strlen(path) + BESIDE_BYTES;
	char *beside = malloc(room);
	int fd, error;

	if (!beside)
		return ENOMEM;
	fd = beside_create(AT_FDCWD, path, 0600, beside, room);
	if (fd < 0) {
		error = errno;
		goto free_name;
	}
	(void)fchmod(fd, mode); /* some file systems have no modes */
	error = write_close(fd, data, bytes);
	if (!error && rename(beside, path) < 0)
		error = errno;
	if (error)
		unlink(beside);
free_name:
	free(beside);
	return error;
}

static int save_over(const void *data, size_t bytes, const char *path, mode_t mode)
{
	char *real = realpath(path, NULL); /* a link stays a link */
	int error;

	if (!real)
		return errno;
	error = save_renamed(data, bytes, real, mode & 0777);
	free(real);
	return error;
}

int cli_value_save(const void *data, size_t bytes, const char *path)
{
	struct stat st;
	int fd;

	if (stat(path, &st) < 0)
		return errno == ENOENT ? save_renamed(data, bytes, path, new_mode()) : errno;
	if (S_ISREG(st.st_mode))
		return save_over(data, bytes, path, st.st_mode);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	return write_close(fd, data, bytes);
}

static int guard_status;

static void on_sigbus(int signal_number)
{
	static const char text[] =
		"kvcli: a file became shorter while it was stored, or it can't be read\n";
	ssize_t written = write(2, text, sizeof text - 1);

	(void)signal_number;
	(void)written;
	_exit(guard_status);
}

void cli_value_guard(int status)
{
	struct sigaction action = { .sa_handler = on_sigbus };

	guard_status = status;
	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, NULL);
}

const char *cli_value_error(int error)
{
	return error == EFBIG ? "it is longer than 1 GiB, the largest value" : strerror(error);
}

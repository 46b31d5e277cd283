/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli's values and trees of files, where calls of the system fail, are interrupted or do a part: what is
 * told, and that neither a descriptor nor half a file stays behind. */
#include <errno.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "client/cli/file/files.h"
#include "client/cli/file/inside.h"
#include "client/cli/file/value.h"
#include "client/kvd.h"
#include "tests/unit/client/folder.h"
#include "tests/unit/read_chk.h"

/* By --wrap: errno values that a call fails with, or what it does instead. */
static struct {
	int read, write, close, rename, mkdir, stat, opendir, readdir, map;
	int closes_input; /* fstatat() does, so that the next descriptor is 0 */
	unsigned interrupted;
	size_t piece; /* at most so much is read or written, and nothing once; 0: all */
	size_t more;  /* so much is read that nobody looks at, and no byte of the file */
	bool ends;
} wrong;
static unsigned reads, unmapped;

#define WRAPPED(type, name, ...) type __real_##name(__VA_ARGS__); type __wrap_##name(__VA_ARGS__)
WRAPPED(ssize_t, read, int fd, void *to, size_t bytes);
WRAPPED(ssize_t, write, int fd, const void *data, size_t bytes);
WRAPPED(int, close, int fd);
WRAPPED(int, rename, const char *from, const char *to);
WRAPPED(int, renameat, int from_fd, const char *from, int to_fd, const char *to);
WRAPPED(int, mkdirat, int fd, const char *name, mode_t mode);
WRAPPED(int, fstat64, int fd, struct stat *st);
WRAPPED(int, fstatat64, int fd, const char *name, struct stat *st, int flags);
WRAPPED(DIR *, fdopendir, int fd);
WRAPPED(struct dirent *, readdir64, DIR *dir);
WRAPPED(void *, mmap64, void *at, size_t bytes, int protection, int flags, int fd, off_t from);
WRAPPED(int, munmap, void *at, size_t bytes);

static bool fails(int with)
{
	if (with)
		errno = with;
	return with != 0;
}

static bool is_interrupted(void)
{
	return wrong.interrupted && fails(wrong.interrupted-- % 2 ? EINTR : 0);
}

static size_t piece_of(size_t bytes)
{
	return wrong.piece && bytes > wrong.piece ? wrong.piece : bytes;
}

ssize_t __wrap_read(int fd, void *to, size_t bytes)
{
	reads++;
	if (is_interrupted() || fails(wrong.read))
		return -1;
	if (wrong.more) {
		bytes = bytes < wrong.more ? bytes : wrong.more;
		wrong.more -= bytes;
		wrong.ends = !wrong.more;
		return (ssize_t)bytes;
	}
	if (wrong.ends)
		return wrong.ends = false;
	return __real_read(fd, to, piece_of(bytes));
}

ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
	static bool took;

	if (is_interrupted() || fails(wrong.write))
		return -1;
	took = !took;
	return wrong.piece && took ? 0 : __real_write(fd, data, piece_of(bytes));
}

int __wrap_close(int fd)
{
	int rc = __real_close(fd);

	return fails(wrong.close) ? -1 : rc;
}

int __wrap_rename(const char *from, const char *to)
{
	return fails(wrong.rename) ? -1 : __real_rename(from, to);
}

int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	return fails(wrong.rename) ? -1 : __real_renameat(from_fd, from, to_fd, to);
}

int __wrap_mkdirat(int fd, const char *name, mode_t mode)
{
	return fails(wrong.mkdir) ? -1 : __real_mkdirat(fd, name, mode);
}

int __wrap_fstat64(int fd, struct stat *st)
{
	return fails(wrong.stat) ? -1 : __real_fstat64(fd, st);
}

int __wrap_fstatat64(int fd, const char *name, struct stat *st, int flags)
{
	if (wrong.closes_input)
		close(0);
	wrong.closes_input = 0;
	return fails(wrong.stat) ? -1 : __real_fstatat64(fd, name, st, flags);
}

DIR *__wrap_fdopendir(int fd)
{
	return fails(wrong.opendir) ? NULL : __real_fdopendir(fd);
}

/* At the end of a folder it fails. */
struct dirent *__wrap_readdir64(DIR *dir)
{
	struct dirent *entry = __real_readdir64(dir);

	if (!entry && wrong.readdir)
		errno = wrong.readdir;
	return entry;
}

void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t from)
{
	return fails(wrong.map) ? MAP_FAILED : __real_mmap64(at, bytes, protection, flags, fd, from);
}

int __wrap_munmap(void *at, size_t bytes)
{
	unmapped++;
	return __real_munmap(at, bytes);
}

static int input; /* standard input, where a test takes it away */

static int tear_down(void **state)
{
	memset(&wrong, 0, sizeof wrong);
	return folder_tear_down(state);
}

static void take_input(void)
{
	input = dup(0);
	close(0);
}

/* Whoever had 0 meanwhile has closed it. */
static void give_input(void)
{
	assert_int_equal(fcntl(0, F_GETFD), -1);
	assert_int_equal(dup2(input, 0), 0);
	close(input);
}

/* ------------------------------------------------------------------ values from files */

static void must_load(const char *path, const char *want, size_t bytes)
{
	struct cli_value value;

	assert_int_equal(cli_value_load(&value, path), 0);
	assert_int_equal(value.bytes, bytes);
	assert_memory_equal(value.data, want, bytes);
	cli_value_free(&value);
	assert_null(value.data);
	assert_int_equal(value.bytes + value.room, 0);
}

/* By copy and by mapping, and where that fails. */
static void files_are_loaded(void **state)
{
	static char text[300001];
	struct cli_value value;

	(void)state;
	memset(text, 'x', sizeof text - 1);
	memcpy(text, "begin", 5);
	memcpy(text + sizeof text - 6, "end..", 5);
	write_file("small", "small");
	write_file("empty", "");
	write_file("large", text);
	unmapped = 0;
	must_load("small", "small", 5);
	must_load("empty", "", 0);
	assert_int_equal(unmapped, 0);
	assert_int_equal(cli_value_load(&value, "large"), 0);
	assert_int_equal(value.room, 0);
	cli_value_free(&value);
	assert_int_equal(unmapped, 1);
	must_load("large", text, sizeof text - 1);
	wrong.map = ENODEV;
	must_load("large", text, sizeof text - 1);
	assert_int_equal(unmapped, 2);
	wrong.piece = 100000;
	must_load("large", text, sizeof text - 1);
	wrong.piece = 1;
	must_load("small", "small", 5);
	wrong.interrupted = 8;
	must_load("small", "small", 5);
	take_input();
	must_load("small", "small", 5);
	give_input();
}

/* A pipe's end is its end, and a file that says it is empty may have something. */
static void lengths_that_nobody_knows(void **state)
{
	static char text[60000];
	struct cli_value value;
	int pipes[2];

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	memset(text, 'y', sizeof text);
	assert_int_equal(write(pipes[1], text, sizeof text), sizeof text);
	close(pipes[1]);
	assert_int_equal(cli_value_read(&value, pipes[0]), 0);
	assert_int_equal(value.bytes, sizeof text);
	assert_memory_equal(value.data, text, sizeof text);
	cli_value_free(&value);
	close(pipes[0]);
	assert_int_equal(cli_value_load(&value, "/proc/version"), 0);
	assert_memory_equal(value.data, "Linux", 5);
	cli_value_free(&value);
	/* Memory grows by more each time: few reads do. */
	wrong.more = 4 << 20;
	reads = 0;
	assert_int_equal(cli_value_load(&value, "/dev/null"), 0);
	assert_int_equal(value.bytes, 4 << 20);
	assert_in_range(reads, 2, 20);
	cli_value_free(&value);
}

static void files_that_cant_be_loaded(void **state)
{
	struct cli_value value = { 0 };

	(void)state;
	write_file("small", "small");
	mkdir("folder", 0777);
	assert_int_equal(cli_value_load(&value, "none"), ENOENT);
	assert_int_equal(cli_value_load(&value, "folder"), EISDIR);
	wrong.stat = EIO;
	assert_int_equal(cli_value_load(&value, "small"), EIO);
	wrong.stat = 0;
	wrong.read = ENXIO;
	assert_int_equal(cli_value_load(&value, "small"), ENXIO);
	assert_null(value.data);
	assert_string_equal(cli_value_error(EISDIR), strerror(EISDIR));
	assert_string_equal(cli_value_error(EFBIG), "it is longer than 1 GiB, the largest value");
}

/* The limit of <kvd.h> is still a value, whether it is mapped or read. */
static void the_longest_value(void **state)
{
	struct cli_value value = { 0 };

	(void)state;
	write_file("long", "");
	for (unsigned i = 0; i < 2; i++) {
		wrong.map = i ? ENODEV : 0;
		wrong.more = i ? KVD_VALUE_BYTES_MAX : 0;
		assert_int_equal(truncate("long", KVD_VALUE_BYTES_MAX), 0);
		assert_int_equal(cli_value_load(&value, "long"), 0);
		assert_int_equal(value.bytes, KVD_VALUE_BYTES_MAX);
		cli_value_free(&value);
	}
	wrong.more = (size_t)KVD_VALUE_BYTES_MAX + 1; /* it has grown */
	assert_int_equal(cli_value_load(&value, "long"), EFBIG);
	assert_null(value.data);
	assert_int_equal(truncate("long", (off_t)KVD_VALUE_BYTES_MAX + 1), 0);
	assert_int_equal(cli_value_load(&value, "long"), EFBIG);
}

static void values_are_copied(void **state)
{
	struct cli_value value;
	size_t used = mallinfo2().uordblks;

	(void)state;
	assert_int_equal(cli_value_copy(&value, "a\0b", 3), 0);
	assert_int_equal(value.bytes, 3);
	assert_memory_equal(value.data, "a\0b", 3);
	cli_value_free(&value);
	assert_int_equal(cli_value_copy(&value, "", 0), 0);
	assert_int_equal(value.bytes, 0);
	assert_non_null(value.data);
	unmapped = 0;
	cli_value_free(&value);
	assert_int_equal(unmapped, 0);
	assert_int_equal(mallinfo2().uordblks, used);
}

/* Whoever reads a mapped file that others cut short ends, and says why. */
static void a_file_that_becomes_shorter(void **state)
{
	struct cli_value value;
	int said[2], status;
	char text[128] = "";

	(void)state;
	write_file("large", "");
	assert_int_equal(truncate("large", 1 << 20) | pipe(said), 0);
	assert_int_equal(cli_value_load(&value, "large"), 0);
	assert_int_equal(truncate("large", 0), 0);
	pid_t child = fork();
	if (child == 0) {
		alarm(10);
		dup2(said[1], 2);
		cli_value_guard(7);
		_exit(*(volatile char *)value.data ? 8 : 9);
	}
	close(said[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	assert_true(read(said[0], text, sizeof text - 1) > 0);
	assert_string_equal(text, "kvcli: a file became shorter while it was stored, or it can't be read\n");
	close(said[0]);
	cli_value_free(&value);
}

/* ------------------------------------------------------------------ values into files */

static void files_are_saved(void **state)
{
	struct stat st;

	(void)state;
	umask(027);
	assert_int_equal(cli_value_save("one", 3, "new"), 0);
	assert_int_equal(umask(0), 027);
	assert_int_equal(stat("new", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(cli_value_save("", 0, "open"), 0);
	assert_int_equal(stat("open", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0666);
	assert_int_equal(symlink("new", "link"), 0);
	wrong.piece = 1;
	assert_int_equal(cli_value_save("three", 5, "link"), 0);
	wrong.interrupted = 8;
	assert_int_equal(cli_value_save("four", 4, "other"), 0);
	memset(&wrong, 0, sizeof wrong);
	take_input();
	assert_int_equal(cli_value_save("five", 4, "last"), 0);
	assert_int_equal(cli_value_save("x", 1, "/dev/null"), 0);
	give_input();
	folder_is(".", "./last=five\n./link?\n./new=three\n./open=\n./other=four\n");
	assert_int_equal(stat("new", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
}

/* Either way there is what was there, and nothing beside it; what came first is told. */
static void files_that_cant_be_saved(void **state)
{
	int root = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	write_file("a", "old");
	write_file("d/a", "old");
	for (unsigned i = 0; i < 4; i++) {
		wrong.write = i == 0 || i == 3 ? ENOSPC : 0;
		wrong.close = i == 1 || i == 3 ? EDQUOT : 0;
		wrong.rename = i == 2 ? EROFS : 0;
		int want = wrong.write + wrong.rename ? wrong.write + wrong.rename : EDQUOT;
		assert_int_equal(cli_value_save("new", 3, "a"), want);
		assert_int_equal(cli_value_save("new", 3, "b"), want);
		assert_int_equal(cli_inside_save(root, "a", "new", 3), want);
		assert_int_equal(cli_inside_save(root, "d/b", "new", 3), want);
		memset(&wrong, 0, sizeof wrong);
		folder_is(".", "./a=old\n./d/a=old\n");
	}
	wrong.close = EDQUOT;
	assert_int_equal(cli_value_save("new", 3, "/dev/null"), EDQUOT);
	wrong.close = 0;
	assert_int_equal(cli_value_save("new", 3, "none/a"), ENOENT);
	assert_int_equal(cli_value_save("new", 3, "a/b"), ENOTDIR);
	wrong.mkdir = ENOSPC;
	assert_int_equal(cli_inside_save(root, "e/a", "new", 3), ENOSPC);
	wrong.stat = EIO;
	assert_int_equal(cli_inside_save(root, "a", "new", 3), EIO);
	memset(&wrong, 0, sizeof wrong);
	folder_is(".", "./a=old\n./d/a=old\n");
	close(root);
}

/* ------------------------------------------------------------------ trees */

static void is_file(const struct cli_file *file, const char *path, size_t path_bytes, uint64_t bytes)
{
	assert_int_equal(file->path_bytes, path_bytes);
	assert_memory_equal(file->path, path, path_bytes + 1);
	assert_int_equal(file->bytes, bytes);
}

static void trees_are_found(void **state)
{
	struct cli_files files = { 0 };
	char where[32];

	(void)state;
	write_file("in/b/c", "1");
	write_file("in/b.d", "22");
	write_file("in/a", "");
	assert_int_equal(mkfifo("in/b/e", 0600), 0);
	for (unsigned i = 0; i < 2; i++) {
		take_input();
		assert_int_equal(cli_files_find(&files, "in", where, sizeof where), 0);
		give_input();
		assert_int_equal(files.count, 3);
		assert_int_equal(files.bytes, 3);
		assert_int_equal(files.left_out, 1);
		is_file(&files.file[0], "a", 1, 0);
		is_file(&files.file[1], "b.d", 3, 2);
		is_file(&files.file[2], "b/c", 3, 1);
		cli_files_free(&files);
		assert_null(files.file);
		assert_int_equal(files.count + files.room + files.bytes + files.left_out, 0);
	}
	input = dup(0);
	wrong.closes_input = 1; /* as an entry of it is looked at */
	assert_int_equal(cli_files_find(&files, "in", where, sizeof where), 0);
	give_input();
	assert_int_equal(files.count, 3);
	cli_files_free(&files);
}

/* It is told at which place. */
static void trees_that_cant_be_read(void **state)
{
	struct cli_files files = { 0 };
	char where[32];

	(void)state;
	write_file("in/a/b/c", "1");
	assert_int_equal(cli_files_find(&files, "none", where, sizeof where), ENOENT);
	assert_string_equal(where, "none");
	assert_int_equal(cli_files_find(&files, "in/a/b/c", where, sizeof where), ENOTDIR);
	assert_string_equal(where, "in/a/b/c");
	wrong.stat = ENOENT;
	assert_int_equal(cli_files_find(&files, "in", where, sizeof where), ENOENT);
	assert_string_equal(where, "in/a");
	wrong.stat = 0;
	wrong.opendir = ENOMEM;
	assert_int_equal(cli_files_find(&files, "in", where, sizeof where), ENOMEM);
	assert_string_equal(where, "in");
	wrong.opendir = 0;
	wrong.readdir = EIO;
	assert_int_equal(cli_files_find(&files, "in/a", where, sizeof where), EIO);
	assert_string_equal(where, "in/a/b");
	assert_int_equal(cli_files_find(&files, "in", where, 5), EIO);
	assert_string_equal(where, "in/a");
	cli_files_free(&files);
}

/* Fifteen folders of 255 bytes, and one of one: with the slashes 3,841. */
static void go_down(const char *name)
{
	for (unsigned i = 0; i < 15; i++) {
		mkdir(name, 0777);
		assert_int_equal(chdir(name), 0);
	}
	mkdir("d", 0777);
	assert_int_equal(chdir("d"), 0);
}

/* A path of 4,095 bytes is the longest. */
static void paths_that_are_too_long(void **state)
{
	struct cli_files files = { 0 };
	char name[NAME_MAX + 1], where[64];

	(void)state;
	memset(name, 'n', NAME_MAX);
	name[NAME_MAX] = '\0';
	go_down(name);
	write_file(name + 1, "1");
	assert_int_equal(chdir(folder_name), 0);
	assert_int_equal(cli_files_find(&files, ".", where, sizeof where), ENAMETOOLONG);
	assert_memory_equal(where, "./nnn", 5);
	assert_int_equal(strlen(where), sizeof where - 1);
	cli_files_free(&files);
	go_down(name);
	assert_int_equal(rename(name + 1, name + 2) | chdir(folder_name), 0);
	assert_int_equal(cli_files_find(&files, ".", where, sizeof where), 0);
	assert_int_equal(files.count, 1);
	assert_int_equal(files.file[0].path_bytes, 4095);
	go_down(name);
	assert_int_equal(unlink(name + 2) | chdir("..") | rmdir("d"), 0);
	for (unsigned i = 0; i < 15; i++)
		assert_int_equal(chdir("..") | rmdir(name), 0);
	cli_files_free(&files);
}

/* A key may hold any byte, behind which memory holds others. */
static void keys_are_sorted(void **state)
{
	struct cli_files files = { 0 };
	char path[16];

	(void)state;
	mallopt(M_PERTURB, 1);
	assert_true(cli_files_add(&files, "a\0b", 3, 1) && cli_files_add(&files, "a", 1, 2));
	assert_true(cli_files_add(&files, "a\0", 2, 4) && cli_files_add(&files, "a", 1, 8));
	assert_int_equal(files.bytes, 15);
	cli_files_sort(&files);
	mallopt(M_PERTURB, 0);
	assert_int_equal(files.count, 3);
	is_file(&files.file[1], "a\0", 2, 4);
	is_file(&files.file[2], "a\0b", 3, 1);
	assert_int_equal(files.bytes, 5 + files.file[0].bytes);
	cli_files_free(&files);
	for (unsigned i = 2000; i-- > 0;) {
		snprintf(path, sizeof path, "%04u", i);
		assert_true(cli_files_add(&files, path, 4, i));
	}
	cli_files_sort(&files);
	assert_int_equal(files.count, 2000);
	for (unsigned i = 0; i < 2000; i++) {
		snprintf(path, sizeof path, "%04u", i);
		is_file(&files.file[i], path, 4, i);
	}
	cli_files_free(&files);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(files_are_loaded),
		TEST(lengths_that_nobody_knows),
		TEST(files_that_cant_be_loaded),
		TEST(the_longest_value),
		TEST(values_are_copied),
		TEST(a_file_that_becomes_shorter),
		TEST(files_are_saved),
		TEST(files_that_cant_be_saved),
		TEST(trees_are_found),
		TEST(trees_that_cant_be_read),
		TEST(paths_that_are_too_long),
		TEST(keys_are_sorted),
	};
	int rc;

	if (!folder_begin())
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	return !folder_end() || rc;
}

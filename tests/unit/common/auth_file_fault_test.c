/* SPDX-License-Identifier: BSD-2-Clause */
/* The users file and credentials where calls of the system fail: what is said of it, and that neither
 * a descriptor nor a secret stays behind. */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/common/auth_folder.h"

/* Another one, which is looked for where it should not stay. */
#define RARE "-__7__v_-__7__v_-__7__v_-__7__v_-__7__v_-_8"

/* By --wrap: calls that fail with an errno value, or read less than they could. */
static struct {
	int memory, read, fsync, close, fdopen;
	size_t read_at_most;
} wrong;
static const uint8_t *block; /* of the last malloc() */
static size_t block_bytes;
static unsigned left, wiped; /* memory that was freed, or wiped, with RARE in it */

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__real_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);
void __real_free(void *at);
void __wrap_free(void *at);
ssize_t __real_read(int fd, void *to, size_t bytes);
ssize_t __wrap_read(int fd, void *to, size_t bytes);
ssize_t __wrap___read_chk(int fd, void *to, size_t bytes, size_t room);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_close(int fd);
int __wrap_close(int fd);
FILE *__real_fdopen(int fd, const char *mode);
FILE *__wrap_fdopen(int fd, const char *mode);
void __real_auth_wipe(void *at, size_t bytes);
void __wrap_auth_wipe(void *at, size_t bytes);

uid_t __real_geteuid(void);
uid_t __wrap_geteuid(void);

static uid_t pretended; /* who runs it; 0: who does */

uid_t __wrap_geteuid(void)
{
	return pretended ? pretended : __real_geteuid();
}

static bool fails(int with)
{
	if (with)
		errno = with;
	return with != 0;
}

void *__wrap_malloc(size_t bytes)
{
	block = fails(wrong.memory) ? NULL : __real_malloc(bytes);
	block_bytes = bytes;
	return (void *)(uintptr_t)block;
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	return fails(wrong.memory) ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *at, size_t bytes)
{
	return fails(wrong.memory) ? NULL : __real_realloc(at, bytes);
}

/* As text, or as the bytes that it is of. */
static bool has_rare(const void *at, size_t bytes)
{
	uint8_t rare[AUTH_SECRET_BYTES];

	assert_true(auth_from_text(RARE, strlen(RARE), rare));
	return memmem(at, bytes, RARE, strlen(RARE)) || memmem(at, bytes, rare, sizeof rare);
}

void __wrap_free(void *at)
{
	left += at && has_rare(at, malloc_usable_size(at));
	__real_free(at);
}

void __wrap_auth_wipe(void *at, size_t bytes)
{
	wiped += has_rare(at, bytes);
	__real_auth_wipe(at, bytes);
}

/* It is asked for no more than there is room for. */
ssize_t __wrap_read(int fd, void *to, size_t bytes)
{
	assert_true((uint8_t *)to >= block && (uint8_t *)to + bytes <= block + block_bytes);
	if (fails(wrong.read))
		return -1;
	return __real_read(fd, to, wrong.read_at_most && wrong.read_at_most < bytes ? wrong.read_at_most
										     : bytes);
}

ssize_t __wrap___read_chk(int fd, void *to, size_t bytes, size_t room)
{
	assert_true(bytes <= room);
	return __wrap_read(fd, to, bytes);
}

static off_t synced_bytes; /* what was in the file as it was synced */
static const char *appears; /* what somebody else makes meanwhile, or NULL */

int __wrap_fsync(int fd)
{
	struct stat st;

	synced_bytes = fstat(fd, &st) ? -1 : st.st_size;
	if (appears)
		write_file(appears, strlen(appears), 0600);
	return fails(wrong.fsync) ? -1 : __real_fsync(fd);
}

int __wrap_close(int fd)
{
	int rc = __real_close(fd);

	assert_int_equal(rc, 0); /* whatever is closed was open */
	return fails(wrong.close) ? -1 : rc;
}

FILE *__wrap_fdopen(int fd, const char *mode)
{
	return fails(wrong.fdopen) ? NULL : __real_fdopen(fd, mode);
}

static int begin(void **state)
{
	memset(&wrong, 0, sizeof wrong);
	left = wiped = 0;
	return set_up(state);
}

/* root's file is believed by whoever may read it; another user's is not, and only root edits it. */
static void test_owners(void **state)
{
	struct users *users;
	int rc[2];

	(void)state;
	write_file("server " SECRET, 50, 0600);
	for (uid_t owner = __real_geteuid() ? 1 : 0; owner < 2; owner++) {
		if (!__real_geteuid())
			assert_int_equal(chown(path, owner, owner), 0);
		pretended = __real_geteuid() + 4321;
		rc[0] = users_load(path, &users, &err);
		if (!rc[0])
			users_delete(&users);
		rc[1] = users_load_to_edit(path, &users, &err);
		if (!rc[1])
			users_delete(&users);
		pretended = 0;
		assert_int_equal(rc[0], owner ? -1 : 0);
		assert_int_equal(rc[1], owner ? -1 : 0);
	}
	must_say("belongs to another user (uid ");
}

/* A file comes in pieces of any length. */
static void test_pieces(void **state)
{
	static const char line[] = "kvd1:a:" SECRET ":" SECRET;
	char text[CREDENTIALS_BYTES_MAX + 1];
	struct credentials c;
	struct users *users;

	(void)state;
	wrong.read_at_most = 1;
	write_file("server " SECRET, 50, 0600);
	assert_int_equal(users_load(path, &users, &err), 0);
	users_delete(&users);
	memset(text, '\n', sizeof text);
	memcpy(text, line, sizeof line - 1);
	for (unsigned longer = 0; longer < 2; longer++) {
		for (size_t most = 1; most <= CREDENTIALS_BYTES_MAX; most += CREDENTIALS_BYTES_MAX - 1) {
			wrong.read_at_most = most;
			write_file(text, CREDENTIALS_BYTES_MAX + longer, 0600);
			assert_int_equal(credentials_load(path, &c, &err), longer ? -1 : 0);
		}
	}
	must_say("/file is longer than 256 bytes");
}

static void test_can_not_read(void **state)
{
	(void)state;
	write_file("server " SECRET, 50, 0600);
	wrong.read = EIO;
	must_not_load("Input/output error");
	must_say("can't read /tmp/");
	wrong.read = 0;
	wrong.memory = ENOMEM;
	must_not_load("Cannot allocate memory");
}

static void test_no_memory(void **state)
{
	struct users *users = users_new(), *none = NULL;
	struct auth_secret secret;

	(void)state;
	wrong.memory = ENOMEM;
	assert_null(users_new());
	assert_int_equal(users_parse("server " SECRET, 50, "f", &none, &err), -1);
	assert_string_equal(err.text, "out of memory");
	assert_null(none);
	assert_int_equal(users_add(users, "ann", ROLE_READ, &secret, &err), -1);
	assert_string_equal(err.text, "out of memory");
	assert_int_equal(users->count, 0);
	users_delete(&users);
}

static void test_secrets_are_wiped(void **state)
{
	static const char *const lines[] = { "server " RARE "\n", "server " RARE "\nwrong\n" };
	static const char line[] = "kvd1:a:" RARE ":" SECRET, wild[] = "kvd1:a b:" RARE ":" SECRET;
	static const char half[] = "kvd1:a:" RARE ":AAA";
	char *text = calloc(1, USERS_FILE_BYTES_MAX + 1);
	struct credentials c;
	struct users *users;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		write_file(lines[i], strlen(lines[i]), 0600);
		wiped = 0;
		assert_int_equal(users_load(path, &users, &err), i ? -1 : 0);
		assert_int_equal(wiped, i ? 2 : 1); /* the file's text; where it is wrong, its users */
		if (!i) {
			wiped = 0;
			assert_int_equal(users_save(users, path, false, &err), 0);
			assert_int_equal(wiped, 2); /* and what the file was written through */
			users_delete(&users);
		}
	}
	memcpy(text, lines[0], strlen(lines[0]));
	write_file(text, USERS_FILE_BYTES_MAX + 1, 0600);
	auth_wipe(text, USERS_FILE_BYTES_MAX + 1);
	free(text);
	must_not_load("is longer than");
	write_file(wild, sizeof wild - 1, 0600);
	assert_int_equal(credentials_load(path, &c, &err), -1);
	write_file(line, sizeof line - 1, 0600);
	assert_int_equal(credentials_load(path, &c, &err), 0);
	assert_int_equal(left, 0);
	/* Nor where a line is right up to its key. */
	assert_int_equal(credentials_parse(half, sizeof half - 1, "f", &c, &err), -1);
	assert_false(has_rare(&c, sizeof c));
	/* Nor on the stack. */
	assert_int_equal(credentials_parse(line, sizeof line - 1, "f", &c, &err), 0);
	wiped = 0;
	assert_int_equal(credentials_write(&c, open(path, O_WRONLY | O_CLOEXEC), path, &err), 0);
	assert_int_equal(wiped, 2);
}

/* What isn't on disk isn't saved; what was there before stays. */
static void test_can_not_write(void **state)
{
	struct users *users = users_new(), *back;
	struct credentials c = { .name = "ann" };

	(void)state;
	write_file("server " RARE, 50, 0600);
	wrong.fsync = EIO;
	assert_int_equal(users_save(users, path, false, &err), -1);
	must_say("can't write /tmp/");
	must_say("/file: Input/output error");
	/* Nor is one that was to be new. */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(users_save(users, path, true, &err), -1);
	must_say("/file: Input/output error");
	assert_int_equal(access(path, F_OK), -1);
	write_file("server " RARE, 50, 0600);
	wrong.fsync = 0;
	wrong.fdopen = EMFILE;
	/* In a program that has closed its standard input, too. */
	int input = fcntl(0, F_DUPFD_CLOEXEC, 3);
	close(0);
	int rc = users_save(users, path, false, &err);
	bool open = fcntl(0, F_GETFD) >= 0;
	assert_int_equal(dup2(input, 0), 0);
	close(input);
	assert_int_equal(rc, -1);
	assert_false(open);
	must_say("can't write /tmp/");
	must_say(": Too many open files");
	assert_int_equal(users_load(path, &back, &err), 0);
	users_delete(&back);
	users_delete(&users);
	for (unsigned i = 0; i < 2; i++) {
		wrong.fsync = i ? 0 : EIO;
		unlink(path);
		int fd = credentials_create(path, &err);
		assert_true(fd >= 0);
		wrong.close = i ? EDQUOT : 0;
		assert_int_equal(credentials_write(&c, fd, path, &err), -1);
		wrong.close = 0;
		must_say(i ? "/file: Disk quota exceeded" : "/file: Input/output error");
		assert_int_equal(access(path, F_OK), -1);
	}
}

/* What is new belongs to who wrote it, not to whom by chance the stack names. */
static __attribute__((noinline)) void fill_stack(void)
{
	volatile uint8_t bytes[32768];

	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = 0x11;
}

static void test_saved(void **state)
{
	struct users *users = users_new();
	struct credentials c = { .name = "ann" };
	struct stat st;

	(void)state;
	for (unsigned again = 0; again < 2; again++) {
		fill_stack();
		synced_bytes = 0;
		assert_int_equal(users_save(users, path, !again, &err), 0);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_uid, geteuid());
		assert_true(st.st_size > 0 && synced_bytes == st.st_size);
	}
	/* What could not be written is not made good by a change of its owner. */
	if (!geteuid()) {
		assert_int_equal(chown(path, 4321, 4321), 0);
		wrong.fsync = EIO;
		assert_int_equal(users_save(users, path, false, &err), -1);
		must_say("/file: Input/output error");
		wrong.fsync = 0;
	}
	/* One that is to be new takes no other's place, be it made at the last moment. */
	assert_int_equal(unlink(path), 0);
	appears = "other";
	assert_int_equal(users_save(users, path, true, &err), -1);
	appears = NULL;
	must_say("/file: File exists");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, strlen("other"));
	users_delete(&users);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(credentials_write(&c, credentials_create(path, &err), path, &err), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size > 0 && synced_bytes == st.st_size);
	/* Of two failures the first is the reason. */
	assert_int_equal(unlink(path), 0);
	int fd = credentials_create(path, &err);
	wrong.fsync = EIO;
	wrong.close = EDQUOT;
	assert_int_equal(credentials_write(&c, fd, path, &err), -1);
	wrong.close = 0;
	must_say("/file: Input/output error");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_owners),
		TEST(test_pieces),
		TEST(test_can_not_read),
		TEST(test_no_memory),
		TEST(test_secrets_are_wiped),
		TEST(test_can_not_write),
		TEST(test_saved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

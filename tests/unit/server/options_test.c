/* SPDX-License-Identifier: BSD-2-Clause */
/* kvd's options: each mistake ends with status 2, or 1 with --check-config, and a sentence that names
 * it; what was told nothing of gets its default. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/options.h"

#define ARGS_MAX 12u

static struct options options;
static char said[16384];

struct args {
	const char *arg[ARGS_MAX];
};

/* What it returns; said: what it wrote to `fd`. */
static int parse(const struct args *args, int fd, int *status)
{
	static char name[] = "kvd", *argv[ARGS_MAX + 2]; /* options_again() has them, too */
	int argc = 1, file = memfd_create("said", MFD_CLOEXEC), kept = dup(fd);

	memset(argv, 0, sizeof argv);
	argv[0] = name;
	for (; args->arg[argc - 1]; argc++)
		argv[argc] = (char *)(uintptr_t)args->arg[argc - 1];
	fflush(NULL);
	dup2(file, fd);
	*status = -1;
	int rc = options_parse(&options, argc, argv, status);
	fflush(NULL);
	dup2(kept, fd);
	close(kept);
	ssize_t n = pread(file, said, sizeof said - 1, 0);
	said[n < 0 ? 0 : n] = '\0';
	close(file);
	return rc;
}

#define CONFIG "--check-config"

/* With the namespaces' memory: more than any machine has. */
#define HUGE_NAMESPACE "--namespace=a:memory=512G"

static void test_mistakes(void **state)
{
	static const struct {
		struct args args;
		int status;
		const char *says;
	} cases[] = {
		{ { { "--cluster-key", "f" } }, 2, "are for a member of a cluster: give --cluster, too" },
		{ { { "--cluster-listen", "127.0.0.1" } }, 2, "are for a member of a cluster" },
		{ { { "--cluster-copies", "3" } }, 2, "are for a member of a cluster" },
		{ { { "--cluster-copies", "9" } }, 2, "'9'" },
		{ { { "--cluster", "zk:1" } }, 2, "--cluster: give the cluster's key (--cluster-key FILE)" },
		{ { { "--cluster", "zk:1", "--cluster-key", "f", "--namespace", "a:memory=64M" } }, 2,
		  "--cluster and --namespace exclude each other, for now" },
		{ { { "--cluster", "zk:1", "--cluster-key", "f", "--cluster-listen", "127.0.0.1:x" } }, 2,
		  "the port 'x' is not a number" },
		{ { { "--cluster", "zk:1", "--cluster-key", "f", "--data-dir", "d" } }, 2,
		  "--data-dir with --cluster: give --cluster-listen ADDR:PORT" },
		{ { { "--cluster", "zk:1", "--cluster-key", "f", "--data-dir", "d", "--cluster-listen",
		      "127.0.0.1:0" } }, 2, "--data-dir with --cluster: give --cluster-listen ADDR:PORT" },
		{ { { "--durability", "sync" } }, 2, "--durability: nothing is durable without --data-dir" },
		{ { { "--durability-lag", "5" } }, 2, "--durability-lag: nothing is durable without --data-dir" },
		{ { { "--memory", "1023T" } }, 2, "--memory" },
		{ { { HUGE_NAMESPACE, "--namespace=b:memory=512G", "--namespace=c:memory=512G",
		      "--namespace=d:memory=512G" } }, 2, "for all namespaces are wanted" },
		{ { { "--namespace", "a" } }, 2, "it begins with a name" },
		{ { { "--namespace", "a b:memory=64M" } }, 2, "it begins with a name" },
		{ { { "--namespace", "a:users=f" } }, 2, "say how much memory it gets" },
		{ { { "--namespace", "a:memory" } }, 2, "'memory' is not of the form NAME=VALUE" },
		{ { { "--namespace", "a:memory=x" } }, 2, "--namespace a:memory=x: " },
		{ { { "--namespace", "a:memory=64M,workers=0" } }, 2, "'0'" },
		{ { { "--namespace", "a:memory=64M,speed=2" } }, 2, "--speed" },
		{ { { "--config", "/nonexistent/kvd.conf" } }, 2, "/nonexistent/kvd.conf" },
		{ { { "--log-level", "loud" } }, 2, "'loud' is none of error, warn, info, debug" },
		{ { { "stray" } }, 2, "'stray' is not an option; kvd takes no other arguments" },

		{ { { CONFIG, "--listen", "127.0.0.1:x" } }, 1, "--listen: " },
		{ { { CONFIG, "--metrics", "127.0.0.1:99999" } }, 1, "--metrics: " },
		{ { { CONFIG, "--user", "nobody-of-that-name" } }, 1,
		  "--user: there is no user nobody-of-that-name" },
		{ { { CONFIG, "--users", "f", "--insecure" } }, 1, "--users and --insecure exclude each other" },
		{ { { CONFIG, "--evict", "--data-dir", "d" } }, 1, "--evict and --data-dir exclude each other" },
		{ { { CONFIG, "--users", "/nonexistent/users" } }, 1, "--users: can't read /nonexistent/users" },
		{ { { CONFIG, "--namespace", "a:memory=64M,users=f" } }, 1,
		  "--namespace a: either all tables have users or none" },
	};
	int status;

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		assert_int_equal(parse(&cases[i].args, STDERR_FILENO, &status), 1);
		if (status != cases[i].status || strncmp(said, "kvd: ", 5) || !strstr(said, cases[i].says))
			fail_msg("%u, for '%s': %d, %s", i, cases[i].says, status, said);
	}
}

static void test_defaults(void **state)
{
	static const struct args nothing = { { NULL } };
	int status;

	(void)state;
	assert_int_equal(parse(&nothing, STDERR_FILENO, &status), 0);
	assert_string_equal(said, "");
	assert_string_equal(options.listen, "127.0.0.1:7480");
	assert_int_equal(options.memory_bytes, 1ull << 30);
	assert_int_equal(options.durable.durability, DURABILITY_SYNC);
	assert_int_equal(options.durable.lag_ms, 100);
	assert_null(options.durable.dir);
	assert_int_equal(options.namespace_count, 0);
	assert_int_equal(options_memory_bytes(&options), 1ull << 30);
}

/* A namespace that is told of twice is as it was told last. */
static void test_what_was_told(void **state)
{
	static const struct args args = { { "--memory=64M", "--data-dir", "d", "--durability", "async",
					    "--namespace=a:memory=48M,workers=2",
					    "--namespace=b:memory=64M,connections=7", "--namespace=a:memory=32M" } };
	int status;

	(void)state;
	assert_int_equal(parse(&args, STDERR_FILENO, &status), 0);
	assert_int_equal(options.durable.durability, DURABILITY_ASYNC);
	assert_int_equal(options.namespace_count, 2);
	assert_string_equal(options.namespaces[0].name, "a");
	assert_int_equal(options.namespaces[0].memory_bytes, 32 << 20);
	assert_int_equal(options.namespaces[0].workers, 0); /* as many as there are devices */
	assert_int_equal(options.namespaces[1].connections, 7);
	assert_int_equal(options_memory_bytes(&options), 160ull << 20);
}

static void test_member(void **state)
{
	static const struct args args = { { "--cluster", "zk:1", "--cluster-key", "f", "--data-dir", "d",
					    "--cluster-listen", "127.0.0.2:77" } };
	int status;

	(void)state;
	assert_int_equal(parse(&args, STDERR_FILENO, &status), 0);
	assert_string_equal(options.cluster_addr.text, "127.0.0.2:77");
}

/* The file is read again, and the command line still wins; what became wrong is told. */
static void test_again(void **state)
{
	char path[] = "/tmp/options_test.XXXXXX";
	int status, fd = mkostemp(path, O_CLOEXEC);
	const struct args args = { { "--config", path, "--slow", "7" } };
	struct options again;
	struct err err;

	(void)state;
	assert_true(dprintf(fd, "slow = 5\nlog-level = debug\n") > 0);
	assert_int_equal(parse(&args, STDERR_FILENO, &status), 0);
	assert_int_equal(options.slow_ms, 7);
	assert_int_equal(ftruncate(fd, 0), 0);
	lseek(fd, 0, SEEK_SET);
	assert_true(dprintf(fd, "lease = 70\n") > 0);
	assert_int_equal(options_again(&again, &err), 0);
	assert_int_equal(again.lease_ms, 70);
	assert_int_equal(again.slow_ms, 7);
	assert_int_not_equal(again.log_level, options.log_level);
	assert_int_equal(write(fd, "\0\n", 2), 2);
	assert_int_equal(options_again(&again, &err), -1);
	assert_non_null(strstr(err.text, path));
	assert_non_null(strstr(err.text, ":2: the line has a zero byte"));
	close(fd);
	unlink(path);
}

static void test_what_is_only_told(void **state)
{
	static const struct args help = { { "--help" } }, version = { { "-V" } }, right = { { CONFIG } };
	int status;

	(void)state;
	assert_int_equal(parse(&help, STDOUT_FILENO, &status), 1);
	assert_int_equal(status, 0);
	assert_non_null(strstr(said, "--cluster-copies"));
	assert_non_null(strstr(said, "--memory"));
	assert_int_equal(parse(&version, STDOUT_FILENO, &status), 1);
	assert_int_equal(status, 0);
	assert_int_equal(strncmp(said, "kvd ", 4), 0);
	assert_int_equal(parse(&right, STDOUT_FILENO, &status), 1);
	assert_int_equal(status, 0);
	assert_string_equal(said, "kvd: the configuration is right\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mistakes),
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_what_was_told),
		cmocka_unit_test(test_member),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_what_is_only_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

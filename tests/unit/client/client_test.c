/* SPDX-License-Identifier: BSD-2-Clause */
/* client/api/client.c: a client's options, its servers, their namespace, who it is; results in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "client/session/client.h"
#include "common/auth/space.h"

#define SERVER "127.0.0.1:7000"

static kvd_client *client;
static struct kvd_options options;

static int set_up(void **state)
{
	(void)state;
	unsetenv("KVD_NAMESPACE");
	unsetenv("KVD_CREDENTIALS");
	unsetenv("KVD_CREDENTIALS_FILE");
	options = (struct kvd_options){ .size = sizeof options, .device = "soft" };
	client = NULL;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	kvd_client_delete(&client);
	assert_null(client);
	return 0;
}

static void must_be(int rc, const char *server)
{
	kvd_client_delete(&client);
	int got = kvd_client_new(server, &options, &client);
	if (got != rc)
		fail_msg("%d and not %d: %s", got, rc, kvd_client_error(client));
}

static void must_fail(const char *server, int rc, const char *text)
{
	must_be(rc, server);
	assert_string_equal(kvd_client_error(client), text);
}

static void test_results(void **state)
{
	static const char *const words[] = {
		"ok", "invalid argument", "out of memory", "not connected",
		"connection lost: the change may have happened", "timed out", "the table is full",
		"too big", "busy", "protocol error", "no RDMA device", "buffer too small",
		"the lock was lost", "the value is not a number", "the number is out of range", "denied",
		"the server's disk is full or broken",
	};

	(void)state;
	for (int i = KVD_EDISK; i <= 0; i++)
		assert_string_equal(kvd_strerror(i), words[-i]);
	assert_string_equal(kvd_strerror(KVD_NOT_FOUND), "not found");
	assert_string_equal(kvd_strerror(KVD_CONDITION), "the condition was false");
	assert_string_equal(kvd_strerror(3), "unknown result");
	assert_string_equal(kvd_strerror(KVD_EDISK - 1), "unknown result");
	assert_string_equal(kvd_client_error(NULL), "out of memory");
}

/* ------------------------------------------------------------------------------- options */

static void test_defaults(void **state)
{
	(void)state;
	must_be(KVD_OK, SERVER);
	assert_int_equal(client->options.timeout_ms, 5000);
	assert_int_equal(client->options.depth, 32);
	assert_int_equal(client->options.mirror_bytes, 64u << 20);
	assert_null(client->options.device);
	assert_int_equal(client->space, 0);
	assert_false(client->has_credentials || client->route.is_list);
	assert_true(client->route.deals);
	assert_ptr_equal(client->verbs, client->device.verbs);
	assert_in_range(client->clock_tick_ns, 1, 20000000);
	assert_true(mirror_buckets_max(client->mirror) > 200000);
	options.timeout_ms = 7;
	options.depth = 128;
	options.mirror_bytes = 1 << 20;
	options.spread = KVD_SPREAD_NONE;
	must_be(KVD_OK, SERVER);
	assert_int_equal(client->options.timeout_ms, 7);
	assert_int_equal(client->options.depth, 128);
	assert_in_range(mirror_buckets_max(client->mirror), 2000, 5000);
	assert_false(client->route.deals);
	options.mirror_bytes = SIZE_MAX;
	must_be(KVD_OK, SERVER);
	assert_null(client->mirror);
}

#define RANGE "an option is out of range (timeout_ms >= 0, depth 0 to 128, poll 0 to 2, get and spread 0 or 1)"

static void test_limits(void **state)
{
	static const struct {
		size_t at;
		int last, beyond;
	} cases[] = {
		{ offsetof(struct kvd_options, timeout_ms), 0, -1 },
		{ offsetof(struct kvd_options, depth), 0, -1 },
		{ offsetof(struct kvd_options, depth), 128, 129 },
		{ offsetof(struct kvd_options, poll), 0, -1 },
		{ offsetof(struct kvd_options, poll), KVD_POLL_EVENT, KVD_POLL_EVENT + 1 },
		{ offsetof(struct kvd_options, get), 0, -1 },
		{ offsetof(struct kvd_options, get), KVD_GET_MESSAGE, KVD_GET_MESSAGE + 1 },
		{ offsetof(struct kvd_options, spread), 0, -1 },
		{ offsetof(struct kvd_options, spread), KVD_SPREAD_NONE, KVD_SPREAD_NONE + 1 },
	};

	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		set_up(state);
		memcpy((char *)&options + cases[i].at, &cases[i].last, sizeof(int));
		must_be(KVD_OK, SERVER);
		memcpy((char *)&options + cases[i].at, &cases[i].beyond, sizeof(int));
		must_fail(SERVER, KVD_EINVAL, RANGE);
		kvd_client_delete(&client);
	}
	const size_t wrong[] = { 0, 7, sizeof options + 1 };
	for (unsigned i = 0; i < 3; i++) {
		options.size = wrong[i];
		must_be(KVD_EINVAL, SERVER);
		char text[128];
		snprintf(text, sizeof text, "options.size is %zu: set it to sizeof(struct kvd_options)",
			 options.size);
		assert_string_equal(kvd_client_error(client), text);
	}
	/* One of a time when there was nothing else. */
	options.size = sizeof options.size;
	options.depth = 7;
	must_be(KVD_OK, SERVER);
	assert_int_equal(client->options.depth, 32);
	kvd_client_delete(&client);
	assert_int_equal(kvd_client_new(SERVER, NULL, &client), KVD_OK);
	assert_int_equal(client->options.depth, 32);
}

/* ------------------------------------------------------------------------------- servers */

static void test_servers(void **state)
{
	char list[1400] = "127.0.0.1:7000";

	(void)state;
	must_be(KVD_OK, "127.0.0.1:7000,127.0.0.2:7001,127.0.0.1:7000");
	assert_int_equal(client->route.count, 2);
	assert_true(client->route.is_list);
	assert_string_equal(client->route.of[1].text, "127.0.0.2:7001");
	must_be(KVD_OK, SERVER ",");
	assert_true(client->route.is_list);
	must_fail(NULL, KVD_EINVAL, "no server was given");
	must_fail(",", KVD_EINVAL, "no server was given");
	must_be(KVD_EINVAL, SERVER ",127.0.0.1:99999");
	for (unsigned i = 1; i < ROUTE_MAX; i++)
		snprintf(list + strlen(list), sizeof list - strlen(list), ",127.0.0.1:%u", 7000 + i);
	must_be(KVD_OK, list);
	assert_int_equal(client->route.count, ROUTE_MAX);
	strcat(list, ",127.0.0.1:6000");
	must_fail(list, KVD_EINVAL, "more than 48 addresses of servers");
	options.device = "a device that isn't there";
	must_be(KVD_EDEVICE, SERVER);
}

static void must_be_space(const char *space)
{
	char text[64];

	assert_true(client->space == (space ? space_number(space) : 0));
	snprintf(text, sizeof text, SERVER "%s%s", space ? "/" : "", space ? space : "");
	assert_string_equal(client->route.of[0].text, text);
	assert_null(client->options.namespace_name);
}

static void test_namespace(void **state)
{
	(void)state;
	options.namespace_name = "red";
	must_be(KVD_OK, SERVER);
	must_be_space("red");
	must_be(KVD_OK, SERVER "/blue"); /* what stands there counts */
	must_be_space("blue");
	setenv("KVD_NAMESPACE", "green", 1);
	must_be(KVD_OK, SERVER);
	must_be_space("red");
	options.namespace_name = NULL;
	must_be(KVD_OK, SERVER);
	must_be_space("green");
	options.namespace_name = ""; /* none, whatever the environment says */
	must_be(KVD_OK, SERVER);
	must_be_space(NULL);
	options.namespace_name = "no name";
	must_fail(SERVER, KVD_EINVAL, "'no name' is no name of a namespace");
	options.namespace_name = NULL;
	must_be(KVD_EINVAL, SERVER "/no name");
}

/* ----------------------------------------------------------------------------- credentials */

static char folder[] = "/tmp/client_test.XXXXXX", path[64], line[CREDENTIALS_BYTES_MAX];

static void make_credentials(const char *name)
{
	struct credentials c = { 0 };
	struct auth_secret secret;
	struct err err;

	assert_int_equal(auth_init(), 0);
	auth_new(&secret, &c.server);
	auth_new(&c.secret, &(struct auth_key){ { 0 } });
	strcpy(c.name, name);
	credentials_format(&c, line);
	unlink(path);
	int fd = credentials_create(path, &err);
	assert_true(fd >= 0);
	assert_int_equal(credentials_write(&c, fd, path, &err), 0);
}

static void must_be_user(const char *name)
{
	must_be(KVD_OK, SERVER);
	assert_int_equal(client->has_credentials, name != NULL);
	assert_string_equal(client->credentials.name, name ? name : "");
	assert_null(client->options.credentials);
}

static void test_credentials(void **state)
{
	(void)state;
	strcpy(strrchr(folder, '.') + 1, "XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/file", folder);
	make_credentials("adam");
	setenv("KVD_CREDENTIALS", line, 1);
	make_credentials("eve");
	must_be_user("adam");
	options.credentials = path;
	must_be_user("eve");
	options.credentials = NULL;
	setenv("KVD_CREDENTIALS", "", 1);
	must_be_user(NULL);
	unsetenv("KVD_CREDENTIALS");
	setenv("KVD_CREDENTIALS_FILE", path, 1);
	must_be_user("eve");
	options.credentials = ""; /* none, whatever the environment says */
	must_be_user(NULL);
	setenv("KVD_CREDENTIALS_FILE", "", 1);
	options.credentials = NULL;
	must_be_user(NULL);
	setenv("KVD_CREDENTIALS", "nonsense", 1);
	must_be(KVD_EINVAL, SERVER);
	assert_false(client->has_credentials);
	assert_non_null(strstr(kvd_client_error(client), "KVD_CREDENTIALS"));
	unlink(path);
	options.credentials = path;
	must_be(KVD_EINVAL, SERVER);
	assert_non_null(strstr(kvd_client_error(client), path));
	rmdir(folder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_results),
		TEST(test_defaults),
		TEST(test_limits),
		TEST(test_servers),
		TEST(test_namespace),
		TEST(test_credentials),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/agree: the same cases with the register in memory and with a real ZooKeeper,
 * which the test starts where Debian's package and a Java are installed, and kvd has its client.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config.h"

#include "common/clock.h"
#include "server/cluster/agree/agree.h"
#include "server/cluster/agree/register.h"
#include "server/cluster/agree/zookeeper.h"
#include "tests/unit/stopped.h"

#define JAR "/usr/share/java/zookeeper.jar"
#define PATIENCE_NS 120000000000ull
#define SESSION_MS 4000u

/* ------------------------------------------------------------------ engines */
static struct agree_register *reg; /* NULL: ZooKeeper */
static pid_t server = -1;
static char folder[64], address[64];

struct heard {
	enum agree_session session;
	unsigned changes;
	char path[AGREE_PATH_BYTES];
	bool is_answered;
	unsigned answers;
	enum agree_status status;
	char text[AGREE_BYTES_MAX + 1];
	int32_t version;
	unsigned count;
	char why[256];
};

static void on_changed(void *arg, const char *path)
{
	struct heard *h = arg;

	h->changes++;
	snprintf(h->path, sizeof h->path, "%s", path ? path : "any");
}

static void on_session(void *arg, enum agree_session session)
{
	((struct heard *)arg)->session = session;
}

static void on_answer(void *arg, const struct agree_answer *answer)
{
	struct heard *h = arg;

	h->is_answered = true;
	h->answers++;
	h->status = answer->status;
	h->version = answer->version;
	h->count = answer->count;
	memcpy(h->text, answer->bytes, answer->length);
	h->text[answer->length] = 0;
	for (unsigned i = 0; i < answer->count; i++)
		strcat(strcat(h->text, answer->names[i]), " ");
	snprintf(h->why, sizeof h->why, "%s", answer->why ? answer->why : "");
}

/* Polls until there is something new; fails after a while. */
static void wait_on(struct agree *a, uint64_t until_ns)
{
	struct pollfd fd = { .fd = agree_descriptor(a), .events = POLLIN };

	assert_true(clock_ns() < until_ns);
	assert_true(poll(&fd, 1, 1000) >= 0);
	agree_poll(a);
}

static struct agree *open_as(struct heard *h, const char *digest)
{
	struct agree_events events = { on_changed, on_session, h };
	struct agree_zookeeper options = { address, SESSION_MS, digest };
	uint64_t until = clock_ns() + PATIENCE_NS;
	struct agree *a = NULL;
	struct err err;

	*h = (struct heard){ 0 };
	if (reg)
		assert_int_equal(agree_register_open(reg, &events, &a), 0);
	else if (agree_zookeeper_open(&options, &events, &a, &err))
		fail_msg("%s", err.text);
	while (h->session != AGREE_CONNECTED)
		wait_on(a, until);
	return a;
}

static struct agree *open_one(struct heard *h)
{
	return open_as(h, NULL);
}

static void answered(struct agree *a, struct heard *h, int rc)
{
	uint64_t until = clock_ns() + PATIENCE_NS;

	assert_int_equal(rc, 0);
	while (!h->is_answered)
		wait_on(a, until);
	h->is_answered = false;
}

static enum agree_status put(struct agree *a, struct heard *h, const char *path, const char *text,
			     int32_t version)
{
	answered(a, h, agree_write(a, path, text, strlen(text), version, on_answer, h));
	return h->status;
}

static enum agree_status make(struct agree *a, struct heard *h, const char *path, const char *text,
			      bool is_ephemeral)
{
	answered(a, h, agree_create(a, path, text, strlen(text), is_ephemeral, on_answer, h));
	return h->status;
}

static enum agree_status get(struct agree *a, struct heard *h, const char *path, bool watch)
{
	answered(a, h, agree_read(a, path, watch, on_answer, h));
	return h->status;
}

/* The same, where a connection that has just come back may be lost again. */
static enum agree_status get_after_all(struct agree *a, struct heard *h, const char *path)
{
	uint64_t until = clock_ns() + PATIENCE_NS;

	while (get(a, h, path, false) == AGREE_UNKNOWN)
		assert_true(clock_ns() < until);
	return h->status;
}

/* -------------------------------------------------------------------- cases */
static void test_versions(void **state)
{
	struct heard x, y;
	struct agree *a = open_one(&x), *b = open_one(&y);

	(void)state;
	assert_int_equal(get(a, &x, "/shard", false), AGREE_ABSENT);
	assert_non_null(strstr(x.why, "reading /shard: "));
	assert_int_equal(put(a, &x, "/shard", "0", 0), AGREE_ABSENT);
	assert_int_equal(make(a, &x, "/above/below", "", false), AGREE_ABSENT);
	assert_int_equal(make(a, &x, "/shard", "1", false), AGREE_DONE);
	assert_int_equal(make(b, &y, "/shard", "2", false), AGREE_EXISTS);
	assert_int_equal(get(b, &y, "/shard", false), AGREE_DONE);
	assert_string_equal(y.text, "1");
	assert_int_equal(put(b, &y, "/shard", "epoch 2", y.version), AGREE_DONE);
	assert_int_equal(y.version, x.version + 1);
	assert_int_equal(put(a, &x, "/shard", "epoch 2, too", 0), AGREE_VERSION);
	assert_int_equal(get(a, &x, "/shard", false), AGREE_DONE);
	assert_string_equal(x.text, "epoch 2");
	assert_int_equal(x.version, y.version);
	agree_close(&a);
	agree_close(&a); /* takes NULL */
	agree_close(&b);
}

static void test_watch(void **state)
{
	struct heard x, y;
	struct agree *a = open_one(&x), *b = open_one(&y);
	uint64_t until = clock_ns() + PATIENCE_NS;

	(void)state;
	assert_int_equal(make(a, &x, "/watched", "1", false), AGREE_DONE);
	assert_int_equal(get(a, &x, "/watched", true), AGREE_DONE);
	assert_int_equal(put(b, &y, "/watched", "2", 0), AGREE_DONE);
	while (!x.changes)
		wait_on(a, until);
	assert_string_equal(x.path, "/watched");
	/* It fires once: what follows is heard of by reading. */
	assert_int_equal(put(b, &y, "/watched", "3", 1), AGREE_DONE);
	assert_int_equal(get(a, &x, "/watched", false), AGREE_DONE);
	assert_string_equal(x.text, "3");
	assert_int_equal(x.changes, 1);
	agree_close(&a);
	agree_close(&b);
}

/* Who comes in the place of one that is gone hears nothing of what that one watched. */
static void test_watch_of_who_is_gone(void **state)
{
	struct heard x, y, z;
	struct agree *a = open_one(&x), *b = open_one(&y);

	(void)state;
	assert_int_equal(make(a, &x, "/left", "1", false), AGREE_DONE);
	assert_int_equal(get(a, &x, "/left", true), AGREE_DONE);
	agree_close(&a);
	a = open_one(&z);
	assert_int_equal(put(b, &y, "/left", "2", 0), AGREE_DONE);
	assert_int_equal(get(a, &z, "/left", false), AGREE_DONE);
	assert_string_equal(z.text, "2");
	assert_int_equal(z.changes, 0);
	agree_close(&a);
	agree_close(&b);
}

static void test_ephemeral(void **state)
{
	struct heard x, y;
	struct agree *a = open_one(&x), *b = open_one(&y);

	(void)state;
	assert_int_equal(make(a, &x, "/live", "", false), AGREE_DONE);
	assert_int_equal(make(a, &x, "/live/a", "here", true), AGREE_DONE);
	answered(b, &y, agree_list(b, "/live", on_answer, &y));
	assert_int_equal(y.status, AGREE_DONE);
	assert_int_equal(y.count, 1);
	assert_string_equal(y.text, "a ");
	agree_close(&a);
	assert_int_equal(get(b, &y, "/live/a", false), AGREE_ABSENT);
	assert_int_equal(get(b, &y, "/live", false), AGREE_DONE);
	agree_close(&b);
}

static void test_limits(void **state)
{
	struct heard x;
	struct agree *a = open_one(&x);
	char path[AGREE_PATH_BYTES + 1] = "/";
	static const char bytes[AGREE_BYTES_MAX + 1];
	unsigned calls = 0;
	uint64_t until = clock_ns() + PATIENCE_NS;

	(void)state;
	memset(path + 1, 'p', sizeof path - 2);
	assert_int_equal(agree_read(a, path, false, on_answer, &x), EINVAL);
	assert_int_equal(agree_read(a, "shard", false, on_answer, &x), EINVAL);
	assert_int_equal(agree_create(a, "/long", bytes, sizeof bytes, false, on_answer, &x), EINVAL);
	assert_int_equal(agree_create(a, "/long", bytes, sizeof bytes - 1, false, on_answer, &x), 0);
	answered(a, &x, 0);
	assert_int_equal(x.status, AGREE_DONE);
	x.answers = 0;
	while (calls < 2 * AGREE_CALLS_MAX && !agree_read(a, "/long", false, on_answer, &x))
		calls++;
	assert_int_equal(calls, AGREE_CALLS_MAX);
	/* ZooKeeper's library does not free what it has not delivered. */
	while (!reg && x.answers < calls)
		wait_on(a, until);
	agree_close(&a);
}

/* As many have sessions as it says, and one more has none; who goes makes room. */
static void test_full_register(void **state)
{
	struct agree_events events = { on_changed, on_session, NULL };
	struct agree *all[AGREE_SESSIONS_MAX], *more = NULL;
	struct heard x[AGREE_SESSIONS_MAX];

	(void)state;
	for (unsigned i = 0; i < AGREE_SESSIONS_MAX; i++)
		all[i] = open_one(&x[i]);
	assert_int_equal(agree_register_open(reg, &events, &more), ENOSPC);
	assert_null(more);
	agree_close(&all[3]);
	all[3] = open_one(&x[3]);
	for (unsigned i = 0; i < AGREE_SESSIONS_MAX; i++)
		agree_close(&all[i]);
}

/* Who reads back what became of a write whose answer was lost knows it by its own words. */
static void read_back(struct agree *a, struct heard *h, const char *text, int32_t version, bool is_there)
{
	assert_int_equal(get(a, h, "/lost", false), AGREE_DONE);
	assert_int_equal(h->version, version);
	assert_int_equal(strcmp(h->text, text) == 0, is_there);
}

static void test_lost(void **state)
{
	struct heard x;
	struct agree *a = open_one(&x);

	(void)state;
	assert_int_equal(make(a, &x, "/lost", "0", false), AGREE_DONE);
	agree_register_fault(reg, AGREE_LOSE_ANSWER);
	assert_int_equal(put(a, &x, "/lost", "1", 0), AGREE_UNKNOWN);
	assert_string_equal(x.why, "writing /lost: the answer was lost");
	read_back(a, &x, "1", 1, true);
	agree_register_fault(reg, AGREE_LOSE_REQUEST);
	assert_int_equal(put(a, &x, "/lost", "2", 1), AGREE_UNKNOWN);
	read_back(a, &x, "2", 1, false);
	/* Not there is not never. */
	agree_register_fault(reg, AGREE_LATE);
	assert_int_equal(put(a, &x, "/lost", "3", 1), AGREE_UNKNOWN);
	read_back(a, &x, "3", 1, false);
	agree_register_carry_out(reg);
	read_back(a, &x, "3", 2, true);
	/* Unless another one took the version. */
	agree_register_fault(reg, AGREE_LATE);
	assert_int_equal(put(a, &x, "/lost", "4", 2), AGREE_UNKNOWN);
	assert_int_equal(put(a, &x, "/lost", "5", 2), AGREE_DONE);
	agree_register_carry_out(reg);
	read_back(a, &x, "5", 3, true);
	agree_close(&a);
}

static void test_over(void **state)
{
	struct heard x, y;
	struct agree *a = open_one(&x), *b = open_one(&y);

	(void)state;
	assert_int_equal(make(a, &x, "/mine", "", true), AGREE_DONE);
	agree_register_end(a);
	agree_poll(a);
	assert_int_equal(x.session, AGREE_OVER);
	assert_int_equal(get(a, &x, "/mine", false), AGREE_UNKNOWN);
	assert_int_equal(get(b, &y, "/mine", false), AGREE_ABSENT);
	agree_close(&a);
	agree_close(&b);
}

/* The servers stand still while a write is under way: nobody knows, then it can be read. */
static void test_stopped(void **state)
{
	struct heard x;
	struct agree *a = open_one(&x);
	uint64_t until = clock_ns() + PATIENCE_NS;

	(void)state;
	assert_int_equal(make(a, &x, "/stopped", "0", false), AGREE_DONE);
	assert_int_equal(kill(server, SIGSTOP), 0);
	while (!is_stopped(server))
		assert_true(clock_ns() < until);
	assert_int_equal(put(a, &x, "/stopped", "1", 0), AGREE_UNKNOWN);
	assert_non_null(strstr(x.why, "writing /stopped: "));
	while (x.session == AGREE_CONNECTED)
		wait_on(a, until);
	assert_int_equal(kill(server, SIGCONT), 0);
	agree_close(&a);
	a = open_one(&x);
	/* Carried out or not, another one decides it. */
	assert_int_equal(get_after_all(a, &x, "/stopped"), AGREE_DONE);
	assert_int_equal(x.version, atoi(x.text));
	for (int version = x.version; version < 3; version++)
		if (put(a, &x, "/stopped", "decided", version) == AGREE_DONE)
			break;
	assert_int_equal(get_after_all(a, &x, "/stopped"), AGREE_DONE);
	assert_string_equal(x.text, "decided");
	agree_close(&a);
}

static void test_denied(void **state)
{
	struct heard x, y;
	struct agree *a = open_as(&x, "kvd:one"), *b = open_as(&y, "kvd:other");

	(void)state;
	assert_int_equal(make(a, &x, "/guarded", "1", false), AGREE_DONE);
	assert_int_equal(get(b, &y, "/guarded", false), AGREE_DENIED);
	assert_int_equal(put(b, &y, "/guarded", "2", 0), AGREE_DENIED);
	assert_int_equal(put(a, &x, "/guarded", "2", 0), AGREE_DONE);
	agree_close(&a);
	agree_close(&b);
}

/* ------------------------------------------------------------- a ZooKeeper */
static uint16_t free_port(void)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof sin;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof sin), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sin, &bytes), 0);
	close(fd);
	return ntohs(sin.sin_port);
}

static void run_server(const char *config)
{
	int null = open("/dev/null", O_RDWR);

	dup2(null, 1);
	dup2(null, 2);
	execlp("java", "java", "-Xmx96m", "-cp", JAR,
	       "org.apache.zookeeper.server.ZooKeeperServerMain", config, (char *)NULL);
	_exit(127);
}

static int start_server(void **state)
{
	char config[96];
	uint16_t port = free_port();
	FILE *f;

	(void)state;
	snprintf(folder, sizeof folder, "/tmp/kvd-agree-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(config, sizeof config, "%s/zoo.cfg", folder);
	snprintf(address, sizeof address, "127.0.0.1:%u", port);
	f = fopen(config, "w");
	assert_non_null(f);
	fprintf(f, "dataDir=%s\nclientPort=%u\nclientPortAddress=127.0.0.1\ntickTime=500\n"
		"admin.enableServer=false\n", folder, port);
	assert_int_equal(fclose(f), 0);
	server = fork();
	assert_true(server >= 0);
	if (server == 0)
		run_server(config);
	return 0;
}

static int stop_server(void **state)
{
	char command[96];

	(void)state;
	kill(server, SIGCONT);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	snprintf(command, sizeof command, "rm -rf '%s'", folder);
	return system(command);
}

static int new_register(void **state)
{
	(void)state;
	reg = agree_register_new();
	return !reg;
}

static int delete_register(void **state)
{
	(void)state;
	agree_register_delete(&reg);
	return 0;
}

int main(void)
{
	const struct CMUnitTest with_register[] = {
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_watch),
		cmocka_unit_test(test_watch_of_who_is_gone),
		cmocka_unit_test(test_ephemeral),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_full_register),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_over),
	};
	int failed = cmocka_run_group_tests(with_register, new_register, delete_register);
#ifdef HAVE_ZOOKEEPER
	const struct CMUnitTest with_zookeeper[] = {
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_watch),
		cmocka_unit_test(test_watch_of_who_is_gone),
		cmocka_unit_test(test_ephemeral),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_denied),
		cmocka_unit_test(test_stopped),
	};
	if (access(JAR, R_OK) || system("command -v java >/dev/null"))
		printf("skipped with a ZooKeeper: no java, or no %s (Debian: zookeeper)\n", JAR);
	else
		failed += cmocka_run_group_tests(with_zookeeper, start_server, stop_server);
#else
	printf("skipped with a ZooKeeper: built without it\n");
	(void)start_server;
	(void)stop_server;
	(void)test_denied;
	(void)test_stopped;
#endif
	return failed;
}

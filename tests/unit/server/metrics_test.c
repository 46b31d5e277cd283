/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/metrics/metrics.h: figures that only a hardware device, a database, a cluster or users have,
 * which the test makes up.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/clock.h"
#include "server/access/gate.h"
#include "server/durable/durable.h"
#include "server/host/host.h"
#include "server/lock/locker.h"
#include "server/metrics/metrics.h"
#include "server/metrics/stats.h"
#include "server/worker/conn_impl.h"
#include "server/worker/context.h"
#include "server/worker/timing.h"
#include "server/worker/worker.h"
#include "tests/lib/fixture.h"
#include "tests/lib/group.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/made_up.h"
#include "tests/unit/server/expect_health.h"
#include "tests/unit/server/wrap_fopen.h"

#define TABLE_BYTES (16ull << 20)
#define S 1000000000ull
#define CLASS "/sys/class/infiniband/"
#define COUNTER(device, port, name) \
	"kvd_port_counter{device=\"" device "\",port=\"" port "\",counter=\"" name "\"} "
#define ADDRESS(device, port, addr) \
	"kvd_address_connections{device=\"" device "\",port=\"" port "\",address=\"" addr "\"} "
#define STRANGE "q\\\"b\\\\c\\nd" /* as a label */

static struct fixture f;
static struct host host;
static struct server server;
static struct options options;
static struct ibv_device device[2] = { { .name = "hca0" }, { .name = "q\"b\\c\nd" } };
static struct ibv_context context[2] = { { .device = &device[0] }, { .device = &device[1] } };
static struct verbs hardware;
static struct durable_stats disk;
static struct locker_stats locks;
static struct cluster_figures member;
static char root[] = "/tmp/metrics_test.XXXXXX";
static char *text;
static int folders; /* that are open */
static struct worker_stats counts[2]; /* of two workers, as are the next */
static struct timing timings[2][WIRE_OPS];
static uint64_t stuck_ns[2];

/* ------------------------------------------------------------------- machine */

DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
int __real_closedir(DIR *dir);
int __wrap_closedir(DIR *dir);
void __wrap_durable_stats(struct durable *durable, struct durable_stats *stats);
void __wrap_locker_stats(const struct locker *locker, struct locker_stats *stats);
bool __wrap_gate_has_users(const struct gate *gate);
unsigned __wrap_gate_seats(const struct gate *gate);
void __wrap_gate_user_name(struct gate *gate, const struct handshake *h,
			   char name[AUTH_NAME_BYTES_MAX + 1]);

/* The kernel's figures of devices are below `root`. */
static const char *below(const char *path, char buf[512])
{
	if (strncmp(path, CLASS, strlen(CLASS)))
		return path;
	snprintf(buf, 512, "%s/%s", root, path + strlen(CLASS));
	return buf;
}

FILE *WRAP_FOPEN(const char *path, const char *mode)
{
	char buf[512];

	return REAL_FOPEN(below(path, buf), mode);
}

DIR *__wrap_opendir(const char *path)
{
	char buf[512];
	DIR *dir = __real_opendir(below(path, buf));

	folders += dir != NULL;
	return dir;
}

int __wrap_closedir(DIR *dir)
{
	folders--;
	return __real_closedir(dir);
}

void __wrap_durable_stats(struct durable *durable, struct durable_stats *stats)
{
	(void)durable;
	*stats = disk;
}

void __wrap_locker_stats(const struct locker *locker, struct locker_stats *stats)
{
	(void)locker;
	*stats = locks;
}

/* Workers are numbers, from 1 on. */
static unsigned number_of(const struct worker *worker)
{
	assert_in_range((uintptr_t)worker, 1, 2);
	return (unsigned)(uintptr_t)worker - 1;
}

MADE_UP(const struct worker_stats *, worker_stats, const struct worker *worker)
{
	return &counts[number_of(worker)];
}

MADE_UP(const struct timing *, worker_timing, const struct worker *worker, unsigned op)
{
	return &timings[number_of(worker)][op];
}

MADE_UP(uint64_t, worker_stuck_ns, struct worker *worker, uint64_t now_ns)
{
	assert_true(now_ns > 0);
	return stuck_ns[number_of(worker)];
}

static void figures(void *arg, struct cluster_figures *to)
{
	assert_ptr_equal(arg, &member);
	*to = member;
}

bool __wrap_gate_has_users(const struct gate *gate)
{
	(void)gate;
	return server.conns != NULL;
}

unsigned __wrap_gate_seats(const struct gate *gate)
{
	(void)gate;
	return 7;
}

void __wrap_gate_user_name(struct gate *gate, const struct handshake *h,
			   char name[AUTH_NAME_BYTES_MAX + 1])
{
	(void)gate;
	strcpy(name, h->user.name);
}

/* A file below `root`, and its folders. */
static void put_file(const char *name, const char *content)
{
	char path[512];

	snprintf(path, sizeof path, "%s/%s", root, name);
	for (char *at = path + sizeof root; (at = strchr(at, '/')); at++) {
		*at = '\0';
		(void)mkdir(path, 0700);
		*at = '/';
	}
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(content, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* --------------------------------------------------------------------- text */

static void scrape(void)
{
	int files = count_descriptors();
	size_t bytes;

	free(text);
	text = metrics_text(&host, &bytes);
	assert_non_null(text);
	assert_int_equal(bytes, strlen(text));
	assert_int_equal(folders, 0);
	assert_int_equal(count_descriptors(), files);
}

/* How many lines begin with that. */
static unsigned lines_with(const char *begin)
{
	unsigned n = 0;

	for (const char *at = text; *at; at += strcspn(at, "\n") + 1)
		n += !strncmp(at, begin, strlen(begin));
	return n;
}

/* A family of one sample. */
static void expect(const char *name, const char *type, const char *value)
{
	char line[256];

	snprintf(line, sizeof line, "# HELP %s ", name);
	assert_int_equal(lines_with(line), 1);
	snprintf(line, sizeof line, "# TYPE %s %s\n", name, type);
	assert_int_equal(lines_with(line), 1);
	snprintf(line, sizeof line, "%s %s\n", name, value);
	if (lines_with(line) != 1)
		fail_msg("%s is not %s", name, value);
}

static void test_durability(void **state)
{
	(void)state;
	scrape();
	expect("kvd_durable", "gauge", "0");
	assert_int_equal(lines_with("kvd_durability"), 0);
	server.durable = (struct durable *)&disk;
	disk = (struct durable_stats){ .sync = true, .is_failing = true, .commits = 11, .changes = 12,
				       .refused = 13, .unknown = 14, .pending = 15, .lag_ns = 16 * S,
				       .commit_ns = 17 * S + S / 2, .disk_free_bytes = 18,
				       .loaded_keys = 19, .load_ns = 20 * S };
	scrape();
	expect("kvd_durable", "gauge", "1");
	expect("kvd_durability_sync", "gauge", "1");
	expect("kvd_durability_refusing", "gauge", "1");
	expect("kvd_durability_lag_seconds", "gauge", "16");
	expect("kvd_durability_pending_changes", "gauge", "15");
	expect("kvd_durability_commits_total", "counter", "11");
	expect("kvd_durability_changes_total", "counter", "12");
	expect("kvd_durability_refused_total", "counter", "13");
	expect("kvd_durability_unknown_total", "counter", "14");
	expect("kvd_durability_commit_seconds_total", "counter", "17.500000000");
	expect("kvd_durability_disk_free_bytes", "gauge", "18");
	expect("kvd_loaded_keys", "gauge", "19");
	expect("kvd_load_seconds", "gauge", "20");
}

static void test_locks(void **state)
{
	(void)state;
	locks = (struct locker_stats){ .waits = 31, .handovers = 32, .recovered = 33, .released = 34,
				       .fenced = 35 };
	scrape();
	expect("kvd_locks_available", "gauge", "0");
	expect("kvd_locks_held", "gauge", "0");
	expect("kvd_lock_waits_total", "counter", "0");
	server.locker = (struct locker *)(void *)&locks;
	f.table->locks[3] = 1;
	scrape();
	f.table->locks[3] = 0;
	expect("kvd_locks_available", "gauge", "1");
	expect("kvd_locks_held", "gauge", "1");
	expect("kvd_lock_waits_total", "counter", "31");
	expect("kvd_lock_handovers_total", "counter", "32");
	expect("kvd_locks_recovered_total", "counter", "33");
	expect("kvd_locks_released_total", "counter", "34");
	expect("kvd_lock_fenced_total", "counter", "35");
}

static void test_cluster(void **state)
{
	(void)state;
	scrape();
	assert_int_equal(lines_with("kvd_cluster"), 0);
	server.hooks.cluster_figures = figures;
	server.hooks.cluster_arg = &member;
	member = (struct cluster_figures){ .epoch = 21, .in_sync = 22, .copies = 23, .lag_records = 24,
					   .lease_left_ns = 5 * S / 2, .failovers = 25,
					   .failover_ns = 26 * S, .serves = true, .is_reached = true,
					   .is_fit = true };
	scrape();
	expect("kvd_cluster_epoch", "gauge", "21");
	expect("kvd_cluster_primary", "gauge", "1");
	expect("kvd_cluster_in_sync_members", "gauge", "22");
	expect("kvd_cluster_copies", "gauge", "23");
	expect("kvd_cluster_agreement_reached", "gauge", "1");
	expect("kvd_cluster_fit", "gauge", "1");
	expect("kvd_cluster_lag_records", "gauge", "24");
	expect("kvd_cluster_lease_left_seconds", "gauge", "2.5");
	expect("kvd_cluster_failovers_total", "counter", "25");
	expect("kvd_cluster_failover_seconds", "gauge", "26");
}

/* Of two ports of each device; what is no number, hidden, or no counter is left out. */
static void test_ports(void **state)
{
	(void)state;
	put_file("hca0/ports/1/counters/port_xmit_data", "101\n");
	put_file("hca0/ports/1/counters/.hidden", "102\n");
	put_file("hca0/ports/1/counters/mute", "N/A (no PMA)\n");
	put_file("hca0/ports/1/hw_counters/rnr_nak_retry_err", "103\n");
	put_file("hca0/ports/1/hw_counters/lifespan", "10\n");
	put_file("hca0/ports/2/counters/symbol_error", "0\n");
	put_file("hca0/ports/3/counters/none", "1\n");
	put_file("q\"b\\c\nd/ports/2/hw_counters/out", "18446744073709551615\n");
	scrape();
	assert_int_equal(lines_with("# TYPE kvd_port_counter untyped\n"), 1);
	assert_int_equal(lines_with("kvd_port_counter{"), 4);
	assert_int_equal(lines_with(COUNTER("hca0", "1", "port_xmit_data") "101\n"), 1);
	assert_int_equal(lines_with(COUNTER("hca0", "1", "rnr_nak_retry_err") "103\n"), 1);
	assert_int_equal(lines_with(COUNTER("hca0", "2", "symbol_error") "0\n"), 1);
	assert_int_equal(lines_with(COUNTER(STRANGE, "2", "out") "18446744073709551615\n"), 1);
	hardware.soft = true;
	scrape();
	assert_int_equal(lines_with("kvd_port_counter{"), 0);
	assert_int_equal(lines_with("# TYPE kvd_port_counter untyped\n"), 1);
}

/* Each name once, with as many as are in; who isn't admitted yet has none. */
static void test_users(void **state)
{
	static const char *const names[] = { "will", "", "anne", "will", "", "will" };
	static struct conn conns[6];

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		strcpy(conns[i].handshake.user.name, names[i]);
		conns[i].all_next = i < 5 ? &conns[i + 1] : NULL;
		conns[i].listener = i < 4;
	}
	scrape();
	assert_int_equal(lines_with("kvd_user_connections{"), 0);
	server.conns = conns;
	scrape();
	expect("kvd_user_connections_limit", "gauge", "7");
	assert_int_equal(lines_with("kvd_user_connections{"), 2);
	assert_int_equal(lines_with("kvd_user_connections{user=\"anne\"} 1\n"), 1);
	assert_int_equal(lines_with("kvd_user_connections{user=\"will\"} 3\n"), 1);
	assert_int_equal(lines_with(ADDRESS("hca0", "1", "a:1") "2\n"), 1);
	assert_int_equal(lines_with(ADDRESS(STRANGE, "2", "b:2") "4\n"), 1);
}

/* -------------------------------------------------------------------- workers */

static void add_workers(void)
{
	for (uintptr_t i = 0; i < 2; i++)
		server.worker[i] = (struct worker *)(i + 1);
	server.worker_count = 2;
	memset(stuck_ns, 0, sizeof stuck_ns);
}

/* Of all workers together; of the durations each bucket has those of the ones below it. */
static void test_requests(void **state)
{
	static const char get[] = "kvd_request_duration_seconds_bucket{op=\"get\",le=";
	char line[128];

	(void)state;
	add_workers();
	for (unsigned i = 0; i < 2; i++) {
		counts[i].requests[WIRE_GET] = 40 + i;
		counts[i].not_found = 50 + i;
		counts[i].failed = 60 + i;
		counts[i].aside = 70 + i;
		counts[i].pulls = 80 + i;
		counts[i].pull_bytes = 90 + i;
		timings[i][WIRE_GET].bucket[0] = 3;
		timings[i][WIRE_GET].bucket[TIMING_BOUNDS] = 1 + i;
		timings[i][WIRE_GET].sum_ns = 2 * S;
	}
	scrape();
	assert_int_equal(lines_with("kvd_requests_total{op=\"get\"} 81\n"), 1);
	assert_int_equal(lines_with("kvd_requests_total{"), WIRE_OPS - 1);
	expect("kvd_requests_not_found_total", "counter", "101");
	expect("kvd_requests_failed_total", "counter", "121");
	expect("kvd_requests_set_aside_total", "counter", "141");
	expect("kvd_pulls_total", "counter", "161");
	expect("kvd_pull_bytes_total", "counter", "181");
	snprintf(line, sizeof line, "%s\"1e-06\"} 6\n", get);
	assert_int_equal(lines_with(line), 1);
	snprintf(line, sizeof line, "%s\"5\"} 6\n", get);
	assert_int_equal(lines_with(line), 1);
	snprintf(line, sizeof line, "%s\"+Inf\"} 9\n", get);
	assert_int_equal(lines_with(line), 1);
	assert_int_equal(lines_with(get), TIMING_BOUNDS + 1);
	assert_int_equal(lines_with("kvd_request_duration_seconds_sum{op=\"get\"} 4.000000000\n"), 1);
	assert_int_equal(lines_with("kvd_request_duration_seconds_count{op=\"get\"} 9\n"), 1);
	/* When a lock is granted another thread answers. */
	assert_int_equal(lines_with("kvd_request_duration_seconds_count{op=\"lock\"}"), 0);
	assert_int_equal(lines_with("kvd_request_duration_seconds_count{op=\"cluster\"} 0\n"), 1);
}

/* One worker that is stuck is enough, of whichever namespace; three seconds are not. */
static void test_health(void **state)
{
	(void)state;
	add_workers();
	server.connections = 6;
	expect_health(&host, true, "ok: 0 keys, 6 connections\n");
	stuck_ns[0] = stuck_ns[1] = 3 * S;
	expect_health(&host, true, "ok: 0 keys, 6 connections\n");
	stuck_ns[1] = 3 * S + 1;
	expect_health(&host, false, "worker 1 does nothing since 3.0 s\n");
	strcpy(server.name, "team");
	stuck_ns[0] = 4 * S;
	expect_health(&host, false, "worker 0 of team does nothing since 4.0 s\n");
}

/* ----------------------------------------------------------------------- JSON */

static char json[8192];

static void tells(const char *part)
{
	if (!strstr(json, part))
		fail_msg("%s is not in %s", part, json);
}

static void ask_json(void)
{
	size_t bytes = stats_json(&server, json, sizeof json);

	assert_int_equal(bytes, strlen(json));
}

static size_t say_cluster(void *arg, char *buf, size_t buf_bytes)
{
	assert_ptr_equal(arg, &member);
	return (size_t)snprintf(buf, buf_bytes, "%s", member.epoch ? "{\"epoch\":21}" : "");
}

static void test_json(void **state)
{
	(void)state;
	add_workers();
	ask_json();
	assert_ptr_equal(strstr(json, "{\"keys\":0,\"memory\":{\"used_bytes\":"), json);
	tells("\"locks\":{\"available\":false,\"waits\":0,");
	assert_null(strstr(json, "\"durability\""));
	assert_null(strstr(json, "\"cluster\":{"));
	strcpy(server.name, "team");
	locks = (struct locker_stats){ 31, 32, 33, 34, 35 };
	server.locker = (struct locker *)(void *)&locks;
	server.durable = (struct durable *)&disk;
	server.hooks.cluster = say_cluster;
	server.hooks.cluster_arg = &member;
	member.epoch = 0; /* it says nothing */
	disk = (struct durable_stats){ .is_failing = true, .lag_ns = S / 2, .load_ns = 3 * S };
	server.rails[1].is_lost = true;
	counts[1].requests[WIRE_PUT] = 45;
	ask_json();
	assert_ptr_equal(strstr(json, "{\"namespace\":\"team\",\"keys\":0,"), json);
	tells("\"put\":45,");
	tells("\"locks\":{\"available\":true,\"waits\":");
	assert_null(strstr(json, "\"cluster\":{"));
	tells("\"durability\":{\"mode\":\"async\",\"refusing\":true,");
	tells("\"lag_seconds\":0.500000,");
	tells("\"load_seconds\":3.000},");
	tells("\"rails\":[{\"device\":\"hca0\",\"port\":1,\"address\":\"\",\"workers\":1,\"connections\":0,"
	      "\"lost\":false},{");
	tells("\"lost\":true}],");
	tells("\"workers\":2,\"device\":\"hca0\",\"software_device\":false}}");
	member.epoch = 21;
	disk.sync = true;
	ask_json();
	tells("\"cluster\":{\"epoch\":21},");
	tells("\"mode\":\"sync\",");
}

/* Of a buffer that is too small for it all is used, and nothing behind. */
static void test_little_room(void **state)
{
	char little[201];

	(void)state;
	add_workers();
	for (size_t room = 1; room < sizeof little; room++) {
		memset(little, 'x', sizeof little);
		assert_int_equal(stats_json(&server, little, room), room - 1);
		assert_int_equal(strlen(little), room - 1);
		assert_int_equal(little[room], 'x');
	}
	/* One byte less than it takes: the last one is not there, and no more. */
	server.start_ns = clock_ns(); /* figures of as many digits both times */
	size_t bytes = stats_json(&server, json, sizeof json);
	assert_int_equal(stats_json(&server, json, bytes), bytes - 1);
	assert_int_equal(strlen(json), bytes - 1);
}

/* --------------------------------------------------------------------- group */

static void add_rail(unsigned i, const char *addr)
{
	server.rails[i] = (struct rail){ .number = i, .ctx = &context[i], .port = (uint8_t)(i + 1) };
	host.listeners[i].rail = i;
	strcpy(host.listeners[i].addr.text, addr);
}

static int make(void **state)
{
	(void)state;
	hardware = (struct verbs){ 0 };
	host = (struct host){ .servers = &server, .server_count = 1, .listener_count = 2 };
	server = (struct server){ .host = &host, .options = &options, .verbs = &hardware, .rail_count = 2,
				  .table = f.table, .store = f.store, .connections_max = 10 };
	add_rail(0, "a:1");
	add_rail(1, "b:2");
	return pthread_mutex_init(&server.conns_lock, NULL);
}

static int begin(void **state)
{
	(void)state;
	fixture_new(&f, TABLE_BYTES, 1);
	return mkdtemp(root) ? 0 : -1;
}

static int end(void **state)
{
	char command[128];

	(void)state;
	free(text);
	fixture_delete(&f);
	snprintf(command, sizeof command, "rm -rf %s", root);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_durability, make),
		cmocka_unit_test_setup(test_locks, make),
		cmocka_unit_test_setup(test_cluster, make),
		cmocka_unit_test_setup(test_ports, make),
		cmocka_unit_test_setup(test_users, make),
		cmocka_unit_test_setup(test_requests, make),
		cmocka_unit_test_setup(test_health, make),
		cmocka_unit_test_setup(test_json, make),
		cmocka_unit_test_setup(test_little_room, make),
	};

	return GROUP_RUN(tests, begin, end);
}

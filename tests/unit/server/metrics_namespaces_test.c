/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/metrics/metrics.h, stats.h: the figures of several namespaces as one text, those of the process,
 * and each counter by its own name, where all of them differ; all are made up.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "config.h"

#include "common/clock.h"
#include "server/access/gate.h"
#include "server/durable/durable.h"
#include "server/host/host.h"
#include "server/lock/locker.h"
#include "server/metrics/metrics.h"
#include "server/metrics/stats.h"
#include "server/store/item/expiry.h"
#include "server/store/reclaim/compact.h"
#include "server/store/reclaim/evict.h"
#include "server/store/reclaim/expire.h"
#include "server/store/store.h"
#include "server/table/index.h"
#include "server/table/table.h"
#include "server/worker/conn_impl.h"
#include "server/worker/context.h"
#include "server/worker/rx.h"
#include "server/worker/timing.h"
#include "server/worker/worker.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/made_up.h"
#include "tests/unit/server/expect_health.h"

#define SERVERS 3u
#define S 1000000000ull
#define STUCK_NS (3 * S)
#define CONNECTIONS_MAX 2003u

static struct host host;
static struct server servers[SERVERS];
static struct options options;
static struct store store;
static struct table table;
static struct ibv_device device = { .name = "hca0" };
static struct ibv_context context = { .device = &device };
static struct verbs verbs;
static struct worker_stats counts;
static uint64_t stuck_ns[SERVERS];
static bool has_users;
static struct durable_stats disk;
static struct locker_stats locks;
static char *text;
static unsigned no_stream, no_end; /* the so manieth that fails; 0: none */
static bool has_no_names; /* there is no memory for as many as there can be connections */
static struct conn conns[3]; /* of which the first came by the first address */

FILE *__real_open_memstream(char **to, size_t *bytes);
int __real_fclose(FILE *f);
void *__real_calloc(size_t n, size_t bytes);

MADE_UP(void *, calloc, size_t n, size_t bytes)
{
	return has_no_names && n == CONNECTIONS_MAX ? NULL : __real_calloc(n, bytes);
}

MADE_UP(FILE *, open_memstream, char **to, size_t *bytes)
{
	return no_stream && !--no_stream ? NULL : __real_open_memstream(to, bytes);
}

MADE_UP(int, fclose, FILE *f)
{
	int rc = __real_fclose(f);

	return no_end && !--no_end ? EOF : rc;
}

MADE_UP(uint64_t, index_keys, const struct index *index)
{
	(void)index;
	return 1001;
}

MADE_UP(uint64_t, index_buckets, const struct index *index)
{
	(void)index;
	return 100;
}

MADE_UP(uint64_t, index_overflow_nodes, const struct index *index)
{
	(void)index;
	return 201;
}

MADE_UP(uint64_t, index_crowded, const struct index *index)
{
	(void)index;
	return 1004;
}

MADE_UP(uint64_t, expiry_keys, const struct expiry *expiry)
{
	(void)expiry;
	return 1005;
}

MADE_UP(uint64_t, expire_reclaimed, const struct expire *expire)
{
	(void)expire;
	return 1006;
}

MADE_UP(uint64_t, table_used_bytes, const struct table *t)
{
	(void)t;
	return 1007;
}

MADE_UP(uint64_t, pins_dead_bytes, const struct pins *pins)
{
	(void)pins;
	return 1008;
}

MADE_UP(uint64_t, evict_count, const struct evict *evict)
{
	(void)evict;
	return 1009;
}

MADE_UP(struct compact_stats, compact_stats, const struct compact *compact)
{
	(void)compact;
	return (struct compact_stats){ .passes = 1010, .items = 1011, .item_bytes = 1012, .freed_bytes = 1013,
				       .waits = 1014, .longest_ns = 1015999 };
}

MADE_UP(void, durable_stats, struct durable *durable, struct durable_stats *stats)
{
	(void)durable;
	*stats = disk;
}

MADE_UP(void, locker_stats, const struct locker *locker, struct locker_stats *stats)
{
	(void)locker;
	*stats = locks;
}

MADE_UP(bool, gate_has_users, const struct gate *gate)
{
	(void)gate;
	return has_users;
}

MADE_UP(void, gate_user_name, struct gate *gate, const struct handshake *h,
	char name[AUTH_NAME_BYTES_MAX + 1])
{
	(void)gate;
	(void)h;
	strcpy(name, "anne");
}

MADE_UP(unsigned, gate_seats, const struct gate *gate)
{
	(void)gate;
	return 7;
}

MADE_UP(unsigned, queues_workers, const struct server *server, const struct rail *rail)
{
	(void)server;
	(void)rail;
	return 6;
}

/* A worker is the number of its server, from 1 on. */
MADE_UP(const struct worker_stats *, worker_stats, const struct worker *worker)
{
	(void)worker;
	return &counts;
}

MADE_UP(const struct timing *, worker_timing, const struct worker *worker, unsigned op)
{
	static const struct timing none;

	(void)worker;
	(void)op;
	return &none;
}

MADE_UP(uint64_t, worker_stuck_ns, struct worker *worker, uint64_t now_ns)
{
	(void)now_ns;
	return stuck_ns[(uintptr_t)worker - 1];
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
	assert_int_equal(count_descriptors(), files);
}

static unsigned lines_with(const char *begin)
{
	unsigned n = 0;

	for (const char *at = text; *at; at += strcspn(at, "\n") + 1)
		n += !strncmp(at, begin, strlen(begin));
	return n;
}

/* A sample, with its type where that has a family of its own. */
static void expect(const char *name, const char *type, uint64_t value)
{
	char line[256];

	snprintf(line, sizeof line, "# TYPE %s %s\n", name, type);
	assert_int_equal(lines_with(line), 1);
	snprintf(line, sizeof line, "%s %" PRIu64 "\n", name, value);
	if (lines_with(line) != 1)
		fail_msg("%s is not %" PRIu64, name, value);
}

static double real_of(const char *name)
{
	const char *at = text;
	size_t n = strlen(name);

	while (*at && (strncmp(at, name, n) || at[n] != ' '))
		at += strcspn(at, "\n") + 1;
	assert_true(*at);
	return strtod(at + n, NULL);
}

/* The first one's have no label, the others' have their names; what is of the process is there once. */
static void test_namespaces(void **state)
{
	(void)state;
	host.server_count = SERVERS;
	scrape();
	assert_int_equal(lines_with("# TYPE kvd_connections gauge\n"), 1);
	assert_int_equal(lines_with("kvd_connections 10\n"), 1);
	assert_int_equal(lines_with("kvd_connections{namespace=\"team\"} 20\n"), 1);
	assert_int_equal(lines_with("kvd_connections{namespace=\"other\"} 30\n"), 1);
	assert_int_equal(lines_with("kvd_connections{"), SERVERS - 1);
	assert_int_equal(lines_with("kvd_build_info{"), 1);
	assert_int_equal(lines_with("process_open_fds"), 1);
	assert_int_equal(lines_with("# TYPE kvd_port_counter untyped\n"), 1);
	host.server_count = 2;
	scrape();
	assert_int_equal(lines_with("kvd_connections{"), 1);
}

/* There is no text rather than one without a namespace, whichever can't be made. */
static void test_no_memory(void **state)
{
	size_t bytes;

	(void)state;
	host.server_count = SERVERS;
	for (unsigned i = 1; i <= SERVERS + 1; i++) {
		no_stream = i;
		assert_null(metrics_text(&host, &bytes));
		assert_int_equal(no_stream, 0);
	}
	host.server_count = 1;
	no_stream = 1;
	assert_null(metrics_text(&host, &bytes));
	no_end = 2; /* behind that of the process's memory */
	assert_null(metrics_text(&host, &bytes));
	assert_int_equal(no_end, 0);
}

/* Without memory for the users' names all else is told. */
static void test_no_names(void **state)
{
	(void)state;
	has_users = true;
	servers[0].conns = conns;
	scrape();
	assert_int_equal(lines_with("kvd_user_connections{user=\"anne\"} 3\n"), 1);
	has_no_names = true;
	scrape();
	assert_int_equal(lines_with("kvd_user_connections{"), 0);
	assert_int_equal(lines_with("kvd_user_connections_limit 7\n"), 1);
}

static void test_health(void **state)
{
	(void)state;
	host.server_count = SERVERS;
	expect_health(&host, true, "ok: 3003 keys, 60 connections\n");
	stuck_ns[2] = STUCK_NS + 1;
	expect_health(&host, false, "worker 0 of other does nothing since 3.0 s\n");
	stuck_ns[0] = 5 * S;
	expect_health(&host, false, "worker 0 does nothing since 5.0 s\n");
}

/* ------------------------------------------------------------------ figures */

static void test_process(void **state)
{
	struct rlimit files = { 0 };
	struct rusage before, after;
	unsigned long long pages = 0;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = files.rlim_max > 100 ? files.rlim_max - 1 : files.rlim_cur;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	servers[0].start_ns = clock_ns() - 1000 * S;
	assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
	scrape();
	assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
	assert_int_equal(lines_with("kvd_build_info{version=\"" PACKAGE_VERSION "\",device=\"hca0\","
				    "software_device=\"false\"} 1\n"), 1);
	expect("process_open_fds", "gauge", (uint64_t)count_descriptors() - 3);
	expect("process_max_fds", "gauge", files.rlim_cur);
	FILE *f = fopen("/proc/self/statm", "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*u %llu", &pages), 1);
	fclose(f);
	double resident = real_of("process_resident_memory_bytes");
	double is = (double)pages * (double)sysconf(_SC_PAGESIZE);
	assert_true(resident > is / 1.5 && resident < is * 1.5);
	double began = real_of("process_start_time_seconds"), now = (double)time(NULL);
	assert_true(began > now - 1100 && began < now - 990);
	double cpu = real_of("process_cpu_seconds_total");
	assert_true(cpu >= (double)before.ru_utime.tv_sec + (double)before.ru_utime.tv_usec / 1e6);
	assert_true(cpu <= (double)(after.ru_utime.tv_sec + after.ru_stime.tv_sec + 1) +
				   (double)(after.ru_utime.tv_usec + after.ru_stime.tv_usec) / 1e6);
	verbs.soft = true;
	scrape();
	assert_int_equal(lines_with("kvd_build_info{version=\"" PACKAGE_VERSION "\",device=\"hca0\","
				    "software_device=\"true\"} 1\n"), 1);
}

static void test_table(void **state)
{
	(void)state;
	scrape();
	expect("kvd_keys", "gauge", 1001);
	expect("kvd_expiring_keys", "gauge", 1005);
	expect("kvd_expired_keys_total", "counter", 1006);
	expect("kvd_memory_used_bytes", "gauge", 1007);
	expect("kvd_memory_budget_bytes", "gauge", 2001);
	expect("kvd_memory_value_bytes", "gauge", 2002);
	expect("kvd_memory_pinned_bytes", "gauge", 1008);
	expect("kvd_evicted_keys_total", "counter", 1009);
	expect("kvd_moved_keys_total", "counter", 1011);
	expect("kvd_moves_freed_bytes_total", "counter", 1013);
	expect("kvd_index_buckets", "gauge", 100);
	expect("kvd_index_overflow_nodes", "gauge", 201);
	expect("kvd_index_crowded_total", "counter", 1004);
	double load = real_of("kvd_index_load_ratio");
	assert_true(load > 0.24999 && load < 0.25001); /* 1001 of 4004 */
}

static void test_connections(void **state)
{
	char line[128];

	(void)state;
	atomic_store(&servers[0].rails[0].is_lost, true);
	for (unsigned i = 0; i < WC_STATUSES; i++)
		counts.wc_errors[i] = 500 + i;
	scrape();
	expect("kvd_connections", "gauge", 10);
	expect("kvd_connections_limit", "gauge", CONNECTIONS_MAX);
	expect("kvd_connections_refused_total", "counter", 2004);
	expect("kvd_requests_forbidden_total", "counter", 2005);
	expect("kvd_protocol_errors_total", "counter", 2006);
	assert_int_equal(lines_with("kvd_device_lost{device=\"hca0\"} 1\n"), 1);
	assert_int_equal(lines_with("kvd_completion_errors_total{"), WC_STATUSES - 1);
	for (unsigned i = 1; i < WC_STATUSES; i++) {
		snprintf(line, sizeof line, "kvd_completion_errors_total{status=\"%s\"} %u\n",
			 ibv_wc_status_str((enum ibv_wc_status)i), 500 + i);
		assert_int_equal(lines_with(line), 1);
	}
	atomic_store(&servers[0].rails[0].is_lost, false);
	scrape();
	assert_int_equal(lines_with("kvd_device_lost{device=\"hca0\"} 0\n"), 1);
}

/* --------------------------------------------------------------------- JSON */

static char json[16384], wanted[16384];

static void want(const char *format, ...)
{
	va_list args;
	size_t used = strlen(wanted);

	va_start(args, format);
	vsnprintf(wanted + used, sizeof wanted - used, format, args);
	va_end(args);
}

/* Each figure at its name; then come how long kvd runs, and what is as long as it runs. */
static void test_json(void **state)
{
	(void)state;
	servers[0].durable = (struct durable *)&disk;
	servers[0].locker = (struct locker *)(void *)&locks;
	locks = (struct locker_stats){ 31, 32, 33, 34, 35 };
	disk = (struct durable_stats){ .sync = true, .commits = 11, .changes = 12, .pending = 15,
				       .refused = 13, .unknown = 14, .lag_ns = S / 4, .commit_ns = S / 8,
				       .disk_free_bytes = 18, .loaded_keys = 19, .load_ns = S / 2 };
	want("{\"keys\":1001,\"memory\":{\"used_bytes\":1007,\"budget_bytes\":2001,\"value_bytes\":2002,"
	     "\"pinned_bytes\":1008},\"expiry\":{\"keys\":1005,\"reclaimed\":1006},"
	     "\"eviction\":{\"enabled\":false,\"evictions\":1009},"
	     "\"compaction\":{\"passes\":1010,\"moved_keys\":1011,\"moved_bytes\":1012,"
	     "\"freed_bytes\":1013,\"waits\":1014,\"longest_us\":1015},"
	     "\"index\":{\"buckets\":100,\"overflow_nodes\":201,\"crowded\":1004,\"load\":0.2500},"
	     "\"operations\":{");
	for (unsigned i = 1; i < WIRE_OPS; i++)
		want("\"%s\":%u,", timing_op_name(i), 600 + i);
	want("\"not_found\":701,\"failed\":702,\"set_aside\":703,\"pulls\":704,\"pull_bytes\":705},"
	     "\"locks\":{\"available\":true,\"waits\":31,\"handovers\":32,\"recovered\":33,"
	     "\"released\":34,\"fenced\":35},"
	     "\"durability\":{\"mode\":\"sync\",\"refusing\":false,\"commits\":11,\"changes\":12,"
	     "\"pending\":15,\"refused\":13,\"unknown\":14,\"lag_seconds\":0.250000,"
	     "\"commit_seconds\":0.125000,\"disk_free_bytes\":18,\"loaded_keys\":19,"
	     "\"load_seconds\":0.500},"
	     "\"connections\":10,\"refused\":2004,\"protocol_errors\":2006,"
	     "\"rails\":[{\"device\":\"hca0\",\"port\":1,\"address\":\"a:1\",\"workers\":6,"
	     "\"connections\":0,\"lost\":false}],"
	     "\"security\":{\"users\":true,\"handshakes\":2007,\"denied\":2008,\"forbidden\":2005,"
	     "\"rkey_changes\":2009,\"wrong_rights\":2010},"
	     "\"server\":{\"version\":\"" PACKAGE_VERSION "\",\"uptime_seconds\":");
	has_users = true;
	servers[0].start_ns = clock_ns() - 1000 * S;
	size_t bytes = stats_json(&servers[0], json, sizeof json), same = strlen(wanted);
	assert_int_equal(bytes, strlen(json));
	assert_true(bytes > same);
	double uptime = strtod(json + same, NULL);
	assert_true(uptime >= 1000 && uptime < 1100);
	json[same] = '\0';
	assert_string_equal(json, wanted);
	has_users = false;
	verbs.soft = true;
	store.evict = (struct evict *)(void *)&store;
	servers[0].conns = conns;
	servers[0].rails[1] = (struct rail){ .number = 1, .ctx = &context, .port = 2 };
	servers[0].rail_count = host.listener_count = 2;
	host.listeners[1].rail = 1;
	stats_json(&servers[0], json, sizeof json);
	assert_non_null(strstr(json, "\"security\":{\"users\":false,"));
	assert_non_null(strstr(json, "\"eviction\":{\"enabled\":true,"));
	assert_non_null(strstr(json, "\"workers\":6,\"connections\":1,\"lost\":false},{"));
	assert_non_null(strstr(json, "\"workers\":6,\"connections\":2,\"lost\":false}],"));
	assert_non_null(strstr(json, ",\"workers\":1,\"device\":\"hca0\",\"software_device\":true}}"));
}

/* -------------------------------------------------------------------- group */

static void add_server(unsigned i, const char *name)
{
	struct server *s = &servers[i];

	*s = (struct server){ .host = &host, .options = &options, .verbs = &verbs, .rail_count = 1,
			      .table = &table, .store = &store, .connections_max = CONNECTIONS_MAX,
			      .worker_count = 1 };
	strcpy(s->name, name);
	s->worker[0] = (struct worker *)(uintptr_t)(i + 1);
	s->rails[0] = (struct rail){ .ctx = &context, .port = 1 };
	strcpy(s->rails[0].addr.text, "a:1");
	atomic_store(&s->connections, 10 * (i + 1));
	atomic_store(&s->refused, 2004);
	atomic_store(&s->forbidden, 2005);
	atomic_store(&s->protocol_errors, 2006);
	atomic_store(&s->pending, 2007);
	atomic_store(&s->denied, 2008);
	atomic_store(&s->rkey_changes, 2009);
	atomic_store(&s->wrong_rights, 2010);
	pthread_mutex_init(&s->conns_lock, NULL);
}

static int begin(void **state)
{
	(void)state;
	verbs = (struct verbs){ 0 };
	options.memory_bytes = 2001;
	store.value_bytes = 2002;
	store.evict = NULL;
	host = (struct host){ .servers = servers, .server_count = 1, .listener_count = 1 };
	add_server(0, "");
	add_server(1, "team");
	add_server(2, "other");
	counts = (struct worker_stats){ .not_found = 701, .failed = 702, .aside = 703, .pulls = 704,
					.pull_bytes = 705 };
	for (unsigned i = 0; i < WIRE_OPS; i++)
		counts.requests[i] = 600 + i;
	memset(stuck_ns, 0, sizeof stuck_ns);
	has_users = has_no_names = false;
	no_stream = no_end = 0;
	for (unsigned i = 0; i < 3; i++) {
		conns[i].all_next = i < 2 ? &conns[i + 1] : NULL;
		conns[i].listener = i > 0;
	}
	return 0;
}

static int end(void **state)
{
	(void)state;
	free(text);
	text = NULL;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_namespaces, begin, end),
		cmocka_unit_test_setup_teardown(test_no_memory, begin, end),
		cmocka_unit_test_setup_teardown(test_no_names, begin, end),
		cmocka_unit_test_setup_teardown(test_health, begin, end),
		cmocka_unit_test_setup_teardown(test_process, begin, end),
		cmocka_unit_test_setup_teardown(test_table, begin, end),
		cmocka_unit_test_setup_teardown(test_connections, begin, end),
		cmocka_unit_test_setup_teardown(test_json, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common/rdma/hwcount.h: what a device counts, and what of it is told beside a completion that
 * failed.  The device is folders in a mount namespace of the test's own.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "client/get/get.h"
#include "client/op/operation.h"
#include "common/rdma/hwcount.h"
#include "tests/lib/end.h"

#define DEVICE "counts0"

static struct hwcount before;

static int cover_sys(void)
{
	return unshare(CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0)) ||
	       mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	       mount("none", "/sys/class", "tmpfs", 0, NULL);
}

static void set(const char *counter, const char *value)
{
	char path[256];

	snprintf(path, sizeof path, "/sys/class/infiniband/" DEVICE "/%s", counter);
	for (char *at = strchr(path + strlen("/sys/class/"), '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		assert_true(!mkdir(path, 0755) || errno == EEXIST);
		*at = '/';
	}
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	fputs(value, f);
	assert_int_equal(fclose(f), 0);
}

static int begin(void **state)
{
	(void)state;
	set("ports/1/counters/symbol_error", "7");
	set("ports/1/counters/link_downed", "3");
	set("ports/1/hw_counters/out_of_sequence", "0");
	set("ports/1/hw_counters/lifespan", "12");
	set("ports/1/hw_counters/of_nobody", "1");
	set("ports/2/counters/symbol_error", "1");
	set("diag_counters/sq_num_to", "5");
	set("hw_counters/rq_num_oos", "18446744073709551614");
	hwcount_read(DEVICE, 1, &before);
	return 0;
}

static unsigned open_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

#define SYMBOLS "symbol_error +2 (errors on the line: look at the cable)"

static void test_changes(void **state)
{
	char said[512], shorter[16];
	unsigned open_before = open_descriptors();

	(void)state;
	assert_string_equal(hwcount_changes(DEVICE, 1, &before, said, sizeof said), "");
	/* Another port's, nobody's, one that fell, and one that is no trouble. */
	set("ports/2/counters/symbol_error", "2");
	set("ports/1/hw_counters/of_nobody", "2");
	set("ports/1/counters/link_downed", "2");
	set("ports/1/hw_counters/lifespan", "13");
	assert_string_equal(hwcount_changes(DEVICE, 1, &before, said, sizeof said), "");
	set("ports/1/counters/symbol_error", "9");
	assert_string_equal(hwcount_changes(DEVICE, 1, &before, said, sizeof said), SYMBOLS);
	set("ports/1/hw_counters/out_of_sequence", "10");
	set("diag_counters/sq_num_to", "6");
	set("hw_counters/rq_num_oos", "18446744073709551615");
	assert_string_equal(hwcount_changes(DEVICE, 1, &before, said, sizeof said),
			    "out_of_sequence +10 (packets came out of order: some were lost on the way), "
			    SYMBOLS ", sq_num_to +1 (no acknowledgement came in time: loss, or a peer that "
			    "is gone), rq_num_oos +1 (packets came out of order: some were lost on the way)");
	memset(shorter, 'x', sizeof shorter);
	hwcount_changes(DEVICE, 1, &before, shorter, 8);
	assert_string_equal(shorter, "out_of_");
	assert_int_equal(shorter[8], 'x');
	/* One that can't be read counts as 0, and so does a device that isn't there. */
	set("ports/1/counters/symbol_error", "none");
	set("ports/1/hw_counters/out_of_sequence", "");
	assert_null(strstr(hwcount_changes(DEVICE, 1, &before, said, sizeof said), "out_of_sequence"));
	assert_string_equal(hwcount_changes("nobody0", 1, &before, said, sizeof said), "");
	assert_int_equal(open_descriptors(), open_before);
}

static unsigned open_files(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Nothing stays open, of a device that is there or of one that isn't. */
static void test_closes(void **state)
{
	struct hwcount counts;
	unsigned before_it = open_files();

	(void)state;
	hwcount_read(DEVICE, 1, &counts);
	hwcount_read(DEVICE, 9, &counts);
	hwcount_read("nobody0", 1, &counts);
	for (unsigned i = 0; i < HWCOUNT_MAX; i++)
		assert_int_equal(counts.value[i], 0);
	assert_int_equal(open_files(), before_it);
}

/* The names of the diagnostic list (diag_counters) of ConnectX-3 and before. */
static void test_diagnostic_list(void **state)
{
	static const char *const names[] = {
		"rq_num_lle", "sq_num_lle", "rq_num_lqpoe", "sq_num_lqpoe", "rq_num_leeoe",
		"sq_num_leeoe", "rq_num_lpe", "sq_num_lpe", "rq_num_wrfe", "sq_num_wrfe",
		"sq_num_mwbe", "sq_num_bre", "rq_num_lae", "sq_num_rire", "rq_num_rire",
		"sq_num_rae", "rq_num_rae", "sq_num_roe", "sq_num_tree", "sq_num_rree",
		"rq_num_rnr", "sq_num_rnr", "rq_num_rabrte", "sq_num_rabrte", "sq_num_ieecne",
		"sq_num_ieecse", "rq_num_oos", "sq_num_oos", "rq_num_mce", "rq_num_rsync",
		"sq_num_rsync", "rq_num_udsdprd", "rq_num_ucsdprd", "num_cqovf", "num_eqovf",
		"num_baddb", "sq_num_ldb_drops", "rq_num_dup", "sq_num_to",
	};

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		const struct hwcount_meaning *m = hwcount_find(names[i]);

		if (!m)
			fail_msg("%s has no meaning", names[i]);
		assert_true(m->trouble && *m->meaning);
	}
}

static enum ibv_port_state port_state;

static int query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr)
{
	(void)ctx;
	assert_int_equal(port, 1);
	*attr = (struct ibv_port_attr){ .state = port_state };
	return 0;
}

/* What a GET whose completion failed says. */
static void fail_a_get(struct end *end, bool soft, char *said, size_t bytes)
{
	static struct verbs verbs;
	static struct ibv_device device = { .name = DEVICE };
	static struct ibv_context context = { .device = &device };
	struct engine *e = end->engine;
	uint8_t value[10];

	verbs = *e->registrar.verbs;
	verbs.soft = soft;
	verbs.query_port = query_port;
	e->registrar.verbs = e->health.verbs = &verbs;
	e->health.ctx = &context;
	e->health.port = 1;
	e->counted = before;
	end->status = IBV_WC_RETRY_EXC_ERR;
	struct op *op = op_new(e, &get_class, "key", 3);
	assert_int_equal(get_start(op, GET_PLAIN, &(struct iovec){ value, sizeof value }, 1), 0);
	assert_int_equal(end_run(end, op)->result, KVD_ECONNECT);
	snprintf(said, bytes, "%s", e->health.err.text);
}

static void test_beside_a_completion(void **state)
{
	char said[512];
	struct end *end;

	(void)state;
	port_state = IBV_PORT_ACTIVE;
	for (int soft = 0; soft < 2; soft++) {
		set("ports/1/counters/symbol_error", "9");
		end = end_new();
		fail_a_get(end, soft, said, sizeof said);
		end_delete(end);
		assert_non_null(strstr(said, "broke: "));
		assert_int_equal(!strstr(said, "; the device counted since: " SYMBOLS), soft);
		assert_int_equal(!strstr(said, "counted"), soft);
		assert_null(strstr(said, "is down"));
	}
	set("ports/1/counters/symbol_error", "7");
	port_state = IBV_PORT_DOWN;
	end = end_new();
	fail_a_get(end, false, said, sizeof said);
	end_delete(end);
	assert_null(strstr(said, "counted"));
	assert_non_null(strstr(said, "; port 1 of the RDMA device here is down"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_changes, begin),
		cmocka_unit_test_setup(test_closes, begin),
		cmocka_unit_test(test_diagnostic_list),
		cmocka_unit_test_setup(test_beside_a_completion, begin),
	};

	if (cover_sys()) {
		printf("skipped: no mount namespace of its own: %s\n", strerror(errno));
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}

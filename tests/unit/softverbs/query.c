/* SPDX-License-Identifier: BSD-2-Clause */
/* query.c -- what can be asked of a device, and of an address: answers of any size, and refusals. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include "tests/unit/softverbs/kit.h"

#define RAW IBV_VALUES_MASK_RAW_CLOCK

/* ---- devices ---- */

static void tables(int sock)
{
	struct ibv_context *ctx = kit_open_device();
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;
	int gids = 0;

	(void)sock;
	CHECK(sv_query_port(ctx, 0, &port) == EINVAL && sv_query_port(ctx, 2, &port) == EINVAL);
	CHECK(!sv_query_port(ctx, 1, &port));
	while (!sv_query_gid(ctx, 1, gids, &gid))
		gids++;
	CHECK(errno == EINVAL && gids == port.gid_tbl_len);
	errno = 0;
	CHECK(sv_query_gid(ctx, 1, -1, &gid) == -1 && errno == EINVAL);
	errno = 0;
	CHECK(sv_query_gid(ctx, 2, 0, &gid) == -1 && errno == EINVAL);
	CHECK(!sv_query_pkey(ctx, 1, 0, &pkey) && port.pkey_tbl_len == 1);
	errno = 0;
	CHECK(sv_query_pkey(ctx, 1, 1, &pkey) == -1 && errno == EINVAL);
	errno = 0;
	CHECK(sv_query_pkey(ctx, 2, 0, &pkey) == -1 && errno == EINVAL);
	CHECK(!sv_close_device(ctx));
}

/* What kvd and other programs show, or reckon with, of a device. */
static void told(int sock)
{
	struct ibv_context *ctx = kit_open_device();
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	__be16 pkey;

	(void)sock;
	CHECK(!sv_query_device(ctx, &attr) && !strcmp(attr.fw_ver, "soft"));
	CHECK(attr.node_guid == sv_get_device_guid(ctx->device) && attr.sys_image_guid == attr.node_guid);
	CHECK(attr.vendor_id == 0xffffff && attr.max_sge_rd == attr.max_sge && attr.page_size_cap & 4096);
	CHECK(attr.phys_port_cnt == 1 && attr.max_pkeys == 1 && attr.local_ca_ack_delay == 15);
	CHECK(attr.max_res_rd_atom == attr.max_qp_rd_atom * attr.max_qp);
	CHECK(attr.max_qp_init_rd_atom == attr.max_qp_rd_atom && attr.max_ah == INT32_MAX);
	CHECK(!sv_query_port(ctx, 1, &port) && port.state == IBV_PORT_ACTIVE && port.phys_state == 5);
	CHECK(port.max_mtu == IBV_MTU_4096 && port.active_mtu == IBV_MTU_4096);
	CHECK(port.active_width == 2 && port.active_speed == 32 && port.max_vl_num == 1); /* 100 Gbit/s */
	CHECK(port.port_cap_flags == IBV_PORT_CM_SUP && port.link_layer == IBV_LINK_LAYER_ETHERNET);
	CHECK(!sv_query_pkey(ctx, 1, 0, &pkey) && pkey == htons(0xffff));
	CHECK(ctx->cmd_fd == -1 && ctx->num_comp_vectors == 8 && ctx->device);
	CHECK(!sv_close_device(ctx));
}

/* What a program under libsoftverbs-preload.so calls for the list of GIDs: ibv_query_gid_ex() and
 * ibv_query_gid_table() of <infiniband/verbs.h> are these. */
static struct {
	struct ibv_device **(*list)(int *count);
	void (*end_list)(struct ibv_device **list);
	struct ibv_context *(*open)(struct ibv_device *device);
	int (*close)(struct ibv_context *ctx);
	__typeof__(&_ibv_query_gid_ex) entry;
	__typeof__(&_ibv_query_gid_table) table;
} preload;

static void find_calls(void *library)
{
	*(void **)&preload.list = dlsym(library, "ibv_get_device_list");
	*(void **)&preload.end_list = dlsym(library, "ibv_free_device_list");
	*(void **)&preload.open = dlsym(library, "ibv_open_device");
	*(void **)&preload.close = dlsym(library, "ibv_close_device");
	*(void **)&preload.entry = dlsym(library, "_ibv_query_gid_ex");
	*(void **)&preload.table = dlsym(library, "_ibv_query_gid_table");
	assert_true(preload.list && preload.end_list && preload.open && preload.close);
	assert_true(preload.entry && preload.table);
}

/* Each has the GID that a question for it alone gives, and no two have the same. */
static void entries(int sock)
{
	struct ibv_device **list;
	struct ibv_gid_entry entry, table[2];
	struct ibv_context *own = kit_open_device(), *ctx;
	union ibv_gid gid;
	int n;

	(void)sock;
	list = preload.list(&n);
	CHECK(list && n >= 1 && (ctx = preload.open(list[0])));
	preload.end_list(list);
	CHECK(preload.table(ctx, table, 2, 0, sizeof(table[0])) == 2);
	CHECK(memcmp(&table[0].gid, &table[1].gid, sizeof(gid)));
	for (uint32_t i = 0; i < 2; i++) {
		memset(&entry, 0x5a, sizeof(entry));
		CHECK(!preload.entry(ctx, 1, i, &entry, 0, sizeof(entry)));
		CHECK(!sv_query_gid(own, 1, (int)i, &gid) && gid.global.interface_id);
		CHECK(!memcmp(&entry.gid, &gid, sizeof(gid)) && !memcmp(&table[i].gid, &gid, sizeof(gid)));
		CHECK(entry.gid_index == i && entry.port_num == 1 && table[i].gid_index == i);
	}
	CHECK(!preload.close(ctx) && !sv_close_device(own));
}

static void test_tables(void **state)
{
	(void)state;
	kit_run(tables, told);
}

#if defined(__SANITIZE_ADDRESS__) || defined(SV_TSAN)
#define HAVE_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_SANITIZER 1
#endif
#endif

static void test_entries(void **state)
{
	const char *build = getenv("KVD_BUILD");
	char path[4096];
	void *library;

	(void)state;
#ifdef HAVE_SANITIZER
	skip(); /* it knows nothing of the threads of a library that is built without */
#endif
	snprintf(path, sizeof(path), "%s/common/softverbs/.libs/libsoftverbs-preload.so",
		 build ? build : ".");
	if (access(path, F_OK))
		skip(); /* built without it */
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		fail_msg("%s", dlerror());
	find_calls(library);
	kit_run(entries, kit_nothing);
	assert_int_equal(dlclose(library), 0);
}

static bool is_filled(const void *mem, size_t bytes, uint8_t with)
{
	const uint8_t *at = mem;

	while (bytes && *at == with)
		at++, bytes--;
	return !bytes;
}

/* A program may be built with older structures than the device's, or newer ones. */
static void sizes(int sock)
{
	struct ibv_context *ctx = kit_open_device();
	struct verbs_context *vctx = verbs_get_ctx(ctx);
	struct {
		struct ibv_device_attr_ex attr;
		uint8_t more[64];
	} device;
	struct {
		struct ibv_port_attr attr;
		uint8_t more[64];
	} port;
	struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	struct ibv_device_attr plain;
	size_t least = sizeof(plain);

	(void)sock;
	memset(&plain, 0xff, sizeof(plain));
	CHECK(!sv_query_device(ctx, &plain));
	memset(&device, 0x5a, sizeof(device));
	CHECK(vctx->query_device_ex(ctx, &input, &device.attr, sizeof(device)) == EINVAL);
	CHECK(vctx->query_device_ex(ctx, NULL, &device.attr, least - 1) == EINVAL);
	CHECK(is_filled(&device, sizeof(device), 0x5a));
	CHECK(!vctx->query_device_ex(ctx, NULL, &device.attr, least));
	CHECK(!memcmp(&device, &plain, least));
	CHECK(is_filled((uint8_t *)&device + least, sizeof(device) - least, 0x5a));
	input.comp_mask = 0;
	CHECK(!vctx->query_device_ex(ctx, &input, &device.attr, sizeof(device)));
	CHECK(is_filled(device.more, sizeof(device.more), 0));
	CHECK(device.attr.hca_core_clock == 1000000); /* kHz: timestamps are in nanoseconds */
	CHECK(device.attr.device_cap_flags_ex == (uint64_t)plain.device_cap_flags && !device.attr.comp_mask);
	memset(&port, 0x5a, sizeof(port));
	CHECK(vctx->query_port(ctx, 2, &port.attr, sizeof(port)) == EINVAL);
	CHECK(is_filled(&port, sizeof(port), 0x5a));
	CHECK(!vctx->query_port(ctx, 1, &port.attr, 8));
	CHECK(port.attr.state == IBV_PORT_ACTIVE && is_filled((uint8_t *)&port + 8, sizeof(port) - 8, 0x5a));
	CHECK(!vctx->query_port(ctx, 1, &port.attr, sizeof(port)));
	CHECK(port.attr.link_layer == IBV_LINK_LAYER_ETHERNET && is_filled(port.more, sizeof(port.more), 0));
	CHECK(!sv_close_device(ctx));
}

static void test_sizes(void **state)
{
	(void)state;
	kit_run(sizes, kit_nothing);
}

/* The clock of completions' timestamps. */
static void clocks(int sock)
{
	struct ibv_values_ex values = { .comp_mask = RAW };
	struct ibv_context *ctx = kit_open_device();
	uint64_t before = kit_now_ns(), now;

	(void)sock;
	CHECK(!ibv_query_rt_values_ex(ctx, &values));
	now = (uint64_t)values.raw_clock.tv_sec * 1000000000u + (uint64_t)values.raw_clock.tv_nsec;
	CHECK(values.comp_mask == RAW && now >= before && now <= kit_now_ns());
	values.comp_mask = RAW << 1;
	CHECK(ibv_query_rt_values_ex(ctx, &values) == EOPNOTSUPP);
	values.comp_mask = RAW | RAW << 1;
	CHECK(ibv_query_rt_values_ex(ctx, &values) == EOPNOTSUPP);
	CHECK(!sv_close_device(ctx));
}

static void test_clocks(void **state)
{
	(void)state;
	kit_run(clocks, kit_nothing);
}

static void foreign(int sock)
{
	struct ibv_device **list = sv_get_device_list(NULL), other = { .transport_type = IBV_TRANSPORT_IB };

	(void)sock;
	CHECK(list && list[0] && !list[1] && !sv_is_soft(&other));
	errno = 0;
	CHECK(!sv_open_device(&other) && errno == ENODEV);
	sv_free_device_list(list);
}

static void test_foreign(void **state)
{
	(void)state;
	kit_run(foreign, kit_nothing);
}

/* ---- addresses ---- */

static void expect_address(struct ibv_pd *pd, struct ibv_ah_attr attr, int error)
{
	struct ibv_ah *ah;

	errno = 0;
	ah = sv_create_ah(pd, &attr);
	CHECK(!ah == !!error && errno == error);
	if (!ah)
		return;
	CHECK(ah->pd == pd && ah->context == pd->context && sv_dealloc_pd(pd) == EBUSY);
	CHECK(!sv_destroy_ah(ah));
}

static void addresses(int sock)
{
	struct ibv_context *ctx = kit_open_device();
	struct ibv_pd *pd = sv_alloc_pd(ctx);
	struct ibv_ah_attr attr = { .port_num = 1 };
	struct ibv_port_attr port;

	(void)sock;
	CHECK(pd && !sv_query_port(ctx, 1, &port));
	expect_address(pd, attr, 0); /* to the port's own LID, which is 0 */
	attr.dlid = 1;
	expect_address(pd, attr, EINVAL);
	attr.is_global = 1; /* then there is no such thing */
	expect_address(pd, attr, 0);
	attr.grh.sgid_index = (uint8_t)(port.gid_tbl_len - 1);
	expect_address(pd, attr, 0);
	attr.grh.sgid_index++;
	expect_address(pd, attr, EINVAL);
	attr.is_global = attr.dlid = 0;
	expect_address(pd, attr, 0);
	attr.port_num = 0;
	expect_address(pd, attr, EINVAL);
	attr.port_num = 2;
	expect_address(pd, attr, EINVAL);
	CHECK(!sv_dealloc_pd(pd) && !sv_close_device(ctx));
}

static void test_addresses(void **state)
{
	(void)state;
	kit_run(addresses, kit_nothing);
}

/* Back to who sent, from the address that it was sent to. */
static void answers(int sock)
{
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH, .sl = 5 }, without = { .wc_flags = IBV_WC_WITH_IMM };
	struct ibv_context *ctx = kit_open_device();
	struct ibv_pd *pd = sv_alloc_pd(ctx);
	struct ibv_ah_attr attr;
	struct ibv_grh grh = { .sgid = { .raw = { 1, 2, [15] = 3 } } };
	struct ibv_ah *ah;

	(void)sock;
	CHECK(pd);
	for (int i = 0; !sv_query_gid(ctx, 1, i, &grh.dgid); i++) {
		memset(&attr, 0xff, sizeof(attr));
		CHECK(!sv_init_ah_from_wc(ctx, 1, &wc, &grh, &attr));
		CHECK(attr.is_global == 1 && attr.port_num == 1 && attr.sl == 5 && attr.grh.sgid_index == i);
		CHECK(!memcmp(&attr.grh.dgid, &grh.sgid, sizeof(grh.sgid)));
		CHECK(attr.grh.hop_limit > 1 && !attr.grh.flow_label && !attr.grh.traffic_class && !attr.dlid);
		CHECK((ah = sv_create_ah_from_wc(pd, &wc, &grh, 1)) != NULL && !sv_destroy_ah(ah));
	}
	CHECK(sv_init_ah_from_wc(ctx, 2, &wc, &grh, &attr) == EINVAL);
	CHECK(sv_init_ah_from_wc(ctx, 1, &without, &grh, &attr) == EINVAL);
	errno = 0;
	CHECK(!sv_create_ah_from_wc(pd, &without, &grh, 1) && errno == EINVAL);
	errno = 0;
	CHECK(!sv_create_ah_from_wc(pd, &wc, &grh, 2) && errno == EINVAL);
	CHECK(!sv_dealloc_pd(pd) && !sv_close_device(ctx));
}

static void test_answers(void **state)
{
	(void)state;
	kit_run(answers, kit_nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tables),  cmocka_unit_test(test_entries),
		cmocka_unit_test(test_sizes),   cmocka_unit_test(test_clocks),
		cmocka_unit_test(test_foreign), cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

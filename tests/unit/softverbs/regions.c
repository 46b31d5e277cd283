/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains and regions by themselves: what can be registered, what peers read of it, what is
 * given back, a region that is registered anew, and the checks of each access.
 */
#include <sys/mman.h>
#include "bare_ctx.h"
#include "common/softverbs/base/mem.h"
#include "common/softverbs/object/key.h"
#include "common/softverbs/peer/guest.h"

#define PD_ID 3u /* of bare_ctx.h's */
#define LOCAL_WRITE IBV_ACCESS_LOCAL_WRITE
#define REMOTE_WRITE IBV_ACCESS_REMOTE_WRITE
#define REMOTE_READ IBV_ACCESS_REMOTE_READ
#define ATOMIC IBV_ACCESS_REMOTE_ATOMIC
#define CHUNK_PAGES 4096u /* that are looked at in one call */
#define KEY 0x123400u
#define OWNER_QPN 0x5005u

static uint8_t memory[2][8192];
static int gone, looks;
static uint32_t gone_mem;
static bool no_memory, busy;

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
int __real_mincore(void *addr, size_t length, unsigned char *out);
int __wrap_mincore(void *addr, size_t length, unsigned char *out);
void __wrap_sv_guest_mem_gone(uint32_t mem);

void *__wrap_calloc(size_t n, size_t bytes)
{
	return no_memory ? NULL : __real_calloc(n, bytes);
}

static size_t page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

int __wrap_mincore(void *addr, size_t length, unsigned char *out)
{
	assert_true(length > 0 && length <= CHUNK_PAGES * page());
	looks++;
	if (!busy)
		return __real_mincore(addr, length, out);
	errno = EAGAIN;
	return -1;
}

/* No peer can get it any more. */
void __wrap_sv_guest_mem_gone(uint32_t mem)
{
	assert_null(bare_proc.offers);
	gone++;
	gone_mem = mem;
}

static int begin(void **state)
{
	int ret = ctx_begin(state);

	CONTEXT->device = sv_device_at(0);
	gone = looks = 0;
	gone_mem = 0;
	no_memory = busy = false;
	return ret;
}

static struct sv_ro_mr *entry_of(const struct ibv_mr *mr)
{
	return &bare_ro.mr[sv_key_place(mr->rkey)];
}

/* What peers read of a region that isn't in mappable memory. */
static void expect_entry(const struct ibv_mr *mr, const void *addr, size_t length, uint32_t access,
			 uint32_t pd_id)
{
	const struct sv_ro_mr *entry = entry_of(mr);

	assert_true(mr->rkey && entry->rkey == mr->rkey && entry->access == access && entry->pd == pd_id);
	assert_true(entry->addr == (uintptr_t)addr && entry->length == length && !entry->window);
}

static void expect_mem(const struct ibv_mr *mr, uint32_t mem, uint64_t offset)
{
	assert_true(entry_of(mr)->mem == mem && entry_of(mr)->mem_offset == offset);
}

static struct ibv_mr *reg(void *addr, size_t length, int access)
{
	struct ibv_mr *mr = sv_reg_mr(&pd.ib, addr, length, access);

	assert_non_null(mr);
	return mr;
}

static void dereg(struct ibv_mr *mr)
{
	const struct sv_ro_mr *entry = entry_of(mr);

	assert_int_equal(sv_dereg_mr(mr), 0);
	assert_int_equal(entry->rkey, 0);
}

/* ---- domains ---- */

static void test_domains(void **state)
{
	struct ibv_pd *a, *b;

	(void)state;
	bare_proc.next_pd = 40;
	a = sv_alloc_pd(CONTEXT);
	b = sv_alloc_pd(CONTEXT);
	assert_true(a && b && a->context == CONTEXT);
	assert_true(sv_pd_of(a)->id == 41 && a->handle == 41 && sv_pd_of(b)->id == 42 && b->handle == 42);
	assert_int_equal(ctx.users, 3);
	sv_pd_of(a)->users = 1;
	assert_int_equal(sv_dealloc_pd(a), EBUSY);
	assert_int_equal(ctx.users, 3);
	sv_pd_of(a)->users = 0;
	assert_int_equal(sv_dealloc_pd(a), 0);
	assert_int_equal(sv_dealloc_pd(b), 0);
	no_memory = true;
	assert_null(sv_alloc_pd(CONTEXT));
	assert_int_equal(ctx.users, 1);
}

/* ---- what is registered ---- */

static void test_region(void **state)
{
	const int access = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ;
	struct ibv_mr *mr = reg(memory[0] + 5, 100, access | IBV_ACCESS_HUGETLB | IBV_ACCESS_RELAXED_ORDERING);
	struct ibv_mr *other = reg(memory[0], 200, 0);

	(void)state;
	assert_true(mr->context == CONTEXT && mr->pd == &pd.ib && mr->addr == memory[0] + 5 && mr->length == 100);
	assert_true(mr->lkey == mr->rkey && mr->handle == mr->rkey && other->rkey != mr->rkey);
	expect_entry(mr, memory[0] + 5, 100, (uint32_t)access, PD_ID);
	expect_mem(mr, 0, 0);
	expect_entry(other, memory[0], 200, 0, PD_ID);
	assert_true(pd.users == 2 && !bare_proc.offers);
	dereg(mr);
	expect_entry(other, memory[0], 200, 0, PD_ID);
	assert_int_equal(pd.users, 1);
	dereg(other);
	assert_int_equal(gone, 0);
}

/* In memory that peers can map it is offered to them; the memory is theirs no more with the last. */
static void test_mappable(void **state)
{
	struct ibv_mr *first, *second;
	struct sv_mem_view view;
	uint8_t *mem;

	(void)state;
	assert_int_equal(sv_mem_alloc(8192, 0, (void **)&mem), 0);
	sv_mem_find(mem, 1, &view);
	first = reg(mem + 4096, 4096, LOCAL_WRITE);
	expect_mem(first, view.id, 4096);
	assert_true(bare_proc.offers && bare_proc.offers->mem == view.id && bare_proc.offers->pd == PD_ID);
	assert_true(bare_proc.offers->access == LOCAL_WRITE && !bare_proc.offers->next);
	second = reg(mem, 10, REMOTE_READ);
	assert_true(bare_proc.offers->access == REMOTE_READ && bare_proc.offers->next);
	assert_int_equal(sv_mem_free(mem), EBUSY);
	dereg(first);
	assert_true(gone == 0 && bare_proc.offers && !bare_proc.offers->next);
	assert_int_equal(sv_mem_free(mem), EBUSY);
	dereg(second);
	assert_true(gone == 1 && gone_mem == view.id);
	assert_int_equal(sv_mem_free(mem), 0);
	assert_int_equal(looks, 0); /* such memory is there */
}

static void expect_refused(const void *addr, size_t length, int access, int error)
{
	errno = 0;
	assert_null(sv_reg_mr(&pd.ib, (void *)(uintptr_t)addr, length, access));
	assert_int_equal(errno, error);
	assert_int_equal(pd.users, 0);
}

static void test_refused(void **state)
{
	(void)state;
	expect_refused(memory[0], 0, LOCAL_WRITE, EINVAL);
	expect_refused(memory[0], SIZE_MAX, LOCAL_WRITE, EINVAL);
	expect_refused(memory[0], -(uintptr_t)memory[0], LOCAL_WRITE, EINVAL);
	expect_refused(memory[0], 10, IBV_ACCESS_ON_DEMAND, EOPNOTSUPP);
	expect_refused(memory[0], 10, IBV_ACCESS_ZERO_BASED | LOCAL_WRITE, EOPNOTSUPP);
	expect_refused(memory[0], 10, REMOTE_WRITE, EINVAL);
	expect_refused(memory[0], 10, ATOMIC | REMOTE_READ, EINVAL);
	dereg(reg(memory[0], 10, REMOTE_READ | IBV_ACCESS_MW_BIND));
	dereg(reg(memory[0], 10, LOCAL_WRITE | ATOMIC));
	no_memory = true;
	assert_null(sv_reg_mr(&pd.ib, memory[0], 10, LOCAL_WRITE));
	assert_int_equal(pd.users, 0);
}

/* Sealed memory stays as this process writes it. */
static void test_sealed(void **state)
{
	uint8_t *mem;

	(void)state;
	assert_int_equal(sv_mem_alloc(4096, SV_MEM_SEALED, (void **)&mem), 0);
	expect_refused(mem, 10, LOCAL_WRITE | REMOTE_WRITE, EPERM);
	expect_refused(mem, 10, LOCAL_WRITE | ATOMIC, EPERM);
	dereg(reg(mem, 10, LOCAL_WRITE | REMOTE_READ));
	assert_int_equal(sv_mem_free(mem), 0);
}

static void test_no_key(void **state)
{
	(void)state;
	memset(bare_proc.keys, 0xff, sizeof(bare_proc.keys));
	expect_refused(memory[0], 10, LOCAL_WRITE, ENOMEM);
	memset(bare_proc.keys, 0, sizeof(bare_proc.keys));
}

/* All its pages have to be there, from that of the first byte to that of the last. */
static void test_not_mapped(void **state)
{
	size_t size = page();
	uint8_t *at = mmap(NULL, 3 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(at != MAP_FAILED && !munmap(at, size) && !munmap(at + 2 * size, size));
	expect_refused(at, 10, LOCAL_WRITE, EFAULT);
	expect_refused(at + 1, 10, LOCAL_WRITE, EFAULT);
	expect_refused(at + size - 1, 2, LOCAL_WRITE, EFAULT);
	expect_refused(at + 2 * size - 1, 2, LOCAL_WRITE, EFAULT);
	expect_refused(at + 2 * size + 1, 2, LOCAL_WRITE, EFAULT);
	dereg(reg(at + size + 1, size - 1, LOCAL_WRITE));
	dereg(reg(at + size, size, LOCAL_WRITE));
	munmap(at + size, size);
}

/* More pages than are looked at in one call; that a look fails says nothing. */
static void test_large(void **state)
{
	size_t size = (CHUNK_PAGES + 2) * page();
	uint8_t *at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)state;
	assert_true(at != MAP_FAILED && !munmap(at + size - page(), page()));
	dereg(reg(at, CHUNK_PAGES * page(), LOCAL_WRITE));
	assert_int_equal(looks, 1);
	dereg(reg(at, size - page(), LOCAL_WRITE));
	assert_int_equal(looks, 3);
	expect_refused(at, size, LOCAL_WRITE, EFAULT);
	busy = true;
	dereg(reg(at, size, LOCAL_WRITE));
	munmap(at, size - page());
}

/* ---- registered anew ---- */

static void expect_no_rereg(struct ibv_mr *mr, int flags, struct ibv_pd *to, void *addr, size_t length,
			    int access, int error)
{
	const struct ibv_mr before = *mr;

	errno = 0;
	assert_int_equal(sv_rereg_mr(mr, flags, to, addr, length, access), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, error);
	assert_memory_equal(mr, &before, sizeof(before));
	expect_entry(mr, memory[0], 100, LOCAL_WRITE, PD_ID);
	assert_int_equal(pd.users, 1);
}

static void test_no_rereg(void **state)
{
	struct ibv_context far = { .device = sv_device_at(1) };
	struct sv_pd other = { .ib.context = &far, .id = PD_ID + 1 };
	struct ibv_mr *mr = reg(memory[0], 100, LOCAL_WRITE);

	(void)state;
	expect_no_rereg(mr, 0, NULL, NULL, 0, 0, EINVAL);
	expect_no_rereg(mr, IBV_REREG_MR_FLAGS_SUPPORTED + 1, NULL, NULL, 0, 0, EINVAL);
	expect_no_rereg(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 10, 0, EINVAL);
	expect_no_rereg(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory[1], 0, 0, EINVAL);
	expect_no_rereg(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0, EINVAL);
	expect_no_rereg(mr, IBV_REREG_MR_CHANGE_PD, &other.ib, NULL, 0, 0, EINVAL);
	expect_no_rereg(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory[1], 10, LOCAL_WRITE, EINVAL);
	expect_no_rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_ON_DEMAND, EOPNOTSUPP);
	expect_no_rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, REMOTE_WRITE, EINVAL);
	assert_int_equal(other.users, 0);
	dereg(mr);
}

/* What isn't to change stays, whatever else is said of it. */
static void test_rereg(void **state)
{
	struct sv_pd other = { .ib.context = CONTEXT, .id = PD_ID + 1 };
	const int access = LOCAL_WRITE | REMOTE_READ;
	struct ibv_mr *mr = reg(memory[0], 100, LOCAL_WRITE);
	const uint32_t key = mr->rkey;

	(void)state;
	assert_int_equal(sv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, access), 0);
	expect_entry(mr, memory[0], 100, (uint32_t)access, PD_ID);
	assert_int_equal(sv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, &other.ib, memory[1] + 3, 50, 0), 0);
	expect_entry(mr, memory[1] + 3, 50, (uint32_t)access, PD_ID);
	assert_true(mr->addr == memory[1] + 3 && mr->length == 50 && mr->pd == &pd.ib);
	assert_true(pd.users == 1 && other.users == 0);
	assert_int_equal(sv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, &other.ib, NULL, 0, 0), 0);
	expect_entry(mr, memory[1] + 3, 50, (uint32_t)access, PD_ID + 1);
	assert_true(mr->pd == &other.ib && pd.users == 0 && other.users == 1);
	assert_int_equal(sv_rereg_mr(mr, IBV_REREG_MR_FLAGS_SUPPORTED, &pd.ib, memory[0], 100, 0), 0);
	expect_entry(mr, memory[0], 100, 0, PD_ID);
	assert_true(pd.users == 1 && other.users == 0);
	assert_true(mr->rkey == key && mr->lkey == key);
	dereg(mr);
}

static void test_rereg_mappable(void **state)
{
	struct ibv_mr *mr = reg(memory[0], 100, LOCAL_WRITE);
	struct sv_mem_view view;
	uint8_t *mem;

	(void)state;
	assert_int_equal(sv_mem_alloc(4096, 0, (void **)&mem), 0);
	sv_mem_find(mem, 1, &view);
	assert_int_equal(sv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, mem + 8, 100, 0), 0);
	expect_mem(mr, view.id, 8);
	assert_true(bare_proc.offers && bare_proc.offers->mem == view.id && gone == 0);
	assert_int_equal(sv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory[0], 100, 0), 0);
	expect_mem(mr, 0, 0);
	assert_true(!bare_proc.offers && gone == 1 && gone_mem == view.id);
	assert_int_equal(sv_mem_free(mem), 0);
	dereg(mr);
	assert_int_equal(gone, 1);
}

/* A region with a window stays as it is. */
static void test_windows(void **state)
{
	struct ibv_mr *mr = reg(memory[0], 100, LOCAL_WRITE);
	struct sv_window window = { .key = mr->rkey ^ 1u << 8, .lkey = mr->lkey };

	(void)state;
	bare_ro.mr[sv_key_place(window.key)].rkey = window.key | 1;
	bare_proc.windows = &window;
	assert_int_equal(sv_dereg_mr(mr), EBUSY);
	expect_no_rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0, EBUSY);
	bare_proc.windows = NULL;
	dereg(mr);
}

/* ---- checks ---- */

static struct sv_ro_mr *entry;

static void set_entry(void)
{
	entry = &bare_ro.mr[sv_key_place(KEY)];
	memset(entry, 0, sizeof(*entry));
	entry->rkey = KEY;
	entry->access = LOCAL_WRITE | REMOTE_READ;
	entry->pd = PD_ID;
	entry->mem = 9;
	entry->addr = 10000;
	entry->length = 500;
	entry->mem_offset = 4096;
}

static int check(uint32_t key, uint32_t of, uint32_t qpn, uint64_t addr, uint64_t length, uint32_t access)
{
	struct sv_target target = { 0 };
	int ret = sv_mr_check(&bare_ro, key, of, qpn, addr, length, access, &target);

	assert_true(ret == 0 || ret == EACCES);
	if (!ret)
		assert_true(target.mem == 9 && target.mem_offset == 4096 + addr - 10000);
	return ret;
}

static void test_bounds(void **state)
{
	static const struct {
		uint64_t addr, length;
		bool inside;
	} cases[] = {
		{ 10000, 500, true },  { 10000, 0, true },    { 10499, 1, true },      { 10500, 0, true },
		{ 10001, 499, true },  { 9999, 1, false },    { 9999, 500, false },    { 10000, 501, false },
		{ 10499, 2, false },   { 10500, 1, false },   { 10501, 0, false },     { 0, 0, false },
		{ 10001, 500, false }, { 10001, UINT64_MAX, false }, { UINT64_MAX, 1, false },
	};

	(void)state;
	set_entry();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(!check(KEY, PD_ID, 0, cases[i].addr, cases[i].length, LOCAL_WRITE), cases[i].inside);
}

static void test_rights(void **state)
{
	(void)state;
	set_entry();
	assert_int_equal(check(KEY, PD_ID, OWNER_QPN, 10000, 8, 0), 0);
	assert_int_equal(check(KEY, PD_ID, OWNER_QPN, 10000, 8, REMOTE_READ), 0);
	assert_int_equal(check(KEY, PD_ID, OWNER_QPN, 10000, 8, REMOTE_READ | LOCAL_WRITE), 0);
	assert_int_equal(check(KEY, PD_ID, OWNER_QPN, 10000, 8, REMOTE_WRITE), EACCES);
	assert_int_equal(check(KEY, PD_ID, OWNER_QPN, 10000, 8, REMOTE_WRITE | LOCAL_WRITE), EACCES);
	assert_int_equal(check(KEY, PD_ID + 1, OWNER_QPN, 10000, 8, REMOTE_READ), EACCES);
	assert_int_equal(check(KEY + 1, PD_ID, OWNER_QPN, 10000, 8, REMOTE_READ), EACCES); /* of the same place */
	entry->rkey = 0;
	assert_int_equal(check(KEY, PD_ID, OWNER_QPN, 10000, 8, REMOTE_READ), EACCES);
	/* Not even where nothing is and everything would do. */
	memset(&bare_ro.mr[0], 0, sizeof(bare_ro.mr[0]));
	assert_int_equal(check(0, 0, OWNER_QPN, 0, 0, 0), EACCES);
}

/* A window is for queue pairs: for all of its domain, or for one; and not for the owner itself. */
static void test_window_checks(void **state)
{
	(void)state;
	set_entry();
	entry->window = SV_WINDOW_ANY;
	assert_int_equal(check(KEY, PD_ID, OWNER_QPN, 10000, 8, REMOTE_READ), 0);
	assert_int_equal(check(KEY, PD_ID, 0, 10000, 8, REMOTE_READ), EACCES);
	entry->window = OWNER_QPN;
	assert_int_equal(check(KEY, PD_ID, OWNER_QPN, 10000, 8, REMOTE_READ), 0);
	assert_int_equal(check(KEY, PD_ID, OWNER_QPN + 1, 10000, 8, REMOTE_READ), EACCES);
	assert_int_equal(check(KEY, PD_ID, 0, 10000, 8, REMOTE_READ), EACCES);
}

/* Elements of no bytes may be anything; behind the last one nothing is looked at. */
static void test_elements(void **state)
{
	struct ibv_sge sge[] = { { 10000, 8, KEY }, { 1, 0, 7 }, { 10100, 400, KEY }, { 10101, 400, KEY } };

	(void)state;
	set_entry();
	assert_int_equal(sv_sge_bytes(sge, 0), 0);
	assert_int_equal(sv_sge_bytes(sge, 3), 408);
	assert_int_equal(sv_sge_bytes(sge, 4), 808);
	assert_true(sv_sge_check(PD_ID, sge, 3, LOCAL_WRITE));
	assert_false(sv_sge_check(PD_ID, sge, 4, LOCAL_WRITE));
	assert_true(sv_sge_check(PD_ID, sge + 3, 0, LOCAL_WRITE));
	assert_false(sv_sge_check(PD_ID, sge + 3, 1, LOCAL_WRITE));
	assert_false(sv_sge_check(PD_ID + 1, sge, 1, LOCAL_WRITE));
	assert_false(sv_sge_check(PD_ID, sge, 1, REMOTE_WRITE));
	entry->window = SV_WINDOW_ANY;
	assert_false(sv_sge_check(PD_ID, sge, 1, LOCAL_WRITE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_domains, begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_region, begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_mappable, begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_refused, begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_sealed, begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_no_key, begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_not_mapped, begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_large, begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_no_rereg, begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_rereg, begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_rereg_mappable, begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_windows, begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_bounds, begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_rights, begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_window_checks, begin, ctx_end),
		cmocka_unit_test_setup_teardown(test_elements, begin, ctx_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* common/verbs: what kvd puts around the system's verbs, which needs no device. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/verbs/verbs.h"
#include "config.h"
#ifdef WITH_SOFTVERBS
#include "common/softverbs/base/mem.h"
#endif

/* Where files are large, it is of another name. */
#ifdef __USE_FILE_OFFSET64
#define REAL_MMAP __real_mmap64
#else
#define REAL_MMAP __real_mmap
#endif
void *REAL_MMAP(void *addr, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *addr, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *addr, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_madvise(void *addr, size_t bytes, int advice);
int __wrap_madvise(void *addr, size_t bytes, int advice);

static int mapped_as;	   /* the latest mapping's flags */
static bool no_huge_pages; /* as where the kernel has none */
static struct {
	void *addr;
	size_t bytes;
	int advice;
} advices[4];
static unsigned advised;

void *__wrap_mmap64(void *addr, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	mapped_as = flags;
	return REAL_MMAP(addr, bytes, protection, flags, fd, offset);
}

void *__wrap_mmap(void *addr, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	return __wrap_mmap64(addr, bytes, protection, flags, fd, offset);
}

int __wrap_madvise(void *addr, size_t bytes, int advice)
{
	if (advised < sizeof advices / sizeof advices[0]) {
		advices[advised].addr = addr;
		advices[advised].bytes = bytes;
		advices[advised++].advice = advice;
	}
	if (advice != MADV_HUGEPAGE || !no_huge_pages)
		return __real_madvise(addr, bytes, advice);
	errno = EINVAL;
	return -1;
}

/* By --wrap: librdmacm's list of contexts. */
struct ibv_context **__wrap_rdma_get_devices(int *count);
void __wrap_rdma_free_devices(struct ibv_context **list);

static struct ibv_context *none[1];
static struct ibv_context **list;
static unsigned asked, freed;

struct ibv_context **__wrap_rdma_get_devices(int *count)
{
	if (count)
		*count = 0;
	asked++;
	return list;
}

void __wrap_rdma_free_devices(struct ibv_context **of)
{
	assert_non_null(of);
	assert_ptr_equal(of, list);
	freed++;
}

/* librdmacm looks for devices, and its list is given back where it gave one. */
static void test_forgets_devices(void **state)
{
	(void)state;
	list = none;
	verbs_system.forget_devices();
	assert_int_equal(asked, 1);
	assert_int_equal(freed, 1);
	list = NULL;
	verbs_system.forget_devices();
	assert_int_equal(asked, 2);
	assert_int_equal(freed, 1);
}

static void test_memory(void **state)
{
	const size_t bytes = 3u << 20;
	uint8_t *memory = NULL;
	void *addr = NULL;

	(void)state;
	assert_int_equal(verbs_system.mem_alloc(bytes, VERBS_MEM_READ, &addr), 0);
	assert_non_null(addr);
	assert_int_equal((uintptr_t)addr % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
	memory = addr;
	for (size_t i = 0; i < bytes; i += 4096)
		assert_int_equal(memory[i], 0);
	memset(memory, 7, bytes);
	assert_int_equal(verbs_system.mem_free(addr, bytes), 0);
	assert_int_equal(verbs_system.mem_free(memory + 1, bytes), EINVAL);
}

/* A child would have copies of pages that the device goes on to change, or be the reason that the parent
 * gets others than the device's. */
static void test_memory_is_no_childs(void **state)
{
	const size_t bytes = 1u << 20;
	unsigned char there;
	void *addr = NULL;
	int status = -1;

	(void)state;
	assert_int_equal(verbs_system.mem_alloc(bytes, VERBS_MEM_READ, &addr), 0);
	assert_int_equal(mincore(addr, 1, &there), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (!child)
		_exit(mincore(addr, 1, &there) == -1 && errno == ENOMEM ? 7 : 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	assert_int_equal(verbs_system.mem_free(addr, bytes), 0);
}

static bool was_advised(int advice, const void *addr, size_t bytes)
{
	for (unsigned i = 0; i < advised; i++)
		if (advices[i].advice == advice)
			return advices[i].addr == addr && advices[i].bytes == bytes;
	return false;
}

/* Large pages are asked for, for all of it, and kvd does without where there are none.  Memory that is not
 * used yet is not counted: kvd may be given more than there is free as it starts. */
static void test_memory_is_large(void **state)
{
	const size_t bytes = 3u << 20;
	void *addr = NULL;

	(void)state;
	for (int i = 0; i < 2; i++) {
		no_huge_pages = i;
		advised = 0;
		assert_int_equal(verbs_system.mem_alloc(bytes, VERBS_MEM_ATOMIC, &addr), 0);
		assert_true(was_advised(MADV_HUGEPAGE, addr, bytes));
		assert_true(was_advised(MADV_DONTFORK, addr, bytes));
		assert_true(mapped_as & MAP_NORESERVE);
		assert_int_equal(verbs_system.mem_free(addr, bytes), 0);
	}
	no_huge_pages = false;
}

#ifdef WITH_SOFTVERBS
/* What peers only read none of them can ever write; what they change by atomics they can. */
static void test_memory_of_the_software_device(void **state)
{
	struct sv_mem_view view;
	void *read, *changed;

	(void)state;
	assert_int_equal(verbs_soft->mem_alloc(100, VERBS_MEM_READ, &read), 0);
	assert_int_equal(verbs_soft->mem_alloc(100, VERBS_MEM_ATOMIC, &changed), 0);
	sv_mem_find(read, 100, &view);
	assert_true(view.id && view.sealed);
	sv_mem_find(changed, 100, &view);
	assert_true(view.id && !view.sealed);
	sv_mem_ref(view.id); /* as a region in it does */
	assert_int_equal(verbs_soft->mem_free(changed, 100), EBUSY);
	assert_true(sv_mem_unref(view.id));
	assert_int_equal(verbs_soft->mem_free(changed, 100), 0);
	assert_int_equal(verbs_soft->mem_free(read, 100), 0);
	assert_int_equal(verbs_soft->mem_free(read, 100), EINVAL);
}
#endif

static void test_too_much_memory(void **state)
{
	void *addr = &addr;

	(void)state;
	assert_int_equal(verbs_system.mem_alloc(SIZE_MAX / 2, VERBS_MEM_ATOMIC, &addr), ENOMEM);
	assert_ptr_equal(addr, &addr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forgets_devices),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_memory_is_no_childs),
		cmocka_unit_test(test_memory_is_large),
		cmocka_unit_test(test_too_much_memory),
#ifdef WITH_SOFTVERBS
		cmocka_unit_test(test_memory_of_the_software_device),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* common/verbs: what kvd puts around the system's verbs, which needs no device. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/verbs/verbs.h"

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
		cmocka_unit_test(test_too_much_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The compiler's instrumentation for ThreadSanitizer, answered by the scheduler: every
 * access to memory that other threads might see, and every atomic operation, is a place
 * where the baton may go to another thread.  An atomic operation counts for more: with
 * one of them between two looks everybody's plain accesses in between are as one.
 *
 * Only one thread runs at a time, and a futex is a full barrier: an execution here is
 * sequentially consistent.  What only weaker memory shows is not found here.
 */
#include <string.h>

#include "tests/sim/sim.h"

#define PLAIN 1u
#define ATOMIC 16u

void __tsan_init(void);
void __tsan_func_entry(void *pc);
void __tsan_func_exit(void);
void __tsan_vptr_update(void **vptr, void *new);
void __tsan_read_range(void *at, unsigned long bytes);
void __tsan_write_range(void *at, unsigned long bytes);
void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_signal_fence(int order);

/* Annotations of the code, for those builds. */
void __tsan_acquire(void *at);
void __tsan_release(void *at);
void __tsan_acquire(void *at) { (void)at; }
void __tsan_release(void *at) { (void)at; }

void __tsan_init(void) {}
void __tsan_func_entry(void *pc) { (void)pc; }
void __tsan_func_exit(void) {}
void __tsan_vptr_update(void **vptr, void *new) { (void)vptr, (void)new; }
void __tsan_read_range(void *at, unsigned long bytes) { (void)at, (void)bytes; sim_access(PLAIN); }
void __tsan_write_range(void *at, unsigned long bytes) { (void)at, (void)bytes; sim_access(PLAIN); }
void __tsan_atomic_thread_fence(int order) { (void)order; sim_access(ATOMIC); }
void __tsan_atomic_signal_fence(int order) { (void)order; }

/* Of clang; gcc leaves them to the library. */
void *__tsan_memcpy(void *to, const void *from, unsigned long bytes);
void *__tsan_memmove(void *to, const void *from, unsigned long bytes);
void *__tsan_memset(void *to, int byte, unsigned long bytes);

void *__tsan_memcpy(void *to, const void *from, unsigned long bytes)
{
	sim_access(PLAIN);
	return memcpy(to, from, bytes);
}

void *__tsan_memmove(void *to, const void *from, unsigned long bytes)
{
	sim_access(PLAIN);
	return memmove(to, from, bytes);
}

void *__tsan_memset(void *to, int byte, unsigned long bytes)
{
	sim_access(PLAIN);
	return memset(to, byte, bytes);
}

#define ACCESS(name)             \
	void name(void *at);     \
	void name(void *at)      \
	{                        \
		(void)at;        \
		sim_access(PLAIN); \
	}
#define ACCESSES(bytes)                              \
	ACCESS(__tsan_read##bytes)                   \
	ACCESS(__tsan_write##bytes)                  \
	ACCESS(__tsan_unaligned_read##bytes)         \
	ACCESS(__tsan_unaligned_write##bytes)        \
	ACCESS(__tsan_volatile_read##bytes)          \
	ACCESS(__tsan_volatile_write##bytes)         \
	ACCESS(__tsan_unaligned_volatile_read##bytes) \
	ACCESS(__tsan_unaligned_volatile_write##bytes)
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

/* Before the operation: another thread's may come first. */
#define MODIFY(bits, type, op)                                                         \
	type __tsan_atomic##bits##_##op(volatile type *at, type value, int order);     \
	type __tsan_atomic##bits##_##op(volatile type *at, type value, int order)      \
	{                                                                              \
		(void)order;                                                           \
		sim_access(ATOMIC);                                                    \
		return __atomic_##op(at, value, __ATOMIC_SEQ_CST);                     \
	}
#define EXCHANGE(bits, type)                                                                 \
	type __tsan_atomic##bits##_exchange(volatile type *at, type value, int order);       \
	type __tsan_atomic##bits##_exchange(volatile type *at, type value, int order)        \
	{                                                                                    \
		(void)order;                                                                 \
		sim_access(ATOMIC);                                                          \
		return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                     \
	}
#define COMPARE(bits, type, kind)                                                            \
	int __tsan_atomic##bits##_compare_exchange_##kind(volatile type *at, type *expected, \
							  type desired, int order, int fail); \
	int __tsan_atomic##bits##_compare_exchange_##kind(volatile type *at, type *expected, \
							  type desired, int order, int fail) \
	{                                                                                    \
		(void)order, (void)fail;                                                     \
		sim_access(ATOMIC);                                                          \
		return __atomic_compare_exchange_n(at, expected, desired, false,             \
						   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);      \
	}
#define COMPARE_VALUE(bits, type)                                                              \
	type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type expected,    \
							type desired, int order, int fail);  \
	type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type expected,    \
							type desired, int order, int fail)   \
	{                                                                                    \
		(void)order, (void)fail;                                                     \
		sim_access(ATOMIC);                                                          \
		__atomic_compare_exchange_n(at, &expected, desired, false, __ATOMIC_SEQ_CST, \
					    __ATOMIC_SEQ_CST);                               \
		return expected;                                                             \
	}
#define ATOMICS(bits, type)                                                             \
	type __tsan_atomic##bits##_load(const volatile type *at, int order);            \
	type __tsan_atomic##bits##_load(const volatile type *at, int order)             \
	{                                                                               \
		(void)order;                                                            \
		sim_access(ATOMIC);                                                     \
		return __atomic_load_n(at, __ATOMIC_SEQ_CST);                           \
	}                                                                               \
	void __tsan_atomic##bits##_store(volatile type *at, type value, int order);     \
	void __tsan_atomic##bits##_store(volatile type *at, type value, int order)      \
	{                                                                               \
		(void)order;                                                            \
		sim_access(ATOMIC);                                                     \
		__atomic_store_n(at, value, __ATOMIC_SEQ_CST);                          \
	}                                                                               \
	EXCHANGE(bits, type)                                                            \
	MODIFY(bits, type, fetch_add)                                                   \
	MODIFY(bits, type, fetch_sub)                                                   \
	MODIFY(bits, type, fetch_and)                                                   \
	MODIFY(bits, type, fetch_or)                                                    \
	MODIFY(bits, type, fetch_xor)                                                   \
	COMPARE(bits, type, strong)                                                     \
	COMPARE(bits, type, weak)                                                       \
	COMPARE_VALUE(bits, type)
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

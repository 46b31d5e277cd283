/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * copy.c -- copies to and from memory that others change at the same time.
 *
 * The shared side is touched in aligned words of 8 bytes (bytes before the first
 * and after the last), each exactly once, by relaxed atomic loads and stores, or by
 * vectors of aligned words.
 * They tear between words, as a READ does, and never inside one.
 */
#include <stdbool.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#include "common/softverbs/base/compiler.h"
#include "common/softverbs/base/copy.h"

/*
 * ThreadSanitizer looks at the private side of these copies, and not at the shared
 * one, of which it would tell races that are none:
 *
 * A READ of memory that its owner changes is what RDMA is.  The words are atomic,
 * so what comes of it is a torn value, which the reader's program has to find, and
 * nothing else.
 *
 * Where the owner does hand its memory over before (it writes, then tells the
 * peer, whose request the control thread here executes) the order holds: the
 * program's write, its post (sq_lock, release of the ring's tail), the peer's poll
 * (acquire of the tail), the peer's request, a message of a socket, this copy.  Two
 * of these steps are the peer's, in another process, where ThreadSanitizer sees
 * nothing.  The same holds the other way: this copy, the answer's message, the
 * peer's completion, the peer's post, the program's poll.
 *
 * The private side is the buffer of a request: from the post to the poll of its
 * completion it is the device's, and all steps between take locks of this process.
 * A program that touches it meanwhile is told of it.
 */
#ifdef SV_TSAN
void __tsan_read_range(void *addr, long bytes);
void __tsan_write_range(void *addr, long bytes);
#define PRIVATE_IS_READ(addr, bytes) __tsan_read_range((void *)(uintptr_t)(addr), (long)(bytes))
#define PRIVATE_IS_WRITTEN(addr, bytes) __tsan_write_range(addr, (long)(bytes))
#else
#define PRIVATE_IS_READ(addr, bytes) ((void)0)
#define PRIVATE_IS_WRITTEN(addr, bytes) ((void)0)
#endif
#define AS_A_CARD __attribute__((no_sanitize("thread")))

/* Below it vectors are not worth the question whether there are any. */
#define WIDE_BYTES_MIN 512u
#define AHEAD_BYTES 4096u

typedef uint64_t __attribute__((may_alias)) word_t;

AS_A_CARD static inline uint64_t load_word(const uint8_t *at)
{
	return __atomic_load_n((const word_t *)(const void *)at, __ATOMIC_RELAXED);
}

AS_A_CARD static inline void store_word(uint8_t *at, uint64_t value)
{
	__atomic_store_n((word_t *)(void *)at, value, __ATOMIC_RELAXED);
}

/* One word from one place to another; the compiler must not merge the private side
 * of several, since narrow loads and a wide store would go through memory. */
AS_A_CARD static inline void fetch_word(uint8_t *to, const uint8_t *shared)
{
	uint64_t word = load_word(shared);

	memcpy(to, &word, sizeof(word));
}

static size_t bytes_to(size_t unit, const void *at, size_t bytes)
{
	size_t n = -(uintptr_t)at & (unit - 1);

	return n < bytes ? n : bytes;
}

AS_A_CARD static void load_bytes(uint8_t *dst, const uint8_t *src, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		dst[i] = __atomic_load_n(src + i, __ATOMIC_RELAXED);
}

AS_A_CARD static void store_bytes(uint8_t *dst, const uint8_t *src, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		__atomic_store_n(dst + i, src[i], __ATOMIC_RELAXED);
}

#ifdef __x86_64__
static bool has_wide_loads(void)
{
	return __builtin_cpu_supports("avx");
}

/*
 * The words four by four, as far as there are 64 bytes of them. `src` is aligned to 32 bytes:
 * such a load is inside a line of the cache, and no word of it is torn. The processor fetches
 * ahead by itself only within a page of 4 KiB: the next page is asked for here.
 */
AS_A_CARD __attribute__((target("avx"))) static size_t fetch_wide(uint8_t *to, const uint8_t *src,
								  size_t bytes)
{
	size_t n = 0;

	for (; bytes - n >= 64; n += 64) {
		const __m256i *from = (const __m256i *)(const void *)(src + n);
		__m256i low, high;

		if (bytes - n > AHEAD_BYTES)
			__builtin_prefetch(src + n + AHEAD_BYTES, 0, 2);
		/* One load each, which the compiler neither splits nor repeats. */
		__asm__ volatile("vmovdqa %1, %0" : "=x"(low) : "m"(from[0]));
		__asm__ volatile("vmovdqa %1, %0" : "=x"(high) : "m"(from[1]));
		_mm256_storeu_si256((__m256i *)(void *)(to + n), low);
		_mm256_storeu_si256((__m256i *)(void *)(to + n + 32), high);
	}
	return n;
}
#else
static bool has_wide_loads(void)
{
	return false;
}

static size_t fetch_wide(uint8_t *to, const uint8_t *src, size_t bytes)
{
	(void)to;
	(void)src;
	(void)bytes;
	return 0;
}
#endif

AS_A_CARD static size_t fetch_words(uint8_t *to, const uint8_t *src, size_t bytes)
{
	size_t n = 0;

	for (; bytes - n >= 8; n += 8)
		fetch_word(to + n, src + n);
	return n;
}

AS_A_CARD void sv_copy_from_shared(void *dst, const void *shared, size_t bytes)
{
	const uint8_t *src = shared;
	uint8_t *to = dst;
	size_t n = bytes_to(8, src, bytes);

	PRIVATE_IS_WRITTEN(dst, bytes);
	load_bytes(to, src, n);
	if (bytes >= WIDE_BYTES_MIN && has_wide_loads()) {
		n += fetch_words(to + n, src + n, bytes_to(32, src + n, bytes - n));
		n += fetch_wide(to + n, src + n, bytes - n);
	}
	for (; bytes - n >= 32; n += 32) {
		fetch_word(to + n, src + n);
		fetch_word(to + n + 8, src + n + 8);
		fetch_word(to + n + 16, src + n + 16);
		fetch_word(to + n + 24, src + n + 24);
	}
	n += fetch_words(to + n, src + n, bytes - n);
	load_bytes(to + n, src + n, bytes - n);
}

AS_A_CARD void sv_copy_to_shared(void *shared, const void *src, size_t bytes)
{
	const uint8_t *from = src;
	uint8_t *to = shared;
	size_t n = bytes_to(8, to, bytes);

	PRIVATE_IS_READ(src, bytes);
	store_bytes(to, from, n);
	for (; bytes - n >= 8; n += 8) {
		uint64_t word;

		memcpy(&word, from + n, sizeof(word));
		store_word(to + n, word);
	}
	store_bytes(to + n, from + n, bytes - n);
}

void sv_copy_plain(void *dst, const void *src, size_t bytes)
{
	memcpy(dst, src, bytes);
}

void sv_scatter(const struct ibv_sge *sge, int nsge, uint64_t offset, const void *src,
		size_t bytes, sv_copy_fn *copy)
{
	const uint8_t *from = src;

	for (int i = 0; i < nsge && bytes; i++) {
		size_t room;

		if (offset >= sge[i].length) {
			offset -= sge[i].length;
			continue;
		}
		room = sge[i].length - offset;
		if (room > bytes)
			room = bytes;
		copy((uint8_t *)(uintptr_t)sge[i].addr + offset, from, room);
		from += room;
		bytes -= room;
		offset = 0;
	}
}

void sv_gather(const struct ibv_sge *sge, int nsge, uint64_t offset, void *dst, size_t bytes,
	       sv_copy_fn *copy)
{
	uint8_t *to = dst;

	for (int i = 0; i < nsge && bytes; i++) {
		size_t room;

		if (offset >= sge[i].length) {
			offset -= sge[i].length;
			continue;
		}
		room = sge[i].length - offset;
		if (room > bytes)
			room = bytes;
		copy(to, (const uint8_t *)(uintptr_t)sge[i].addr + offset, room);
		to += room;
		bytes -= room;
		offset = 0;
	}
}

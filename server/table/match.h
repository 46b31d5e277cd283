/* SPDX-License-Identifier: BSD-2-Clause */
/* match.h -- looks for a fingerprint among the words of the index. */
#ifndef SERVER_TABLE_MATCH_H
#define SERVER_TABLE_MATCH_H

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "common/layout.h"

typedef uint32_t words_quad __attribute__((vector_size(16), may_alias));

/* Two words at a time, by what of a fingerprint is in their upper halves. */
__attribute__((no_sanitize("thread"))) static inline uint32_t
words_matching_narrow(const void *at, unsigned count, uint64_t fp_mask, uint64_t fp)
{
	const uint32_t upper = (uint32_t)(fp_mask >> 32), value = (uint32_t)(fp >> 32);
	const words_quad masks = { 0, upper, 0, upper }, want = { 0, value, 0, value };
	const words_quad *from = at;
	words_quad bit = { 0, 1, 0, 2 }, bits = { 0 };

	static_assert(LAYOUT_FP_SHIFT >= 32, "most of a fingerprint is in the upper half");
	static_assert(LAYOUT_BUCKET_WORDS <= 32, "a bit for each word");
	for (unsigned i = 0; i < count / 2; i++, bit <<= 2)
		bits |= (words_quad)(((from[i] ^ want) & masks) == 0) & bit;
	return bits[1] | bits[3];
}

#ifdef __x86_64__
/* Four words at a time, less than half of the instructions. */
__attribute__((target("avx2"), no_sanitize("thread"))) static uint32_t
words_matching_wide(const void *at, unsigned count, uint64_t fp_mask, uint64_t fp)
{
	const __m256i mask = _mm256_set1_epi64x((long long)fp_mask);
	const __m256i want = _mm256_set1_epi64x((long long)fp);
	const __m256i *from = at;
	uint32_t bits = 0;

	for (unsigned i = 0; i < count / 4; i++) {
		__m256i words = _mm256_and_si256(_mm256_loadu_si256(from + i), mask);
		words = _mm256_cmpeq_epi64(words, want);
		bits |= (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(words)) << 4 * i;
	}
	return bits;
}
#endif

/*
 * The words of a bucket, or of a node, that may have that fingerprint, a bit each, without a
 * branch.  `at` is aligned to 16 bytes, count a multiple of four.  The loads are not atomic to
 * the language, though each word's is to the machine: what is found is to be loaded again.
 */
static inline uint32_t words_matching(const void *at, unsigned count, uint64_t fp_mask, uint64_t fp)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2"))
		return words_matching_wide(at, count, fp_mask, fp);
#endif
	return words_matching_narrow(at, count, fp_mask, fp);
}

/* Whether it is an entry with just that fingerprint. */
static inline bool words_is_entry(uint64_t word, uint64_t fp_mask, uint64_t fp)
{
	return (word & fp_mask) == fp && !layout_word_is_empty(word) &&
	       !layout_word_is_chain(word);
}

#endif

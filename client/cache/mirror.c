/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cache/mirror.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/layout.h"

/*
 * A line: the fingerprints of its words, four in each of the first, and the words.  So
 * one cache line says which of four others has the key's entry, if any.  Tags stand
 * apart: among the lines they would spoil the alignment to cache lines.
 */
#define LANES 4u
#define LANE_BITS 16u
#define FPS (LAYOUT_BUCKET_WORDS / LANES)
#define LINE_WORDS (FPS + LAYOUT_BUCKET_WORDS)
#define LINE_BYTES (LINE_WORDS * sizeof(uint64_t) + sizeof(uint64_t))
#define LANE_MASK ((1ull << LANE_BITS) - 1)
#define LANES_LOW 0x0001000100010001ull /* each lane's lowest bit */
#define LANES_HIGH 0x8000800080008000ull
#define NO_FP LANE_MASK /* no key's: of an empty word, or a link */
static_assert(LAYOUT_FP_BITS < LANE_BITS, "a fingerprint is never NO_FP");

struct mirror {
	uint64_t lines;
	uint64_t inverse; /* of lines: see remainder_of */
	size_t bytes;
	_Atomic bool is_used;   /* something was stored: there is something to forget */
	_Atomic uint64_t *tag;  /* bucket + 1; 0 = empty */
	_Atomic uint64_t *word; /* LINE_WORDS a line */
};

struct mirror *mirror_new(size_t bytes)
{
	struct mirror *m;

	if (bytes < LINE_BYTES)
		return NULL;
	m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	m->lines = bytes / LINE_BYTES;
	m->inverse = UINT64_MAX / m->lines + 1;
	m->bytes = m->lines * LINE_BYTES;
	/* Zeroed, and costs nothing until it is used. */
	void *p = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		free(m);
		return NULL;
	}
	m->word = p;
	m->tag = m->word + m->lines * LINE_WORDS;
	return m;
}

void mirror_delete(struct mirror *m)
{
	if (!m)
		return;
	munmap((void *)m->word, m->bytes);
	free(m);
}

void mirror_clear(struct mirror *m)
{
	/* All that was never touched has no memory yet, and each page that is looked at costs a fault. */
	if (!m || !atomic_load_explicit(&m->is_used, memory_order_relaxed))
		return;
	for (uint64_t i = 0; i < m->lines; i++)
		if (atomic_load_explicit(&m->tag[i], memory_order_relaxed))
			atomic_store_explicit(&m->tag[i], 0, memory_order_relaxed);
}

/*
 * A line's name: a bucket's number, or where an overflow node is and its generation.
 * Nodes have the last part of the lines to themselves for as long as the buckets leave it
 * free.
 */
#define NODE (1ull << 63)
#define NODE_PART 8u
#define CHAIN_MAX 4u

static uint64_t node_name(uint64_t link, uint64_t unit_mask)
{
	return NODE | (link & ~LAYOUT_EPOCH_MASK & ~layout_filter_mask(unit_mask));
}

/* bucket % lines without a division (Lemire, Kaser, Kurz 2019): right for 32 bits. */
static uint64_t remainder_of(const struct mirror *m, uint64_t bucket)
{
	if (bucket >> 32 || m->lines >> 32)
		return bucket % m->lines;
	return (uint64_t)((unsigned __int128)(m->inverse * bucket) * m->lines >> 64);
}

static uint64_t line_of(const struct mirror *m, uint64_t name)
{
	if (!(name & NODE))
		return remainder_of(m, name);
	return m->lines - 1 - (name & LAYOUT_LOC_MASK) % (m->lines / NODE_PART + 1);
}

static _Atomic uint64_t *fps_of(const struct mirror *m, uint64_t line)
{
	return m->word + line * LINE_WORDS;
}

static bool is_there(const struct mirror *m, uint64_t line, uint64_t name)
{
	return atomic_load_explicit(&m->tag[line], memory_order_relaxed) == name + 1;
}

/* Of a fingerprint, what a lane has: the part that every table's have. */
static uint64_t lane_of(uint64_t fp)
{
	return fp >> LAYOUT_FP_SHIFT & ((1u << LAYOUT_FP_BITS) - 1);
}

static uint64_t lane_of_word(uint64_t word)
{
	return layout_word_is_empty(word) || layout_word_is_chain(word) ? NO_FP : lane_of(word);
}

static void store(struct mirror *m, uint64_t name, const uint64_t *words, unsigned count)
{
	if (!m)
		return;
	uint64_t line = line_of(m, name), fps[FPS];
	_Atomic uint64_t *to = fps_of(m, line);
	if (!atomic_load_explicit(&m->is_used, memory_order_relaxed))
		atomic_store_explicit(&m->is_used, true, memory_order_relaxed);
	memset(fps, 0xff, sizeof fps); /* NO_FP each */
	for (unsigned i = 0; i < count; i++) {
		unsigned shift = i % LANES * LANE_BITS;
		fps[i / LANES] ^= (NO_FP ^ lane_of_word(words[i])) << shift;
		atomic_store_explicit(to + FPS + i, words[i], memory_order_relaxed);
	}
	for (unsigned i = 0; i < FPS; i++)
		atomic_store_explicit(to + i, fps[i], memory_order_relaxed);
	atomic_store_explicit(&m->tag[line], name + 1, memory_order_relaxed);
}

void mirror_store(struct mirror *m, uint64_t bucket, const uint64_t *words)
{
	store(m, bucket, words, LAYOUT_BUCKET_WORDS);
}

void mirror_store_node(struct mirror *m, uint64_t unit_mask, uint64_t link, const uint64_t *words)
{
	store(m, node_name(link, unit_mask), words, LAYOUT_NODE_WORDS);
}

/* Two threads that store words which share lanes at once may make one be not found. */
static void store_lane(_Atomic uint64_t *fps, unsigned slot, uint64_t lane)
{
	unsigned shift = slot % LANES * LANE_BITS;
	uint64_t lanes = atomic_load_explicit(fps + slot / LANES, memory_order_relaxed);

	atomic_store_explicit(fps + slot / LANES, (lanes & ~(LANE_MASK << shift)) | lane << shift,
			      memory_order_relaxed);
}

void mirror_store_word(struct mirror *m, uint64_t bucket, unsigned slot, uint64_t word)
{
	static const uint64_t nothing[LAYOUT_BUCKET_WORDS];

	if (!m || slot >= LAYOUT_BUCKET_WORDS)
		return;
	uint64_t line = line_of(m, bucket);
	if (!atomic_load_explicit(&m->tag[line], memory_order_relaxed))
		store(m, bucket, nothing, LAYOUT_BUCKET_WORDS);
	if (!is_there(m, line, bucket))
		return;
	atomic_store_explicit(fps_of(m, line) + FPS + slot, word, memory_order_relaxed);
	store_lane(fps_of(m, line), slot, lane_of_word(word));
}

uint64_t mirror_buckets_max(const struct mirror *m)
{
	return m ? m->lines : 0;
}

/* All that find_in() may look at: what it finds first says which of it. */
static inline void prefetch(const struct mirror *m, uint64_t line)
{
	const _Atomic uint64_t *at = fps_of(m, line);

	__builtin_prefetch((const void *)&m->tag[line]);
	for (unsigned i = 0; i < LINE_WORDS; i += 8)
		__builtin_prefetch((const void *)(at + i));
}

void mirror_prefetch_word(const struct mirror *m, uint64_t bucket, unsigned slot)
{
	if (!m || slot >= LAYOUT_BUCKET_WORDS)
		return;
	uint64_t line = line_of(m, bucket);
	__builtin_prefetch((const void *)&m->tag[line]);
	__builtin_prefetch((const void *)(fps_of(m, line) + slot / LANES), 1);
	__builtin_prefetch((const void *)(fps_of(m, line) + FPS + slot), 1);
}

/* A fingerprint that is looked for, and where it is in a word. */
struct sought {
	uint64_t fp, mask, unit_mask;
};

/* The first entry of the line, of so many groups of words, that has it, or 0. */
static inline uint64_t entry_in(const _Atomic uint64_t *fps, unsigned groups,
				const struct sought *k)
{
	const uint64_t want = lane_of(k->fp) * LANES_LOW;

	for (unsigned i = 0; i < groups; i++) {
		uint64_t x = atomic_load_explicit(fps + i, memory_order_relaxed) ^ want;
		/* A bit in each lane that is 0 now, and perhaps in one above it. */
		for (x = (x - LANES_LOW) & ~x & LANES_HIGH; x; x &= x - 1) {
			unsigned slot = i * LANES + (unsigned)__builtin_ctzll(x) / LANE_BITS;
			uint64_t w = atomic_load_explicit(fps + FPS + slot, memory_order_relaxed);
			if ((w & k->mask) == k->fp && !layout_word_is_empty(w) &&
			    !layout_word_is_chain(w))
				return w;
		}
	}
	return 0;
}

/* Behind a link that stands in the last word of a bucket: in the nodes that are there. */
static uint64_t entry_behind(const struct mirror *m, uint64_t link, const struct sought *k)
{
	for (unsigned n = 1; n < CHAIN_MAX; n++) {
		if (!layout_word_is_chain(link) || !layout_link_may_lead_to(link, k->fp, k->unit_mask))
			return 0;
		uint64_t name = node_name(link, k->unit_mask), line = line_of(m, name);
		if (!is_there(m, line, name))
			return 0;
		const _Atomic uint64_t *fps = fps_of(m, line);
		uint64_t word = entry_in(fps, LAYOUT_NODE_WORDS / LANES, k);
		if (word)
			return word;
		link = atomic_load_explicit(fps + FPS + LAYOUT_NODE_WORDS - 1,
					    memory_order_relaxed);
	}
	return 0;
}

static inline uint64_t find_in(const struct mirror *m, uint64_t line, uint64_t bucket,
			       const struct sought *k)
{
	const _Atomic uint64_t *fps = fps_of(m, line);
	uint64_t word;

	if (!is_there(m, line, bucket))
		return 0;
	word = entry_in(fps, FPS, k);
	if (word)
		return word;
	uint64_t last = atomic_load_explicit(fps + LINE_WORDS - 1, memory_order_relaxed);
	return layout_word_is_chain(last) ? entry_behind(m, last, k) : 0;
}

uint64_t mirror_find(const struct mirror *m, const uint64_t bucket[2], uint64_t unit_mask,
		     uint64_t fp)
{
	const struct sought k = { fp, layout_fp_mask(unit_mask), unit_mask };
	uint64_t line[2], word;

	if (!m)
		return 0;
	for (unsigned i = 0; i < 2; i++) {
		line[i] = remainder_of(m, bucket[i]);
		prefetch(m, line[i]);
	}
	word = find_in(m, line[0], bucket[0], &k);
	return word ? word : find_in(m, line[1], bucket[1], &k);
}

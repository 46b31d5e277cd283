/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a word finds place: in its bucket, in a node behind it, or in a new node. */
#include "server/table/index_bucket.h"

unsigned index_free_words(const struct words *w, unsigned *first)
{
	unsigned n = 0;

	for (unsigned i = w->count; i-- > 0;) {
		if (layout_word_is_empty(get(w->at, i))) {
			*first = i;
			n++;
		}
	}
	return n;
}

/*
 * Hangs a node behind full words and puts the entry that stood in the last of
 * them, and the new one, into it, before it is linked.
 */
static bool extend(struct index *x, const struct words *w, unsigned epoch, uint64_t word,
		   enum node_use use, struct index_entry *e)
{
	const uint64_t mask = x->table->unit_mask;
	unsigned last = w->count - 1;
	uint64_t link = index_node_new(x, epoch, use), moved = get(w->at, last);

	if (!link)
		return false;
	_Atomic uint64_t *node = words_at(x, layout_word_offset(link, mask));
	put(node, 0, moved, epoch);
	put(node, 1, word, epoch);
	link |= layout_filter(layout_word_fp(moved, mask), mask) |
		layout_filter(layout_word_fp(word, mask), mask);
	put(w->at, last, link, epoch);
	*e = (struct index_entry){ .at = node + 1, .word = get(node, 1), .bucket = ~0ull,
				   .slot = 1 };
	return true;
}

bool index_add(struct index *x, uint64_t bucket, unsigned epoch, uint64_t word,
	       enum node_use use, struct index_entry *e)
{
	const uint64_t mask = x->table->unit_mask;
	struct words w = words_of(x, bucket);
	unsigned slot;

	for (;;) {
		if (index_free_words(&w, &slot)) {
			put(w.at, slot, word, epoch);
			*e = (struct index_entry){ .at = w.at + slot, .word = get(w.at, slot),
						   .bucket = w.bucket, .slot = slot };
			return true;
		}
		uint64_t link = link_of(&w);
		if (!link)
			return extend(x, &w, epoch, word, use, e);
		/* Readers have to know that it may be there before it is. */
		link |= layout_filter(layout_word_fp(word, mask), mask);
		put(w.at, w.count - 1, link, epoch);
		next_node(x, &w);
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * get.h -- between the parts of a one-sided GET.
 *
 *   fast.c     the shortest way, which makes no operation
 *   get.c      the operation: its beginning, its end, and who goes on after a READ
 *   lookup.c   where the key's entry is
 *   item.c     the item that the entry names
 *   verify.c   whether what was READ is that item
 *   pending.c  what counts while a change of it is under way
 *
 * All of it runs in the session's thread.  A function that takes an operation goes on
 * with it to its next READs, or ends it.
 */
#ifndef CLIENT_GET_GET_H
#define CLIENT_GET_GET_H

#include "client/op/session.h"

/* Under this, copying a value is cheaper than scattering it. */
#define SCATTER_BYTES_MIN 1024u

#define ATTEMPTS_MAX 64u /* lookups of one GET; then kvd is asked */

static inline struct kvd_client *client_of(const struct op *op)
{
	return op->session->client;
}

static inline uint64_t hash_of(const struct op *op, unsigned i)
{
	return i ? op->hash.b : op->hash.a;
}

static inline void read_table(struct op *op, uint64_t offset, void *to, uint32_t bytes, bool last)
{
	const struct wire_welcome *w = &op->session->table.welcome;

	op_read(op, w->table_addr + offset, w->table_rkey, to, bytes, last);
}

/* What of an item comes before the value. */
static inline uint32_t head_bytes(const struct op *op)
{
	return (uint32_t)sizeof(struct layout_item) + op->key_bytes;
}

/* The place that an entry or a link names. */
static inline uint64_t offset_of(const struct op *op, uint64_t word)
{
	return layout_word_offset(word, op->session->table.unit_mask);
}

static inline uint64_t fp_of(const struct op *op)
{
	return layout_fp(op->hash.a, op->session->table.unit_mask);
}

/* An entry without what its place adds to it. */
static inline uint64_t lookup_entry(uint64_t word)
{
	return word & ~LAYOUT_EPOCH_MASK;
}

/* get.c */
void get_drop_allocated(struct op *op);
/* Memory for a value of up to `bytes`; false: the operation has ended. */
bool get_allocate(struct op *op, uint64_t bytes);
void get_ask_server(struct op *op);
/* The index once more; kvd, after ATTEMPTS_MAX. */
void get_again(struct op *op);
/* Anew from the index, with nothing taken for fresh. */
void get_start_over(struct op *op);
/* `value`: NULL if it stands where it belongs. */
void get_deliver(struct op *op, const struct layout_item *item, const uint8_t *value);
void get_not_found(struct op *op);
/* No entry is the key's; unless one is that could not be told for another's. */
void get_no_entry(struct op *op);

/* lookup.c */
/* The entry that the mirror has for the key where its buckets are now, or 0. */
uint64_t lookup_known(const struct kvd_session *s, const void *key, size_t key_bytes);
/* The addresses as this client knows the index. */
void lookup_locate(struct op *op);
/* READs those buckets that are not fresh, with one doorbell. */
void lookup_read(struct op *op);
/* Looks for the key in what was READ; decides what comes next. */
void lookup_search(struct op *op);
void lookup_got_directory(struct op *op);
void lookup_got_mark(struct op *op);
void lookup_got_buckets(struct op *op);
void lookup_got_node(struct op *op);
void lookup_got_recheck(struct op *op);

/* item.c */
void item_read(struct op *op, uint64_t word, enum phase phase);
/* Posts the next READs of an item whose value goes to the caller's memory, as far as
 * the send queue has room. */
void item_read_more(struct op *op);
void item_read_again(struct op *op);
void item_got(struct op *op);
/* A live item: the key's value, unless its time is over (protocols.md, 14). */
void item_got_live(struct op *op, const struct layout_item *item);
/* The head of one that is longer than the caller's buffer. */
void item_got_cut(struct op *op, const struct layout_item *item);
/* A whole item of another key, of this version, where the entry led. */
void item_got_other(struct op *op, const struct layout_item *item, uint64_t version);
/* The header of another key's item, perhaps: its value is not at hand. */
void item_got_untold(struct op *op);

/* verify.c */
enum verdict {
	ITEM_LIVE,
	ITEM_OTHER,    /* a whole item, of another key */
	ITEM_UNTOLD,   /* perhaps one of another key: it was READ as if it were ours */
	ITEM_TORN,     /* or not an item at all */
	ITEM_DEAD,
	ITEM_DELETED,
	ITEM_UPDATING,
	ITEM_PREPARED,
	ITEM_INSERTING,
	ITEM_COPY,
	ITEM_OLD, /* of a transaction under way: the scratch decides */
	ITEM_NEW,
};
/*
 * `item` is `length` bytes that were READ from `offset` of the table.  Nothing in
 * them is believed before the checksum over all of it is right; but for the
 * kinds that only say "look elsewhere".
 */
enum verdict verify_item(const struct op *op, const struct layout_item *item, uint64_t length,
			 uint64_t offset);
/* The value behind the item's key; NULL: it went into the caller's memory. */
const uint8_t *verify_value(const struct op *op, const struct layout_item *item);
/* The caller's buffer is too short for this long value: there is no checksum of it. */
bool verify_is_cut(const struct op *op, const struct layout_item *item);
/* A head without its value only says where to look, or how long the value is. */
enum verdict verify_cut_kind(enum layout_kind kind);
/* Whether the entry can have been this other key's when it was READ. */
bool verify_is_collision(const struct op *op, const struct layout_item *item);

/* pending.c */
/* The old item of one that is being overwritten. */
void scratch_read_old(struct op *op);
/* What the scratch says of a prepared item, or of one of a transaction. */
void scratch_read_prepared(struct op *op);
void scratch_read_txn(struct op *op);
void scratch_got_updating(struct op *op);
void scratch_got_prepared(struct op *op);
void scratch_got_old(struct op *op);
void scratch_got_txn(struct op *op);
void scratch_got_txn_old(struct op *op);

#endif

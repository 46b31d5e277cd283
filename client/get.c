/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GET: one-sided.
 *
 * Happy path: the mirror knows the key's entry; one READ of exactly the item;
 * it verifies; done.  Otherwise both of the key's buckets in one doorbell, then
 * the item.
 *
 * What a reader may meet, and what it does:
 *   another key's item (fingerprints collide)  the next entry
 *   a dead item, or memory used for another    the buckets, anew
 *   a torn item                                the same READ again
 *   an item that is being overwritten          the old one, in a worker's scratch
 *   a prepared item                            the old one, while that is live
 *   an item that is being inserted             the key is absent
 *   a copy that was made for another           the buckets, anew
 *   an item of a transaction under way         old or new, as the scratch says
 *   buckets of a later epoch                   the address of that epoch
 *   a bucket in the middle of an expansion     the old place, then the new one
 *   an overflow chain where it may be          its nodes, then the bucket again
 * "Not found" is decided only by complete samples of both buckets, READ after the
 * call began (protocols.md, 12), or by an item that says that it was deleted and
 * was reached by an entry READ after the call began: then the key was absent at
 * some time in between.  After ATTEMPTS_MAX the server is asked.
 */
#include <stdlib.h>
#include <string.h>

#include "client/session.h"

#define ATTEMPTS_MAX 64u
#define TORN_MAX 8u
#define TORN_HINT_MAX 1u /* where only the mirror says that there is an item */
#define CHAIN_MAX 96u
#define LAST_WORD (LAYOUT_BUCKET_BYTES - sizeof(uint64_t)) /* where a link is */
#define ITEM_BYTES_MAX (layout_len_decode(layout_len_encode(layout_item_bytes( \
	LAYOUT_KEY_BYTES_MAX, LAYOUT_VALUE_BYTES_MAX))))

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

static void read_item(struct op *op, uint64_t word, enum phase phase);
static void read_buckets(struct op *op);

static struct kvd_client *client_of(const struct op *op)
{
	return op->session->client;
}

static uint64_t hash_of(const struct op *op, unsigned i)
{
	return i ? op->hash.b : op->hash.a;
}

static void read_table(struct op *op, uint64_t offset, void *to, uint32_t bytes, bool last)
{
	const struct wire_welcome *w = &op->session->welcome;

	op_read(op, w->table_addr + offset, w->table_rkey, to, bytes, last);
}

/* ---------------------------------------------------------------- fallback */

static void drop_allocated(struct op *op)
{
	if (!op->allocated)
		return;
	pieces_release(&op->value, client_of(op));
	op->value.count = 0;
	op->value.bytes = 0;
	free(op->allocated);
	op->allocated = NULL;
}

/* `head`: for the version and the length only. */
static void send_get(struct op *op, bool head)
{
	struct wire_request request = { .op = WIRE_GET, .flags = head ? WIRE_HEAD : 0 };

	drop_allocated(op);
	op->asked_head = head;
	change_start(op, &request);
}

static bool wants_head(const struct op *op)
{
	return !op->allocate && !op->value.bytes;
}

static void ask_server(struct op *op)
{
	op->session->counters.fallbacks++;
	send_get(op, wants_head(op));
}

static void again(struct op *op)
{
	op->session->counters.retries++;
	op->torn = 0;
	op->accept_prepared = false;
	if (++op->attempts > ATTEMPTS_MAX)
		ask_server(op);
	else
		read_buckets(op);
}

/* ----------------------------------------------------------------- deliver */

/* Memory for a value of up to `bytes`; false: the operation has ended. */
static bool allocate(struct op *op, uint64_t bytes)
{
	op->allocated = malloc(bytes + 1);
	if (!op->allocated) {
		op->result_bytes = bytes;
		op_done(op, KVD_ENOMEM);
		return false;
	}
	struct iovec all = { op->allocated, bytes };
	pieces_set(&op->value, &all, 1);
	return true;
}

/* `value`: NULL if it stands where it belongs. */
static void deliver(struct op *op, const struct layout_item *item, const uint8_t *value)
{
	uint64_t bytes = layout_value_bytes(item->lengths);

	if (!op->index_read)
		op->session->counters.mirror_hits++;
	op->result_bytes = bytes;
	op->result_version = layout_state_version(item->state);
	op->result_ttl_ms = item->expiry_ms ? clock_left_ms(&op->session->clock, item->expiry_ms,
							    session_now_ns())
					    : 0;
	if (op->allocate && !op->allocated && !allocate(op, bytes))
		return;
	if (bytes > op->value.bytes) {
		op_done(op, KVD_ESPACE);
		return;
	}
	if (value)
		pieces_scatter(&op->value, value, bytes);
	if (op->allocated)
		op->allocated[bytes] = '\0';
	op_done(op, KVD_OK);
}

static void not_found(struct op *op)
{
	op_done(op, KVD_NOT_FOUND);
}

static void locate(struct op *op);

/* No entry is the key's; unless one is that could not be told for another's. */
static void no_entry(struct op *op)
{
	if (op->untold) {
		ask_server(op);
	} else if (op->doubt) {
		locate(op);
		again(op);
	} else {
		not_found(op);
	}
}

/* ------------------------------------------------------------------ verify */

/* The value behind the item's key; NULL: it went into the caller's memory. */
static const uint8_t *value_of(const struct op *op, const struct layout_item *item)
{
	return op->direct ? NULL : item->data + op->key_bytes;
}

static uint64_t checksum(const struct op *op, const struct layout_item *item, uint64_t version,
			 uint64_t offset)
{
	uint64_t value_bytes = layout_value_bytes(item->lengths);

	if (op->direct)
		return pieces_checksum(&op->value, value_bytes, item, op->key_bytes, version, offset);
	return hash_item(item, layout_item_bytes(layout_key_bytes(item->lengths), value_bytes),
			 version, offset);
}

/* Of a whole item of the key, by its kind; ITEM_TORN if there is no such kind. */
static enum verdict verdict_of(enum layout_kind kind)
{
	switch (kind) {
	case LAYOUT_DEAD:
		return ITEM_DEAD;
	case LAYOUT_LIVE:
		return ITEM_LIVE;
	case LAYOUT_DELETED:
		return ITEM_DELETED;
	case LAYOUT_UPDATING:
		return ITEM_UPDATING;
	case LAYOUT_PREPARED:
		return ITEM_PREPARED;
	case LAYOUT_OLD:
		return ITEM_OLD;
	case LAYOUT_NEW:
		return ITEM_NEW;
	case LAYOUT_INSERTING:
		return ITEM_INSERTING;
	case LAYOUT_COPY:
		return ITEM_COPY;
	}
	return ITEM_TORN;
}

/*
 * `item` is `length` bytes that were READ from `offset` of the table.  Nothing in
 * them is believed before the checksum over all of it is right; but for the
 * kinds that only say "look elsewhere".
 */
static enum verdict verify(const struct op *op, const struct layout_item *item, uint64_t length,
			   uint64_t offset)
{
	uint64_t state = item->state;
	enum layout_kind kind = layout_state_kind(state);
	unsigned key_bytes = layout_key_bytes(item->lengths);
	uint64_t bytes = layout_item_bytes(key_bytes, layout_value_bytes(item->lengths));

	if (kind == LAYOUT_DEAD)
		return ITEM_DEAD;
	if (kind == LAYOUT_UPDATING)
		return ITEM_UPDATING;
	if (verdict_of(kind) == ITEM_TORN || bytes > length)
		return ITEM_TORN;
	bool mine = key_bytes == op->key_bytes && !memcmp(item->data, op->key, key_bytes);
	if (key_bytes != op->key_bytes && op->direct)
		return ITEM_UNTOLD;
	if (checksum(op, item, layout_state_version(state), offset) != item->checksum)
		return ITEM_TORN;
	if (!mine)
		return ITEM_OTHER;
	return verdict_of(kind);
}

/* ----------------------------------------------------------------- entries */

static uint64_t entry_of(uint64_t word)
{
	return word & ~LAYOUT_EPOCH_MASK;
}

static bool was_tried(const struct op *op, uint64_t word)
{
	for (unsigned i = 0; i < op->tried_count; i++)
		if (op->tried[i] == entry_of(word))
			return true;
	return false;
}

/* The first entry that may be the key's, or 0. */
static uint64_t candidate(const struct op *op, const uint64_t *words, unsigned count)
{
	unsigned fp = layout_fp(op->hash.a);

	for (unsigned i = 0; i < count; i++)
		if (layout_word_fp(words[i]) == fp && !layout_word_is_empty(words[i]) &&
		    !layout_word_is_chain(words[i]) && !was_tried(op, words[i]))
			return words[i];
	return 0;
}

/* The link to a node in which, or behind which, the key may be, or 0. */
static uint64_t chain_of(const struct op *op, const uint64_t *words, unsigned count)
{
	uint64_t last = words[count - 1];
	bool may = layout_word_is_chain(last) &&
		   layout_link_may_lead_to(last, layout_fp(op->hash.a));

	return may ? last : 0;
}

/* --------------------------------------------------------------- directory */

static uint64_t buckets_per_segment(const struct op *op)
{
	return op->session->welcome.segment_bytes / LAYOUT_BUCKET_BYTES;
}

/* A bucket's offset in the table, 0 if its segment's is not known. */
static uint64_t bucket_offset(const struct op *op, uint64_t bucket)
{
	uint64_t per = buckets_per_segment(op);
	uint64_t segment = atomic_load_explicit(&op->session->directory->offset[bucket / per],
						memory_order_relaxed);
	return segment ? segment + bucket % per * LAYOUT_BUCKET_BYTES : 0;
}

/* READs the directory entries that are missing; false if none is. */
static bool read_directory(struct op *op)
{
	const struct wire_welcome *w = &op->session->welcome;
	uint64_t per = buckets_per_segment(op);
	bool need[2];

	for (unsigned i = 0; i < 2; i++)
		need[i] = !op->fresh[i] && !bucket_offset(op, op->bucket[i]);
	if (!need[0] && !need[1])
		return false;
	op->phase = PHASE_DIR;
	for (unsigned i = 0; i < 2; i++)
		if (need[i])
			read_table(op, w->dir_offset + op->bucket[i] / per * 8,
				   &op->memory->small[i], 8, i == 1 || !need[1]);
		else
			op->memory->small[i] = 0;
	return true;
}

static void got_directory(struct op *op)
{
	const struct wire_welcome *w = &op->session->welcome;
	_Atomic uint64_t *offset = op->session->directory->offset;

	for (unsigned i = 0; i < 2; i++) {
		uint64_t at = op->memory->small[i];
		if (at && at + w->segment_bytes <= w->table_bytes)
			atomic_store_explicit(&offset[op->bucket[i] / buckets_per_segment(op)], at,
					      memory_order_relaxed);
	}
	if (++op->attempts > ATTEMPTS_MAX)
		ask_server(op);
	else
		read_buckets(op);
}

/* ----------------------------------------------------------------- buckets */

/*
 * For the holder of the key's lock: a change that began before the lock was taken
 * may still be under way, and shows in no item if the key is absent.  After the
 * mark was clear once, none can be (protocols.md, 4).
 */
static void read_mark(struct op *op)
{
	const struct wire_welcome *w = &op->session->welcome;
	uint64_t stripe = layout_stripe(op->hash.b, w->stripes);

	op->phase = PHASE_MARK;
	read_table(op, w->marks_offset + stripe * sizeof(uint32_t), op->memory->small,
		   sizeof(uint32_t), true);
}

static void got_mark(struct op *op)
{
	uint32_t mark;

	memcpy(&mark, op->memory->small, sizeof mark);
	op->mark_clear = mark == 0;
	if (op->mark_clear || ++op->attempts <= ATTEMPTS_MAX)
		read_buckets(op);
	else
		ask_server(op);
}

/* READs those buckets that are not fresh, with one doorbell. */
static void read_buckets(struct op *op)
{
	uint64_t limit = op->session->welcome.dir_entries * buckets_per_segment(op);

	op->from_mirror = false;
	op->index_read = true;
	if (op->locked && !op->mark_clear) {
		read_mark(op);
		return;
	}
	if (op->bucket[0] >= limit || op->bucket[1] >= limit) {
		ask_server(op);
		return;
	}
	if (read_directory(op))
		return;
	op->phase = PHASE_BUCKETS;
	bool first = !op->fresh[0];
	/* The same bucket twice: one READ serves both. */
	bool second = !op->fresh[1] && !(first && op->bucket[0] == op->bucket[1]);
	if (first)
		read_table(op, bucket_offset(op, op->bucket[0]), op->memory->bucket[0],
			   LAYOUT_BUCKET_BYTES, !second);
	if (second)
		read_table(op, bucket_offset(op, op->bucket[1]), op->memory->bucket[1],
			   LAYOUT_BUCKET_BYTES, true);
}

/* The addresses as this client knows the index. */
static void locate(struct op *op)
{
	struct layout_view v = layout_view(
		atomic_load_explicit(&client_of(op)->buckets, memory_order_relaxed));

	for (unsigned i = 0; i < 2; i++) {
		op->epoch[i] = layout_view_epoch(&v, hash_of(op, i));
		op->bucket[i] = layout_bucket_of(hash_of(op, i), op->epoch[i]);
		op->fresh[i] = op->complete[i] = op->mixed[i] = op->chained[i] = false;
	}
	op->doubt = false;
}

/* There is a bucket of this epoch. */
static void learn_epoch(struct op *op, uint64_t bucket, unsigned epoch)
{
	struct kvd_client *c = client_of(op);
	uint64_t floor = layout_buckets_floor(bucket, epoch);
	uint64_t known = atomic_load_explicit(&c->buckets, memory_order_relaxed);

	while (known < floor &&
	       !atomic_compare_exchange_weak_explicit(&c->buckets, &known, floor,
						      memory_order_relaxed, memory_order_relaxed))
		;
}

/*
 * The bucket is at this epoch, or on the way to it.  If the key left it since op->epoch
 * it is, or was, in the next place, and not necessarily in the one of `epoch`: that
 * group may not be expanded yet (protocols.md, 12).
 */
static void step(struct op *op, unsigned i, unsigned epoch)
{
	uint64_t hash = hash_of(op, i);

	while (op->epoch[i] < epoch &&
	       layout_bucket_of(hash, op->epoch[i] + 1) == op->bucket[i])
		op->epoch[i]++;
	if (op->epoch[i] >= epoch) {
		op->complete[i] = true;
		return;
	}
	struct layout_view v = layout_view(
		atomic_load_explicit(&client_of(op)->buckets, memory_order_relaxed));
	unsigned known = layout_view_epoch(&v, hash);
	op->epoch[i] = known > op->epoch[i] + 1 ? known : op->epoch[i] + 1;
	op->bucket[i] = layout_bucket_of(hash, op->epoch[i]);
	op->mixed[i] = false;
}

/*
 * The bucket is being expanded, from epoch e to e + 1.  If a second sample is the
 * same, it is a consistent one (words change only forward), and the key is there
 * or in its new place: READ that next (protocols.md, 12).
 */
static void judge_mixed(struct op *op, unsigned i)
{
	const uint64_t *words = op->memory->bucket[i];
	bool same = op->mixed[i] && !memcmp(words, op->memory->before[i], LAYOUT_BUCKET_BYTES);
	unsigned older;

	memcpy(op->memory->before[i], words, LAYOUT_BUCKET_BYTES);
	op->mixed[i] = true;
	if (same && layout_bucket_epochs(words, &older))
		step(op, i, older + 1);
}

static void judge_bucket(struct op *op, unsigned i)
{
	unsigned epoch;

	if (!layout_bucket_epoch(op->memory->bucket[i], &epoch)) {
		judge_mixed(op, i);
		return;
	}
	if (epoch < op->epoch[i] || epoch > 2 * LAYOUT_LEVEL_MAX + 1)
		return; /* not a bucket of this index (any more): try again */
	learn_epoch(op, op->bucket[i], epoch);
	step(op, i, epoch);
}

/*
 * Both hashes in one group: an expansion may make an entry that stood by the one stand
 * by the other, so the two samples have to be of the same time.
 */
static bool is_one_group(const struct op *op)
{
	unsigned epoch = op->epoch[0] < op->epoch[1] ? op->epoch[0] : op->epoch[1];

	return (op->hash.a ^ op->hash.b) >> (64 - LAYOUT_BASE_BITS - (epoch >> 1)) == 0;
}

static void search(struct op *op);
static void start_over(struct op *op);

static void read_node(struct op *op, uint64_t link)
{
	uint64_t offset = layout_word_offset(link);

	op->phase = PHASE_CHAIN;
	op->link = link;
	if (offset + LAYOUT_NODE_BYTES > op->session->welcome.table_bytes)
		start_over(op);
	else
		read_table(op, offset, op->memory->node, LAYOUT_NODE_BYTES, true);
}

static void got_buckets(struct op *op)
{
	struct op_memory *m = op->memory;
	bool same = op->bucket[0] == op->bucket[1];
	bool read[2] = { !op->fresh[0], !op->fresh[1] };

	op->tried_count = 0; /* an entry may have become the key's since */
	op->untold = false;
	if (same && read[0] && read[1])
		memcpy(m->bucket[1], m->bucket[0], LAYOUT_BUCKET_BYTES);
	for (unsigned i = 0; i < 2; i++) {
		if (!read[i])
			continue;
		mirror_store(client_of(op)->mirror, op->bucket[i], m->bucket[i]);
		op->fresh[i] = true;
	}
	search(op);
}

/* Were the nodes linked all the time that they were READ?  And is_one_group(). */
static void recheck(struct op *op)
{
	struct op_memory *m = op->memory;
	bool all = is_one_group(op);

	op->phase = PHASE_RECHECK;
	for (unsigned i = 0; i < 2; i++) {
		uint64_t offset = bucket_offset(op, op->bucket[i]);
		if (all)
			read_table(op, offset, m->before[i], LAYOUT_BUCKET_BYTES, i == 1);
		else if (op->chained[i])
			read_table(op, offset + LAST_WORD, &m->small[i], sizeof m->small[i],
				   i == 1 || !op->chained[1]);
	}
}

/* Looks for the key in what was READ; decides what comes next. */
static void search(struct op *op)
{
	struct op_memory *m = op->memory;

	for (unsigned i = 0; i < 2; i++) {
		uint64_t word = op->fresh[i] ? candidate(op, m->bucket[i], LAYOUT_BUCKET_WORDS) : 0;
		if (word) {
			read_item(op, word, PHASE_ITEM);
			return;
		}
	}
	for (unsigned i = 0; i < 2; i++) {
		uint64_t link = chain_of(op, m->bucket[i], LAYOUT_BUCKET_WORDS);
		if (link && !op->chained[i]) {
			op->chain = i;
			op->chain_length = 0;
			read_node(op, link);
			return;
		}
	}
	for (unsigned i = 0; i < 2; i++)
		if (!op->complete[i])
			judge_bucket(op, i);
	bool complete = op->complete[0] && op->complete[1];
	if (complete && !op->chained[0] && !op->chained[1] && !is_one_group(op)) {
		no_entry(op);
		return;
	}
	if (complete) {
		recheck(op);
		return;
	}
	for (unsigned i = 0; i < 2; i++)
		if (!op->complete[i])
			op->fresh[i] = op->chained[i] = false;
	if (++op->attempts > ATTEMPTS_MAX)
		ask_server(op);
	else
		read_buckets(op);
}

static void got_node(struct op *op)
{
	uint64_t word = candidate(op, op->memory->node, LAYOUT_NODE_WORDS);
	uint64_t link = chain_of(op, op->memory->node, LAYOUT_NODE_WORDS);

	mirror_store_node(client_of(op)->mirror, op->link, op->memory->node);
	if (word) {
		read_item(op, word, PHASE_ITEM);
		return;
	}
	if (link && ++op->chain_length < CHAIN_MAX) {
		read_node(op, link);
		return;
	}
	op->chained[op->chain] = true;
	search(op);
}

static void got_recheck(struct op *op)
{
	const struct op_memory *m = op->memory;
	bool all = is_one_group(op);

	for (unsigned i = 0; i < 2; i++) {
		bool same = all ? !memcmp(m->before[i], m->bucket[i], LAYOUT_BUCKET_BYTES)
				: !op->chained[i] ||
					  layout_is_same_link(m->small[i],
							      m->bucket[i][LAYOUT_BUCKET_WORDS - 1]);
		if (!same) {
			locate(op);
			again(op);
			return;
		}
	}
	no_entry(op);
}

/* Anew from the index, with nothing taken for fresh. */
static void start_over(struct op *op)
{
	bool hint = op->from_mirror;

	locate(op);
	if (hint) {
		op->torn = 0;
		op->session->counters.retries++;
		read_buckets(op);
	} else {
		again(op);
	}
}

/* -------------------------------------------------------------------- item */

static uint32_t head_bytes(const struct op *op)
{
	return (uint32_t)sizeof(struct layout_item) + op->key_bytes;
}

/* Posts the next READs of an item whose value goes to the caller's memory, as far as
 * the send queue has room. */
static void read_more(struct op *op)
{
	struct kvd_session *s = op->session;
	const struct wire_welcome *w = &s->welcome;
	uint64_t base = w->table_addr + layout_word_offset(op->word);
	uint64_t max = client_of(op)->limits.message_bytes_max;

	while (op->posted < op->length && flight_room(s) > s->sq_depth / 2) {
		uint64_t left = op->length - op->posted;
		op->posted += op_read_item(op, base + op->posted, w->table_rkey, op->posted,
					   head_bytes(op), (uint32_t)(left < max ? left : max));
	}
}

/* What surely has no room is READ without its value. */
static void read_direct(struct op *op)
{
	unsigned code = layout_word_len_code(op->word);
	uint64_t room = op->length - head_bytes(op);

	op->direct = true;
	if (head_bytes(op) + op->value.bytes <= layout_len_decode(code - 1))
		op->length = head_bytes(op);
	else if (op->value.bytes < room)
		op->length = head_bytes(op) + op->value.bytes;
	op->posted = 0;
	read_more(op);
}

/* A long item: its value straight into the caller's memory. */
static void read_long(struct op *op)
{
	struct kvd_session *s = op->session;
	uint64_t room = op->length - head_bytes(op);

	if (op->allocate && op->value.bytes < room) {
		drop_allocated(op);
		if (!allocate(op, room))
			return;
	}
	int rc = pieces_register(&op->value, client_of(op), IBV_ACCESS_LOCAL_WRITE);
	if (rc) {
		op_done(op, err_set_errno(&s->err, KVD_EDEVICE, rc,
					  "can't register a buffer of %zu bytes: the locked-memory limit "
					  "may be too low (see 'ulimit -l')", op->value.bytes));
		return;
	}
	read_direct(op);
}

/* Under this, copying a value is cheaper than scattering it. */
#define SCATTER_BYTES_MIN 1024u

static void read_item(struct op *op, uint64_t word, enum phase phase)
{
	uint64_t offset = layout_word_offset(word), table = op->session->welcome.table_bytes;

	op->word = word;
	op->phase = phase;
	op->direct = false;
	op->length = layout_len_decode(layout_word_len_code(word));
	if (offset >= table || op->length < sizeof(struct layout_item) ||
	    op->length > ITEM_BYTES_MAX) {
		start_over(op);
		return;
	}
	if (op->length > table - offset)
		op->length = table - offset;
	if (op->length > OP_ITEM_BYTES) {
		read_long(op);
	} else if (op->length >= SCATTER_BYTES_MIN && !op->allocate &&
		   op->value.bytes >= op->length - head_bytes(op) &&
		   pieces_find(&op->value, client_of(op))) {
		read_direct(op);
	} else {
		op->posted = op->length;
		read_table(op, offset, op->memory->item, (uint32_t)op->length, true);
	}
}

static void read_again(struct op *op)
{
	op->session->counters.retries++;
	if (++op->torn > (op->from_mirror ? TORN_HINT_MAX : TORN_MAX))
		start_over(op);
	else
		read_item(op, op->word, op->phase == PHASE_COPY ? PHASE_COPY : PHASE_ITEM);
}

/* The caller's buffer is too short for this long value: there is no checksum of it.
 * One that would fit was taken for longer by a wrong entry: it was not READ. */
static bool is_cut(const struct op *op, const struct layout_item *item)
{
	uint64_t value_bytes = layout_value_bytes(item->lengths);
	uint64_t bytes = layout_item_bytes(layout_key_bytes(item->lengths), value_bytes);

	return op->direct && !op->allocate && value_bytes > op->value.bytes && bytes > op->length &&
	       bytes <= layout_len_decode(layout_word_len_code(op->word)) &&
	       layout_key_bytes(item->lengths) == op->key_bytes &&
	       !memcmp(item->data, op->key, op->key_bytes);
}

/* A head without its value only says where to look, or how long the value is. */
static enum verdict cut_verdict(enum layout_kind kind)
{
	enum verdict v = verdict_of(kind);

	return v == ITEM_LIVE || v == ITEM_DELETED ? ITEM_TORN : v;
}

/* A live item: the key's value, unless its time is over (protocols.md, 14). */
static void got_live(struct op *op, const struct layout_item *item)
{
	/* Of a copy kvd has looked already. */
	bool ends = item->expiry_ms && op->phase != PHASE_COPY;
	enum clock_verdict v = ends ? clock_judge(&op->session->clock, item->expiry_ms, op->begun_ns,
						  session_now_ns())
				    : CLOCK_LIVE;

	if (v == CLOCK_LIVE)
		deliver(op, item, value_of(op, item));
	else if (v == CLOCK_EXPIRED)
		not_found(op);
	else
		ask_server(op);
}

/* It is believed if another READ finds the same head: same version, live or deleted. */
static void got_cut(struct op *op, const struct layout_item *item)
{
	const uint64_t head[4] = { item->state & ~LAYOUT_PENDING, item->checksum, item->lengths,
				   item->expiry_ms };

	if (memcmp(head, op->cut, sizeof head)) {
		memcpy(op->cut, head, sizeof head);
		read_again(op);
		return;
	}
	if (layout_state_kind(item->state) != LAYOUT_DELETED)
		got_live(op, item);
	else if (op->from_mirror)
		start_over(op);
	else
		not_found(op);
}

static void read_scratch(struct op *op, enum phase phase, void *to, uint32_t bytes,
			 uint64_t from)
{
	const struct layout_item *item = (const struct layout_item *)op->memory->item;
	const struct wire_welcome *w = &op->session->welcome;
	unsigned worker = layout_state_worker(item->state);

	if (worker >= w->workers) {
		read_again(op);
		return;
	}
	op->held_version = layout_state_version(item->state);
	op->phase = phase;
	read_table(op, w->scratch_offset + worker * sizeof(struct layout_scratch) + from, to, bytes,
		   true);
}

/* The old item of one that is being overwritten.  Of a long one only the header
 * is: the value is what was READ already. */
static void read_old_copy(struct op *op)
{
	bool whole = layout_len_decode(layout_word_len_code(op->word)) <= LAYOUT_INPLACE_BYTES_MAX;

	if (whole)
		op->direct = false;
	read_scratch(op, PHASE_UPDATING, op->memory->item,
		     whole ? (uint32_t)op->length : head_bytes(op),
		     offsetof(struct layout_scratch, item));
}

/*
 * Whether the entry can have been this other key's when it was READ.  If not, the
 * memory was freed and used again since: the entry was ours, perhaps, and our
 * item stands elsewhere now.
 */
static bool is_collision(const struct op *op, const struct layout_item *item)
{
	struct hash h = hash_key(item->data, layout_key_bytes(item->lengths));

	return layout_fp(h.a) == layout_fp(op->hash.a);
}

/*
 * A whole item of another key, of this version, where the entry led.  The entry was
 * that key's if the item was there before the entry was READ, and still is: or else
 * the memory may have been used again in between, and the entry have been ours.
 */
static void got_other(struct op *op, const struct layout_item *item, uint64_t version)
{
	uint64_t entry = entry_of(op->word);
	unsigned i = 0;

	if (op->from_mirror || op->tried_count == TRIED_MAX || !is_collision(op, item)) {
		start_over(op);
		return;
	}
	while (i < op->other_count && op->other[i].entry != entry)
		i++;
	if (i == TRIED_MAX)
		i = entry % TRIED_MAX;
	else if (i == op->other_count)
		op->other[op->other_count++].entry = 0;
	if (op->other[i].entry != entry || op->other[i].version != version)
		op->doubt = true;
	op->other[i].entry = entry;
	op->other[i].version = version;
	op->tried[op->tried_count++] = entry;
	search(op);
}

/* The header of another key's item, perhaps: its value is not at hand. */
static void got_untold(struct op *op)
{
	if (op->from_mirror || op->tried_count == TRIED_MAX) {
		start_over(op);
		return;
	}
	op->untold = true;
	op->tried[op->tried_count++] = entry_of(op->word);
	search(op);
}

static void got_item(struct op *op)
{
	const struct layout_item *item = (const struct layout_item *)op->memory->item;
	enum verdict v = verify(op, item, op->length, layout_word_offset(op->word));
	bool cut = v == ITEM_TORN && is_cut(op, item);

	if (cut)
		v = cut_verdict(layout_state_kind(item->state));
	if ((v == ITEM_PREPARED || v == ITEM_NEW) && op->accept_prepared &&
	    layout_state_version(item->state) == op->held_version)
		v = cut ? ITEM_TORN : ITEM_LIVE;
	if (v == ITEM_COPY && op->phase == PHASE_COPY)
		v = cut ? ITEM_TORN : ITEM_LIVE;
	/* The holder of the lock waits until what was under way is through (4). */
	if (op->locked && op->phase != PHASE_COPY &&
	    (v == ITEM_UPDATING || v == ITEM_PREPARED || v == ITEM_INSERTING || v == ITEM_OLD ||
	     v == ITEM_NEW || (v == ITEM_LIVE && (item->state & LAYOUT_PENDING))))
		v = ITEM_TORN;
	switch (v) {
	case ITEM_LIVE:
		got_live(op, item);
		return;
	case ITEM_UNTOLD:
		got_untold(op);
		return;
	case ITEM_OTHER:
		got_other(op, item, layout_state_version(item->state));
		return;
	case ITEM_TORN:
		if (cut)
			got_cut(op, item);
		else
			read_again(op);
		return;
	case ITEM_DEAD:
	case ITEM_COPY:
		start_over(op);
		return;
	case ITEM_INSERTING:
		not_found(op);
		return;
	case ITEM_DELETED:
		if (op->from_mirror)
			start_over(op);
		else
			not_found(op);
		return;
	case ITEM_UPDATING:
		read_old_copy(op);
		return;
	case ITEM_PREPARED:
		read_scratch(op, PHASE_PREPARED, op->memory->small, sizeof op->memory->small, 0);
		return;
	case ITEM_OLD:
	case ITEM_NEW:
		read_scratch(op, PHASE_TXN, op->memory->scratch, sizeof op->memory->scratch, 0);
		return;
	}
}

/* The old item, whole, of just the version that was being overwritten: current
 * when the item was seen UPDATING. */
static void got_updating(struct op *op)
{
	const struct layout_item *item = (const struct layout_item *)op->memory->item;
	enum verdict v = verify(op, item, op->length, layout_word_offset(op->word));

	if (layout_state_version(item->state) != op->held_version)
		read_again(op);
	else if (v == ITEM_LIVE)
		got_live(op, item);
	else if (v == ITEM_OTHER)
		got_other(op, item, op->held_version);
	else if (v == ITEM_UNTOLD)
		got_untold(op);
	else if (is_cut(op, item) && layout_state_kind(item->state) == LAYOUT_LIVE)
		got_cut(op, item);
	else
		read_again(op);
}

static void got_prepared(struct op *op)
{
	const uint64_t *scratch = op->memory->small;

	if (scratch[0] != op->held_version) {
		read_again(op); /* that change is through */
		return;
	}
	op->held_word = op->word;
	read_item(op, scratch[1], PHASE_OLD);
}

/* While the old item is live it is the value; when it is not, the prepared one is. */
static void got_old(struct op *op)
{
	const struct layout_item *item = (const struct layout_item *)op->memory->item;

	if (verify(op, item, op->length, layout_word_offset(op->word)) == ITEM_LIVE &&
	    layout_state_version(item->state) == op->memory->small[2]) {
		got_live(op, item);
		return;
	}
	if (layout_state_kind(item->state) == LAYOUT_LIVE &&
	    layout_state_version(item->state) == op->memory->small[2]) {
		read_again(op); /* live, but torn, or longer than the caller's buffer */
		return;
	}
	op->accept_prepared = true;
	op->session->counters.retries++;
	read_item(op, op->held_word, PHASE_ITEM);
}

/* What the scratch says of the item's transaction, or NULL: it is over. */
static const struct layout_txn *find_txn(const struct op *op, const struct layout_item *item)
{
	const struct layout_txn *e =
		(const struct layout_txn *)((const uint8_t *)op->memory->scratch +
					    offsetof(struct layout_scratch, txn));
	uint64_t unit = layout_word_unit(op->word), version = layout_state_version(item->state);
	bool new = layout_state_kind(item->state) == LAYOUT_NEW;

	for (unsigned i = 0; i < LAYOUT_TXN_KEYS_MAX; i++, e++) {
		bool mine = new ? e->new_unit == unit && e->version == version
				: layout_word_unit(e->old_word) == unit && e->old_version == version;
		if (mine && e->seal == hash_txn(e))
			return e;
	}
	return NULL;
}

/* `committed` only grows, so what was sampled of it was true at that instant. */
static void got_txn(struct op *op)
{
	const struct layout_item *item = (const struct layout_item *)op->memory->item;
	const struct layout_txn *e = find_txn(op, item);
	bool new = layout_state_kind(item->state) == LAYOUT_NEW;

	if (!e) {
		read_again(op);
		return;
	}
	uint64_t committed = op->memory->scratch[offsetof(struct layout_scratch, committed) / 8];

	if (committed > e->version) {
		start_over(op); /* that transaction is over */
	} else if (committed == e->version && new) {
		/* Still there, of the same version: it was not taken back. */
		op->accept_prepared = true;
		read_item(op, op->word, PHASE_ITEM);
	} else if (committed == e->version && e->new_unit) {
		start_over(op);
	} else if (committed == e->version) {
		/* Deleted, when the item was READ or a moment later. */
		not_found(op);
	} else if (!new) {
		got_live(op, item);
	} else if (!e->old_word) {
		not_found(op);
	} else {
		op->held_version = e->old_version;
		read_item(op, e->old_word, PHASE_TXN_OLD);
	}
}

static void got_txn_old(struct op *op)
{
	const struct layout_item *item = (const struct layout_item *)op->memory->item;
	enum verdict v = verify(op, item, op->length, layout_word_offset(op->word));

	if ((v == ITEM_LIVE || v == ITEM_OLD) &&
	    layout_state_version(item->state) == op->held_version)
		got_live(op, item);
	else
		start_over(op);
}

/* ------------------------------------------------------------------- drive */

void get_advance(struct op *op)
{
	if (op->reads)
		return;
	if (op->posted < op->length &&
	    (op->phase == PHASE_ITEM || op->phase == PHASE_OLD || op->phase == PHASE_TXN_OLD ||
	     op->phase == PHASE_COPY)) {
		read_more(op);
		return;
	}
	switch (op->phase) {
	case PHASE_DIR:
		got_directory(op);
		break;
	case PHASE_MARK:
		got_mark(op);
		break;
	case PHASE_BUCKETS:
		got_buckets(op);
		break;
	case PHASE_CHAIN:
		got_node(op);
		break;
	case PHASE_RECHECK:
		got_recheck(op);
		break;
	case PHASE_ITEM:
	case PHASE_COPY:
		got_item(op);
		break;
	case PHASE_UPDATING:
		got_updating(op);
		break;
	case PHASE_PREPARED:
		got_prepared(op);
		break;
	case PHASE_OLD:
		got_old(op);
		break;
	case PHASE_TXN:
		got_txn(op);
		break;
	case PHASE_TXN_OLD:
		got_txn_old(op);
		break;
	case PHASE_AHEAD:
		op_done(op, KVD_OK);
		break;
	case PHASE_IDLE:
	case PHASE_REPLY:
	case PHASE_CAS:
		break;
	}
}

/*
 * The mirror's entry for the key, where its buckets are now or were before the
 * last expansion of their groups; or 0.
 */
static uint64_t look_in_mirror(struct op *op)
{
	struct mirror *m = client_of(op)->mirror;
	unsigned fp = layout_fp(op->hash.a);
	uint64_t word;

	for (unsigned back = 0; back < 2; back++) {
		for (unsigned i = 0; i < 2; i++) {
			if (back > op->epoch[i])
				continue;
			uint64_t b = back ? layout_bucket_of(hash_of(op, i), op->epoch[i] - back)
					  : op->bucket[i];
			if (mirror_find(m, b, fp, &word) && word)
				return word;
		}
	}
	return 0;
}

void get_start(struct op *op)
{
	op->attempts = op->torn = op->tried_count = 0;
	op->index_read = op->accept_prepared = op->untold = false;
	op->other_count = 0;
	memset(op->cut, 0, sizeof op->cut);
	op->length = op->posted = 0;
	op->session->counters.gets++;
	if (client_of(op)->options.get == KVD_GET_MESSAGE && !op->locked) {
		op->index_read = true; /* by kvd */
		send_get(op, wants_head(op));
		return;
	}
	locate(op);
	for (unsigned i = 0; i < 2; i++)
		mirror_prefetch(client_of(op)->mirror, op->bucket[i]);
	uint64_t word = look_in_mirror(op);
	if (word) {
		op->from_mirror = true;
		read_item(op, word, PHASE_ITEM);
	} else {
		read_buckets(op);
	}
}

void get_reply(struct op *op, const uint8_t *payload)
{
	const struct wire_reply *r = &op->reply;
	struct layout_item item = { .state = layout_state(r->version, LAYOUT_LIVE, 0),
				    .lengths = layout_lengths(r->value_bytes, op->key_bytes),
				    .expiry_ms = r->word };

	if (r->status == WIRE_NOT_FOUND) {
		not_found(op);
	} else if (r->status == WIRE_OK && op->asked_head) {
		op->result_bytes = r->value_bytes;
		op->result_version = r->version;
		if (r->value_bytes && r->value_bytes <= op->value.bytes)
			send_get(op, false); /* it has become shorter */
		else
			op_done(op, r->value_bytes ? KVD_ESPACE : KVD_OK);
	} else if (r->status == WIRE_OK && (r->flags & WIRE_COPY)) {
		op->from_mirror = false;
		read_item(op, r->word, PHASE_COPY);
	} else if (r->status == WIRE_OK && r->value_bytes == op->payload_bytes) {
		deliver(op, &item, payload);
	} else {
		change_reply(op, payload);
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * layout.h -- every byte of kvd's memory that a remote peer may read.
 *
 * Together with wire.h this is the contract between kvd and its clients: a
 * change here is a change of WIRE_VERSION.  All integers are little-endian and
 * naturally aligned; kvd refuses to build for a big-endian machine.
 *
 * Table region (REMOTE_READ only), offsets from its start:
 *
 *     0                 struct layout_header
 *     marks_offset      uint32_t mark[stripes]        one per lock word
 *     scratch_offset    struct layout_scratch[workers]
 *     dir_offset        uint64_t segment[dir_entries] index segments' offsets
 *     heap_offset       index segments, overflow nodes and items
 *
 * Lock region (REMOTE_READ, REMOTE_ATOMIC): uint64_t word[stripes].
 *
 * The index
 * ---------
 * Grouped linear hashing with two choices.  A key has two 64-bit hashes, a and
 * b (the low and the high half of XXH3-128 of the key, with a seed of kvd's);
 * each names one bucket
 * of 32 words, and the key's entry is in either, or in the overflow nodes
 * chained to either.  The index grows by one bucket at a time: the groups are
 * expanded in turn, from 2 to 3 to 4 buckets, and four buckets are two groups
 * of the next level.  epoch = 2 * level + (1 if the group has 3 buckets).  An
 * entry that moves in an expansion moves to the next bucket of its group or
 * stays, so a reader that finds a bucket of a later epoch than it expected
 * computes the address again with that epoch and goes on from there.
 */
#ifndef COMMON_LAYOUT_H
#define COMMON_LAYOUT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "kvd needs a little-endian machine"
#endif

#define LAYOUT_MAGIC 0x31656c6261744456ull /* "VDtable1" */

#define LAYOUT_KEY_BYTES_MAX 1024u
#define LAYOUT_VALUE_BYTES_MAX (1ull << 30)
#define LAYOUT_APART_BYTES_MIN 4096u /* a value so long has a hash of its own: hash.c */

/*
 * Lengths are counted in units.  Locations are, too, in a table of more than 128 GiB: 2^35
 * units are 1 TiB.  In a smaller one they are counted in short units.
 */
#define LAYOUT_UNIT_BYTES 32u
#define LAYOUT_SHORT_UNIT_BYTES 8u
#define LAYOUT_SHORT_TABLE_BYTES_MAX (128ull << 30)
#define LAYOUT_TABLE_BYTES_MAX (1ull << 40)

/* What a primary shows to who READs its table (doc/cluster.md, 10); all 0: nobody has a lease.
 * It is as hash_lease() says, or nothing. */
struct layout_lease {
	uint64_t reign, a, g;
	uint64_t checksum;
};

struct layout_header {
	uint64_t magic;
	uint64_t table_bytes;
	/* Buckets in use; only grows.  Published after the bucket is complete. */
	uint64_t buckets;
	uint64_t unused;
	struct layout_lease lease;
};
static_assert(sizeof(struct layout_header) == 64, "layout");

/* ------------------------------------------------------------------ index */

#define LAYOUT_BUCKET_WORDS 32u
#define LAYOUT_BUCKET_BYTES (8u * LAYOUT_BUCKET_WORDS)
/* An overflow node: what a bucket needs beyond its words is little. */
#define LAYOUT_NODE_WORDS 4u
#define LAYOUT_NODE_BYTES (8u * LAYOUT_NODE_WORDS)
/* Groups at level 0 are 2^LAYOUT_BASE_BITS, of two buckets each. */
#define LAYOUT_BASE_BITS 5u
#define LAYOUT_BUCKETS_MIN (2ull << LAYOUT_BASE_BITS)
#define LAYOUT_LEVEL_MAX 28u

/*
 * A word of a bucket:
 *
 *     bit  0..34  location from the table's start, in units of layout_unit_bytes(): as
 *                 many bits as the table needs (layout_unit_mask()), and in those above
 *                 more of the fingerprint; all 0 = empty
 *     bit 35..45  length code; 0 = the location is that of an overflow node
 *     bit 46..60  fingerprint; overflow node: 46..57 and the bits above the location a
 *                 filter of what is in it and behind it, 58..60 its generation
 *     bit 61..63  epoch: the two low bits, and of word i < 16 bit 2 + i
 *
 * So every word tells a reader whether its bucket is being rewritten, and all
 * together the whole epoch: a view of the index can be old, never ambiguous.
 * A bucket of a segment that was never used is all zero, which is not an epoch
 * that any reader arrives with (kvd publishes `buckets` after it wrote it).
 */
#define LAYOUT_LOC_BITS 35u
#define LAYOUT_LEN_BITS 11u
#define LAYOUT_FP_BITS 15u
#define LAYOUT_LEN_SHIFT 35u
#define LAYOUT_FP_SHIFT 46u
#define LAYOUT_EPOCH_SHIFT 61u
#define LAYOUT_EPOCH_MASK (7ull << LAYOUT_EPOCH_SHIFT)

struct layout_bucket {
	uint64_t word[LAYOUT_BUCKET_WORDS];
};
static_assert(sizeof(struct layout_bucket) == 256, "layout");

#define LAYOUT_LOC_MASK ((1ull << LAYOUT_LOC_BITS) - 1)

/* The bits of a word that are the location, in a table of so many bytes.  All of them are
 * where locations are counted in long units, and nowhere else. */
static inline uint64_t layout_unit_mask(uint64_t table_bytes)
{
	uint64_t units = (table_bytes + LAYOUT_SHORT_UNIT_BYTES - 1) / LAYOUT_SHORT_UNIT_BYTES;

	if (table_bytes > LAYOUT_SHORT_TABLE_BYTES_MAX)
		return LAYOUT_LOC_MASK;
	return units > 1 ? ~0ull >> __builtin_clzll(units - 1) : 0;
}

/* Of locations: 3 or 5. */
static inline unsigned layout_unit_shift(uint64_t unit_mask)
{
	return 3 + 2 * (unsigned)(unit_mask >> (LAYOUT_LOC_BITS - 1));
}

static inline unsigned layout_unit_bytes(uint64_t unit_mask)
{
	return 1u << layout_unit_shift(unit_mask);
}

/* The bits of a word that are the fingerprint. */
static inline uint64_t layout_fp_mask(uint64_t unit_mask)
{
	return ((1ull << LAYOUT_FP_BITS) - 1) << LAYOUT_FP_SHIFT | (LAYOUT_LOC_MASK & ~unit_mask);
}

/*
 * A fingerprint as it stands in a word: of the low hash the low bits, which no address
 * of a table uses.  A small table has more of them than a large one.
 */
static inline uint64_t layout_fp(uint64_t a, uint64_t unit_mask)
{
	uint64_t low = a & ((1ull << LAYOUT_FP_BITS) - 1);

	return low << LAYOUT_FP_SHIFT | (((a >> LAYOUT_FP_BITS) * (unit_mask + 1)) & LAYOUT_LOC_MASK);
}

static inline uint64_t layout_word(uint64_t unit, unsigned len_code, uint64_t fp)
{
	return unit | (uint64_t)len_code << LAYOUT_LEN_SHIFT | fp;
}

static inline uint64_t layout_word_unit(uint64_t word, uint64_t unit_mask)
{
	return word & unit_mask;
}

static inline uint64_t layout_word_offset(uint64_t word, uint64_t unit_mask)
{
	return layout_word_unit(word, unit_mask) << layout_unit_shift(unit_mask);
}

static inline unsigned layout_word_len_code(uint64_t word)
{
	return (unsigned)(word >> LAYOUT_LEN_SHIFT) & ((1u << LAYOUT_LEN_BITS) - 1);
}

static inline uint64_t layout_word_fp(uint64_t word, uint64_t unit_mask)
{
	return word & layout_fp_mask(unit_mask);
}

static inline bool layout_word_is_empty(uint64_t word)
{
	return (word & LAYOUT_LOC_MASK) == 0;
}

static inline bool layout_word_is_chain(uint64_t word)
{
	return (word & LAYOUT_LOC_MASK) != 0 && layout_word_len_code(word) == 0;
}

/*
 * The last word of full words links an overflow node: length code 0, and a Bloom filter
 * of the fingerprints that are in the node or behind it, so that a reader of one that
 * surely is not has no need to look.  A fingerprint is in the filter before an entry is
 * behind the link, and stays for as long as the link.  The filter has 12 bits, and those
 * above the location; each fingerprint sets up to four of them.
 */
#define LAYOUT_FILTER_BITS 12u
#define LAYOUT_FILTER_HASHES 4u
#define LAYOUT_GENERATION_BITS 3u
static_assert(LAYOUT_FILTER_BITS + LAYOUT_GENERATION_BITS == LAYOUT_FP_BITS, "layout");

/* All of a link's filter. */
static inline uint64_t layout_filter_mask(uint64_t unit_mask)
{
	return ((1ull << LAYOUT_FILTER_BITS) - 1) << LAYOUT_FP_SHIFT |
	       (LAYOUT_LOC_MASK & ~unit_mask);
}

/* What a fingerprint sets of it. */
static inline uint64_t layout_filter(uint64_t fp, uint64_t unit_mask)
{
	unsigned loc_bits = (unsigned)__builtin_popcountll(unit_mask);
	unsigned bits = LAYOUT_FILTER_BITS + LAYOUT_LOC_BITS - loc_bits;
	uint64_t x = (fp >> LAYOUT_FP_SHIFT) * 0x9e3779b97f4a7c15ull, filter = 0;

	for (unsigned i = 0; i < LAYOUT_FILTER_HASHES; i++, x <<= 16) {
		unsigned k = (unsigned)((x >> 48) * bits >> 16);
		filter |= 1ull << (k < LAYOUT_FILTER_BITS ? LAYOUT_FP_SHIFT + k
							  : loc_bits + k - LAYOUT_FILTER_BITS);
	}
	return filter;
}

static inline uint64_t layout_link(uint64_t unit, unsigned generation)
{
	unsigned g = generation & ((1u << LAYOUT_GENERATION_BITS) - 1);
	return unit | (uint64_t)g << (LAYOUT_FP_SHIFT + LAYOUT_FILTER_BITS);
}

static inline bool layout_link_may_lead_to(uint64_t link, uint64_t fp, uint64_t unit_mask)
{
	return (layout_filter(fp, unit_mask) & ~link) == 0;
}

/* Whether two words link one use of one node. */
static inline bool layout_is_same_link(uint64_t a, uint64_t b, uint64_t unit_mask)
{
	return ((a ^ b) & ~layout_filter_mask(unit_mask)) == 0;
}

/* The word's own three bits of the epoch, as they stand in word i. */
#define LAYOUT_EPOCH_WORDS 16u

static inline uint64_t layout_epoch_bits(unsigned epoch, unsigned i)
{
	unsigned high = i < LAYOUT_EPOCH_WORDS ? (epoch >> (2 + i)) & 1 : 0;
	return (uint64_t)((epoch & 3) | high << 2) << LAYOUT_EPOCH_SHIFT;
}

/* Sets *epoch if all words agree on one; a bucket under rewriting has none. */
static inline bool layout_bucket_epoch(const uint64_t *word, unsigned *epoch)
{
	unsigned e = (unsigned)(word[0] >> LAYOUT_EPOCH_SHIFT) & 3;
	for (unsigned i = 0; i < LAYOUT_BUCKET_WORDS; i++) {
		unsigned bits = (unsigned)(word[i] >> LAYOUT_EPOCH_SHIFT);
		if ((bits & 3) != (e & 3))
			return false;
		if (i < LAYOUT_EPOCH_WORDS)
			e |= (bits >> 2) << (2 + i);
	}
	*epoch = e;
	return true;
}

/*
 * The older epoch of a bucket that is being rewritten, from e to e + 1: the words that
 * agree with neither bit of e have those of e + 1.  False if there is no such e.
 */
static inline bool layout_bucket_epochs(const uint64_t *word, unsigned *older)
{
	for (unsigned e = 0; e <= 2 * LAYOUT_LEVEL_MAX; e++) {
		unsigned i = 0;
		while (i < LAYOUT_BUCKET_WORDS &&
		       ((word[i] & LAYOUT_EPOCH_MASK) == layout_epoch_bits(e, i) ||
			(word[i] & LAYOUT_EPOCH_MASK) == layout_epoch_bits(e + 1, i)))
			i++;
		if (i == LAYOUT_BUCKET_WORDS) {
			*older = e;
			return true;
		}
	}
	return false;
}

/*
 * Length codes.  Lengths up to 32 KiB are exact to a unit; longer ones are
 * rounded up to 1/64 of their power of two.  Decoding an encoded length gives
 * at least that length.
 */
#define LAYOUT_LEN_EXACT 1024u

static inline unsigned layout_len_encode(uint64_t bytes)
{
	uint64_t units = (bytes + LAYOUT_UNIT_BYTES - 1) / LAYOUT_UNIT_BYTES;
	if (units < LAYOUT_LEN_EXACT)
		return (unsigned)units;
	unsigned shift = 63 - (unsigned)__builtin_clzll(units) - 6;
	uint64_t m = (units + (1ull << shift) - 1) >> shift; /* 64..128 */
	return LAYOUT_LEN_EXACT + (shift - 4) * 64 + (unsigned)(m - 64);
}

static inline uint64_t layout_len_decode(unsigned code)
{
	if (code < LAYOUT_LEN_EXACT)
		return (uint64_t)code * LAYOUT_UNIT_BYTES;
	unsigned c = code - LAYOUT_LEN_EXACT;
	return (uint64_t)(64 + c % 64) << (c / 64 + 4) << 5;
}

/* A place of the index: which bucket, by its number from the start. */
struct layout_view {
	unsigned level;  /* of the groups not yet expanded in this sweep */
	unsigned three;  /* 1 if those groups have three buckets */
	uint64_t split;  /* groups before this one are expanded already */
};

static inline struct layout_view layout_view(uint64_t buckets)
{
	struct layout_view v;
	unsigned top = 63 - (unsigned)__builtin_clzll(buckets >> 1); /* log2 of groups */
	uint64_t groups = 1ull << top;
	v.level = top - LAYOUT_BASE_BITS;
	v.three = buckets >= 3 * groups;
	v.split = buckets - (2 + v.three) * groups;
	return v;
}

static inline unsigned layout_view_epoch(const struct layout_view *v, uint64_t hash)
{
	uint64_t group = hash >> (64 - LAYOUT_BASE_BITS - v->level);
	return 2 * v->level + v->three + (group < v->split);
}

/* The number of the bucket in which `hash` has its place at `epoch`. */
static inline uint64_t layout_bucket_of(uint64_t hash, unsigned epoch)
{
	unsigned level = epoch >> 1;
	unsigned bits = LAYOUT_BASE_BITS + level;
	uint64_t group = hash >> (64 - bits);
	uint64_t rest = hash << bits;
	uint64_t pos = (uint64_t)((unsigned __int128)rest * (2 + (epoch & 1)) >> 64);

	if (pos == 2)
		return (2ull << bits) + group;
	/* Strip the levels at which this group kept its elder's place. */
	unsigned strip = group ? (unsigned)__builtin_ctzll(group) : 64;
	if (strip >= level)
		return (pos << LAYOUT_BASE_BITS) + (group >> level);
	bits -= strip + 1;
	return (2ull << bits) + (pos << bits) + (group >> (strip + 1));
}

/* The group of a bucket that is at `epoch`, or on the way there. */
static inline uint64_t layout_group_of(uint64_t bucket, unsigned epoch)
{
	unsigned bits = LAYOUT_BASE_BITS + (epoch >> 1), halves = 0;

	if (bucket >= 2ull << bits)
		return bucket - (2ull << bits); /* the third of three */
	for (; bits > LAYOUT_BASE_BITS; bits--, halves++) {
		uint64_t groups = 1ull << (bits - 1); /* of the level before: 2 to 4 buckets each */
		if (bucket >= 2 * groups)
			return (2 * (bucket & (groups - 1)) + 1) << halves;
	}
	return (bucket & ((1u << LAYOUT_BASE_BITS) - 1)) << halves;
}

/*
 * How many buckets there are at the least if this one is at `epoch`: the groups before
 * its own were expanded to that.  Its own may be in the middle of it, with entries in
 * lower buckets that are still to come to this one.
 */
static inline uint64_t layout_buckets_floor(uint64_t bucket, unsigned epoch)
{
	uint64_t group = layout_group_of(bucket, epoch);
	unsigned bits = LAYOUT_BASE_BITS + (epoch >> 1);

	if (epoch & 1)
		return (2ull << bits) + group;
	return epoch ? (3ull << (bits - 1)) + (group >> 1) : LAYOUT_BUCKETS_MIN;
}

/* The lock stripe: of the high hash, likewise. */
static inline uint64_t layout_stripe(uint64_t b, uint64_t stripes)
{
	return b & (stripes - 1);
}

/* ------------------------------------------------------------- lock words */

/*
 * A lock word is 0 (free), or the token of who holds the stripe: bit 0..39 the
 * holder's count of acquisitions, 40..62 the low bits of its connection id, which no two
 * that may stand in a word have in common (all zero, all one: nobody's); bit 63
 * says that somebody waits in kvd, so that an unlock has to go there.  A token is
 * never used twice.  Only atomics through the NIC change a lock word.
 */
#define LAYOUT_LOCK_WAIT (1ull << 63)
#define LAYOUT_LOCK_COUNT_BITS 40u
#define LAYOUT_LOCK_CONNECTION_BITS 23u
#define LAYOUT_LOCK_CONNECTION_MASK ((1ull << LAYOUT_LOCK_CONNECTION_BITS) - 1)

static inline uint64_t layout_token(uint64_t connection_id, uint64_t count)
{
	return (connection_id & LAYOUT_LOCK_CONNECTION_MASK) << LAYOUT_LOCK_COUNT_BITS |
	       (count & ((1ull << LAYOUT_LOCK_COUNT_BITS) - 1));
}

static inline uint64_t layout_token_connection(uint64_t word)
{
	return word >> LAYOUT_LOCK_COUNT_BITS & LAYOUT_LOCK_CONNECTION_MASK;
}

/*
 * What a session lets kvd READ: the locks that it holds or tries to get, LAYOUT_HELD_MAX
 * of them.  A token holds one stripe: one that another peer copied elsewhere is nobody's.
 */
#define LAYOUT_HELD_MAX 64u

struct layout_held {
	uint64_t token; /* 0: none; written behind the stripe */
	uint64_t stripe;
};
static_assert(sizeof(struct layout_held) == 16, "layout");

/* ------------------------------------------------------------------ items */

/*
 * An item, aligned to a unit of locations.  The checksum covers all but the state's kind
 * and worker bits, with version and location mixed in: see hash.h.
 *
 * state: bit 0..7 kind, 8 PENDING, 9..15 worker, 16..63 version.  Versions
 * never repeat in a table's life.
 *
 * What a client keeps with a value -- 32 bits of flags that mean nothing to kvd, and two
 * signs -- stands in bits that lengths and expiry leave free, so it takes no room.
 */
struct layout_item {
	uint64_t state;
	uint64_t checksum;
	uint64_t lengths; /* bit 0..31 value, 32..47 key, 48..63 high half of the flags */
	uint64_t expiry;  /* bit 0..45 ms of kvd's clock, 0 = never; 46, 47 signs; 48..63 low half */
	uint8_t data[];   /* key, value */
};
static_assert(sizeof(struct layout_item) == 32, "layout");

/* Two bits at least between any two, so that no flipped bit makes one the other. */
enum layout_kind {
	LAYOUT_DEAD = 0,     /* superseded: look in the bucket */
	LAYOUT_LIVE = 3,
	LAYOUT_DELETED = 5,  /* dead because its key was deleted */
	LAYOUT_UPDATING = 6, /* being overwritten: the old item is in the scratch */
	LAYOUT_PREPARED = 9, /* live if the item named by the scratch is not */
	LAYOUT_OLD = 10,     /* live until the transaction in the scratch is committed */
	LAYOUT_NEW = 12,     /* live from then on */
	LAYOUT_INSERTING = 15, /* its key is absent for as long as it says so */
};

#define LAYOUT_PENDING (1ull << 8)
#define LAYOUT_WORKERS_MAX 64u
#define LAYOUT_VERSION_MAX ((1ull << 48) - 1)

static inline uint64_t layout_state(uint64_t version, enum layout_kind kind, unsigned worker)
{
	return version << 16 | (uint64_t)worker << 9 | (uint64_t)kind;
}

static inline enum layout_kind layout_state_kind(uint64_t state)
{
	return (enum layout_kind)(state & 0xff);
}

static inline unsigned layout_state_worker(uint64_t state)
{
	return (unsigned)(state >> 9) & 0x7f;
}

static inline uint64_t layout_state_version(uint64_t state)
{
	return state >> 16;
}

/* What is kept with a value beside its bytes. */
struct layout_attributes {
	uint64_t expiry_ms; /* kvd's clock; 0: never */
	uint32_t flags;     /* the client's */
	unsigned signs;     /* LAYOUT_STALE, LAYOUT_CLAIMED */
};

#define LAYOUT_STALE 1u   /* the value is out of date */
#define LAYOUT_CLAIMED 2u /* somebody was told to renew it */
#define LAYOUT_SIGNS (LAYOUT_STALE | LAYOUT_CLAIMED)

#define LAYOUT_SIGNS_SHIFT 46u
#define LAYOUT_FLAGS_SHIFT 48u
#define LAYOUT_EXPIRY_MS_MAX ((1ull << LAYOUT_SIGNS_SHIFT) - 1) /* 2,200 years */

/* Of an item without flags. */
static inline uint64_t layout_lengths(uint64_t value_bytes, unsigned key_bytes)
{
	return value_bytes | (uint64_t)key_bytes << 32;
}

static inline uint64_t layout_value_bytes(uint64_t lengths)
{
	return lengths & 0xffffffffu;
}

static inline unsigned layout_key_bytes(uint64_t lengths)
{
	return (unsigned)(lengths >> 32) & 0xffff;
}

/* Of an item's word `expiry`. */
static inline uint64_t layout_expiry_ms(uint64_t expiry)
{
	return expiry & LAYOUT_EXPIRY_MS_MAX;
}

static inline unsigned layout_signs(uint64_t expiry)
{
	return (unsigned)(expiry >> LAYOUT_SIGNS_SHIFT) & LAYOUT_SIGNS;
}

/* Of two words that have a half each. */
static inline uint32_t layout_flags(uint64_t high, uint64_t low)
{
	return (uint32_t)(high >> LAYOUT_FLAGS_SHIFT) << 16 | (uint32_t)(low >> LAYOUT_FLAGS_SHIFT);
}

static inline uint64_t layout_flags_high(uint32_t flags)
{
	return (uint64_t)(flags >> 16) << LAYOUT_FLAGS_SHIFT;
}

/* The word `expiry`; what belongs to it in `lengths` is layout_flags_high(). */
static inline uint64_t layout_expiry(const struct layout_attributes *with)
{
	return with->expiry_ms | (uint64_t)with->signs << LAYOUT_SIGNS_SHIFT |
	       (uint64_t)(with->flags & 0xffff) << LAYOUT_FLAGS_SHIFT;
}

static inline struct layout_attributes layout_attributes(uint64_t lengths, uint64_t expiry)
{
	return (struct layout_attributes){ layout_expiry_ms(expiry), layout_flags(lengths, expiry),
					   layout_signs(expiry) };
}

static inline uint64_t layout_item_bytes(uint64_t key_bytes, uint64_t value_bytes)
{
	return sizeof(struct layout_item) + key_bytes + value_bytes;
}

/*
 * What a worker has under way, for readers that meet it: so that a key stays
 * readable even if kvd is stopped in the middle of a change.
 *
 * LAYOUT_UPDATING: `item` is a copy of the old item, checksum and all (valid
 * for the old item's location and version).
 * LAYOUT_PREPARED: `old_word` is the index word of the old item.  While that
 * item is live with `old_version`, it is the key's value; once it is not, the
 * prepared one is.
 *
 * LAYOUT_OLD, LAYOUT_NEW: `txn` has an entry for each key that the transaction changes,
 * with the transaction's number and the version of the new item.  Each new item has a
 * version of its own: compaction keeps versions, so two items of one version could stand
 * in one place, one after the other.  `committed` is the number of the worker's last
 * committed transaction, and only grows: from committed >= commit on, the new items count
 * and the old ones don't.  An entry is believed if its seal is right; if there is none for
 * an item, that transaction is over, and the item has another state by now.
 */
#define LAYOUT_INPLACE_BYTES_MAX 4096u
#define LAYOUT_TXN_KEYS_MAX 16u

struct layout_txn {
	uint64_t commit; /* the transaction's number: the version of its first new item */
	uint64_t version; /* of the new item */
	uint64_t old_word; /* 0: the key was absent */
	uint64_t old_version;
	uint64_t new_unit; /* location in units; 0: the key is deleted */
	uint64_t seal;     /* hash_txn() of the above */
};

struct layout_scratch {
	uint64_t new_version; /* of the change under way */
	uint64_t old_word;
	uint64_t old_version;
	uint64_t committed;
	struct layout_txn txn[LAYOUT_TXN_KEYS_MAX];
	uint8_t item[LAYOUT_INPLACE_BYTES_MAX];
	uint8_t pad[8192 - 4096 - 800];
};
static_assert(sizeof(struct layout_scratch) == 8192, "layout");
static_assert(offsetof(struct layout_scratch, txn) == 32, "layout");
static_assert(offsetof(struct layout_scratch, item) == 800, "layout");

#endif

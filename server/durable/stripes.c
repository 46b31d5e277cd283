/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a member of a cluster keeps beside its keys, in a column family of its own, so that one
 * batch has both: a note for each stripe, by its number, and how far each reign was seen, by an
 * 's' and the reign's.
 */
#include <stdatomic.h>
#include <string.h>

#include "server/durable/db.h"
#include "server/durable/rocksdb.h"

#define STRIPE_KEY_BYTES 4u
#define END_BYTES (PREFIX_BYTES + LAYOUT_KEY_BYTES_MAX + 1) /* above each key */

struct seen_key {
	char kind;
	uint64_t reign;
} __attribute__((packed));

static rocksdb_column_family_handle_t *family(const struct db *db)
{
	return db->families[1];
}

void db_batch_note(struct db *db, const struct durable_note *n)
{
	uint32_t key = htobe32(n->stripe);

	rocksdb_writebatch_put_cf(db->batch, family(db), (const char *)&key, sizeof key, n->bytes,
				  n->length);
}

void db_batch_seen(struct db *db, uint64_t reign, uint64_t number)
{
	const struct seen_key key = { 's', htobe64(reign) };
	uint64_t le = htole64(number);

	rocksdb_writebatch_put_cf(db->batch, family(db), (const char *)&key, sizeof key,
				  (const char *)&le, sizeof le);
}

/* Their keys are of nine bytes, and stripes' of four: no stripe has 's' first. */
void db_batch_unsee(struct db *db)
{
	const char end = 's' + 1;

	rocksdb_writebatch_delete_range_cf(db->batch, family(db), "s", 1, &end, 1);
}

int db_seen(const struct db *db, uint64_t reign, uint64_t *number, struct err *err)
{
	const struct seen_key key = { 's', htobe64(reign) };

	return db_read_number(db, family(db), &key, sizeof key, number, err);
}

int db_walk_notes(struct db *db, int (*each)(void *arg, const struct durable_note *note), void *arg,
		  struct err *err)
{
	rocksdb_readoptions_t *o = rocksdb_readoptions_create();
	rocksdb_iterator_t *it = rocksdb_create_iterator_cf(db->db, o, family(db));
	char *why = NULL;
	int rc = 0;

	for (rocksdb_iter_seek_to_first(it); !rc && rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
		struct durable_note note;
		size_t key_bytes;
		const char *key = rocksdb_iter_key(it, &key_bytes);

		if (key_bytes != STRIPE_KEY_BYTES)
			continue;
		memcpy(&note.stripe, key, sizeof note.stripe);
		note.stripe = be32toh(note.stripe);
		note.bytes = rocksdb_iter_value(it, &note.length);
		rc = each(arg, &note);
	}
	rocksdb_iter_get_error(it, &why);
	rocksdb_iter_destroy(it);
	rocksdb_readoptions_destroy(o);
	return why ? db_fail(err, why, db->dir, "can't read") : rc;
}

int db_wipe(struct db *db, struct err *err)
{
	char end[END_BYTES];
	uint64_t version = htole64(db->version), mark = htole64(atomic_load(&db->mark));

	memset(end, 0xff, sizeof end);
	rocksdb_writebatch_clear(db->batch);
	rocksdb_writebatch_delete_range(db->batch, "", 0, end, sizeof end);
	rocksdb_writebatch_delete_range_cf(db->batch, family(db), "", 0, end, sizeof end);
	/* Behind them: versions go on above all that were given out. */
	rocksdb_writebatch_put(db->batch, KEY_VERSION, 1, (const char *)&version, sizeof version);
	rocksdb_writebatch_put(db->batch, KEY_MARK, 1, (const char *)&mark, sizeof mark);
	return db_batch_write(db, true, err);
}

bool db_is_over(const struct db *db, const struct durable_record *r, uint64_t wall_ms)
{
	uint16_t prefix = db_prefix(r);
	rocksdb_readoptions_t *o = rocksdb_readoptions_create();
	char key[PREFIX_BYTES + LAYOUT_KEY_BYTES_MAX], *why = NULL, *value;
	struct db_head head;
	size_t bytes = 0;
	uint64_t expiry_ms = 0;

	memcpy(key, &prefix, PREFIX_BYTES);
	memcpy(key + PREFIX_BYTES, r->key, r->key_bytes);
	value = rocksdb_get(db->db, o, key, PREFIX_BYTES + r->key_bytes, &bytes, &why);
	rocksdb_readoptions_destroy(o);
	if (value && bytes >= sizeof head) {
		memcpy(&head, value, sizeof head);
		expiry_ms = layout_expiry_ms(le64toh(head.expiry));
	}
	rocksdb_free(value);
	rocksdb_free(why); /* it stays */
	return expiry_ms && expiry_ms <= wall_ms;
}

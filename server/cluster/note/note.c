/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/note/note.h"

#include <endian.h>
#include <string.h>

/* Little-endian, as they stand on the disk. */
struct head {
	uint64_t version, before, reign, number;
	uint32_t stripes, keys; /* behind it: the stripes, then keys */
};

struct key {
	uint64_t version, expiry_ms, value_bytes;
	uint32_t flags;
	uint16_t signs, key_bytes; /* behind it: key, value */
};

size_t note_bytes(const struct note *n)
{
	size_t bytes = sizeof(struct head) + n->stripe_count * sizeof *n->stripes;

	for (unsigned i = 0; i < n->count; i++)
		bytes += sizeof(struct key) + n->keys[i].key_bytes + n->keys[i].value_bytes;
	return bytes;
}

static char *put(char *to, const void *from, size_t bytes)
{
	if (bytes)
		memcpy(to, from, bytes);
	return to + bytes;
}

static char *put_key(char *to, const struct durable_record *d)
{
	const struct key k = { htole64(d->version), htole64(d->with.expiry_ms),
			       htole64(d->value_bytes), htole32(d->with.flags),
			       htole16((uint16_t)d->with.signs), htole16((uint16_t)d->key_bytes) };

	to = put(to, &k, sizeof k);
	to = put(to, d->key, d->key_bytes);
	return put(to, d->value, d->value_bytes);
}

void note_write(const struct note *n, char *to)
{
	const struct head h = { htole64(n->version), htole64(n->before), htole64(n->reign),
				htole64(n->number), htole32(n->stripe_count), htole32(n->count) };

	to = put(to, &h, sizeof h);
	for (unsigned i = 0; i < n->stripe_count; i++) {
		uint32_t stripe = htole32(n->stripes[i]);

		to = put(to, &stripe, sizeof stripe);
	}
	for (unsigned i = 0; i < n->count; i++)
		to = put_key(to, &n->keys[i]);
}

void note_number(char *bytes, uint64_t reign, uint64_t number)
{
	struct head h;

	memcpy(&h, bytes, sizeof h);
	h.reign = htole64(reign);
	h.number = htole64(number);
	memcpy(bytes, &h, sizeof h);
}

struct reader {
	const char *at, *end;
};

/* NULL: it is not that long. */
static const void *take(struct reader *r, uint64_t bytes)
{
	const char *at = r->at;

	if (bytes > (size_t)(r->end - r->at))
		return NULL;
	r->at += bytes;
	return at;
}

static bool take_key(struct reader *r, struct durable_record *d)
{
	const void *from = take(r, sizeof(struct key));
	struct key k;

	if (!from)
		return false;
	memcpy(&k, from, sizeof k);
	*d = (struct durable_record){ .key_bytes = le16toh(k.key_bytes),
				      .value_bytes = le64toh(k.value_bytes),
				      .version = le64toh(k.version),
				      .with = { .expiry_ms = le64toh(k.expiry_ms),
						.flags = le32toh(k.flags), .signs = le16toh(k.signs) } };
	d->key = take(r, d->key_bytes);
	d->value = d->key ? take(r, d->value_bytes) : NULL;
	return d->value && d->key_bytes && d->key_bytes <= LAYOUT_KEY_BYTES_MAX &&
	       d->value_bytes <= LAYOUT_VALUE_BYTES_MAX && d->version <= LAYOUT_VERSION_MAX;
}

bool note_read(const char *bytes, size_t length, struct note *n)
{
	struct reader r = { bytes, bytes + length };
	const void *from = take(&r, sizeof(struct head));
	struct head h;
	bool ok = from;

	if (!ok)
		return false;
	memcpy(&h, from, sizeof h);
	n->version = le64toh(h.version);
	n->before = le64toh(h.before);
	n->reign = le64toh(h.reign);
	n->number = le64toh(h.number);
	n->stripe_count = le32toh(h.stripes);
	n->count = le32toh(h.keys);
	if (n->stripe_count > NOTE_MAX || n->count > NOTE_MAX || (n->number && !n->stripe_count))
		return false;
	for (unsigned i = 0; i < n->stripe_count && ok; i++) {
		ok = (from = take(&r, sizeof *n->stripes));
		if (ok)
			memcpy(&n->stripes[i], from, sizeof *n->stripes);
		n->stripes[i] = le32toh(n->stripes[i]);
	}
	for (unsigned i = 0; i < n->count && ok; i++)
		ok = take_key(&r, &n->keys[i]);
	return ok && r.at == r.end;
}

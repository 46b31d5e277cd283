/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A start with a disk: the table has all that was written, what is open included.  Each change that
 * is open becomes a record again, and its keys what they were before.  Then the notes are written
 * anew: what is not open says only which change was applied last.
 *
 * The only thread; the first worker's memory.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "server/cluster/note/note.h"
#include "server/cluster/record/records.h"
#include "server/cluster/replica/impl.h"
#include "server/cluster/replica/replica.h"
#include "server/durable/durable.h"
#include "server/store/apply.h"

#define NO_ROOM "the memory is full; if other members are there, empty the folder: then this one is copied to"

struct restoring {
	struct replica *replica;
	struct replica_worker *worker;
	struct durable *durable;
	uint64_t *open; /* by stripe: the change that its note says is open; 0: none */
	struct replica_record *partial; /* of several stripes, not all of which were met */
	uint64_t count;
	uint64_t reign, seen; /* of that reign, as asked last */
	bool is_asked;
	struct err *err;
};

static int cant(struct restoring *x, const char *why)
{
	return err_set(x->err, -1, "can't make what was under way out of the disk: %s", why);
}

static int read_note(struct restoring *x, const struct durable_note *d, struct note *n)
{
	if (d->stripe < x->replica->records.stripes && note_read(d->bytes, d->length, n))
		return 0;
	return cant(x, "a stripe's note is not one of kvd's");
}

/* -------------------------------------------------------------------- what is open */
static int was_seen(struct restoring *x, const struct note *n, bool *was)
{
	if (!x->is_asked || n->reign != x->reign) {
		x->is_asked = true;
		x->reign = n->reign;
		if (durable_was_seen(x->durable, n->reign, &x->seen, x->err))
			return -1;
	}
	*was = n->number <= x->seen;
	return 0;
}

static int look(void *arg, const struct durable_note *d)
{
	struct restoring *x = arg;
	struct note n;
	bool was;

	if (read_note(x, d, &n) || was_seen(x, &n, &was))
		return -1;
	x->open[d->stripe] = was ? 0 : n.version;
	store_apply_saw(x->replica->options.store, n.version);
	return 0;
}

/* One behind it, in any of its stripes, proves that it took effect. */
static bool is_open(const struct restoring *x, const struct durable_note *d, const struct note *n)
{
	bool is = x->open[d->stripe];

	for (unsigned i = 0; i < n->stripe_count && is; i++)
		is = n->stripes[i] < x->replica->records.stripes &&
		     x->open[n->stripes[i]] == n->version;
	return is;
}

/* -------------------------------------------------------------------- records */
/* Behind the items there is room for keys of removals. */
static size_t keys_bytes(const struct note *n)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < n->count; i++)
		bytes += n->keys[i].key_bytes;
	return n->stripe_count == 1 ? bytes : NOTE_MAX * LAYOUT_KEY_BYTES_MAX;
}

static struct replica_record *new_record(struct restoring *x, const struct note *n)
{
	struct replica_record *in = calloc(1, sizeof *in + NOTE_MAX * sizeof *in->items + keys_bytes(n));

	if (!in)
		return NULL;
	in->worker = x->worker;
	in->base = (struct record){ .version = n->version, .count = n->stripe_count,
				    .stripes = in->stripes };
	memcpy(in->stripes, n->stripes, n->stripe_count * sizeof *in->stripes);
	return in;
}

/* The one that other stripes of the same change began. */
static struct replica_record **find_partial(struct restoring *x, uint64_t version)
{
	struct replica_record **at = &x->partial;

	while (*at && (*at)->base.version != version)
		at = &(*at)->waiting;
	return at;
}

static void add_removal(struct replica_record *in, const struct durable_record *key)
{
	uint8_t *at = (uint8_t *)&in->items[NOTE_MAX];

	for (unsigned i = 0; i < in->count; i++)
		at += in->items[i].item ? 0 : in->items[i].key_bytes;
	in->items[in->count++] = (struct replica_item){
		.record = in, .key = memcpy(at, key->key, key->key_bytes),
		.key_bytes = (uint16_t)key->key_bytes };
}

/* As the table has it, which is as the change made it.  False: there is no memory. */
static bool add_item(struct restoring *x, struct replica_record *in, const struct durable_record *key)
{
	const struct store *s = x->worker->store->store;
	const struct layout_item *now = store_apply_find(
		s, hash_key(s->table->hash_seed, key->key, key->key_bytes), key->key, key->key_bytes);
	struct durable_record d;
	struct layout_item *item;

	if (!now) {
		add_removal(in, key);
		return true;
	}
	d = item_record(now);
	item = store_apply_item(x->worker->store, &d);
	if (item)
		in->items[in->count++] = (struct replica_item){ .record = in, .item = item, .version = d.version,
								.key_bytes = (uint16_t)key->key_bytes };
	return item;
}

/* In the table, as it was. */
static int take_back(struct restoring *x, const struct durable_record *before)
{
	struct durable_record d = *before;
	struct layout_item *item;
	int status;

	d.with.expiry_ms = durable_expiry_ms(x->durable, before->with.expiry_ms);
	if (!d.version || d.with.expiry_ms == 1) {
		status = store_apply_remove(x->worker->store, d.key, d.key_bytes);
		return status == WIRE_OK || status == WIRE_NOT_FOUND ? 0 : cant(x, "a key stays");
	}
	item = store_apply_item(x->worker->store, &d);
	if (item && store_apply_put(x->worker->store, item) == WIRE_OK)
		return 0;
	return cant(x, NO_ROOM);
}

/* The keys of one of its stripes; with the last it is open. */
static int open_stripe(struct restoring *x, const struct note *n)
{
	struct replica_record **at = find_partial(x, n->version), *in = *at;

	if (!in) {
		in = *at = new_record(x, n);
		if (!in)
			return cant(x, "there is no memory");
		in->reads = n->stripe_count;
	}
	for (unsigned i = 0; i < n->count; i++) {
		if (in->count == NOTE_MAX)
			return cant(x, "a change has more keys than there are");
		if (!add_item(x, in, &n->keys[i]))
			return cant(x, NO_ROOM);
		if (take_back(x, &n->keys[i]))
			return -1;
	}
	if (--in->reads)
		return 0;
	*at = in->waiting;
	in->waiting = NULL;
	records_restore(&x->replica->records, &in->base);
	x->count++;
	return 0;
}

/* What is written anew. */
static int note_again(struct restoring *x, const struct durable_note *d, uint64_t number,
		      const struct note *n)
{
	struct note applied = { .version = n->version };
	char small[64], *bytes = number ? malloc(d->length) : small;
	size_t length = number ? d->length : note_bytes(&applied);

	if (!bytes)
		return cant(x, "there is no memory");
	if (number) {
		memcpy(bytes, d->bytes, d->length);
		note_number(bytes, n->reign, number);
	} else {
		note_write(&applied, bytes);
	}
	durable_renote(x->durable, &(struct durable_note){ d->stripe, bytes, length });
	if (number)
		free(bytes);
	return 0;
}

static int restore(void *arg, const struct durable_note *d)
{
	struct restoring *x = arg;
	struct records *rs = &x->replica->records;
	struct note n;
	bool is;

	if (read_note(x, d, &n))
		return -1;
	is = is_open(x, d, &n);
	records_restore_applied(rs, d->stripe, is ? n.before : n.version);
	/* Open until another one comes behind it: numbers of a reign are known in one life only. */
	if (n.number && note_again(x, d, is ? UINT64_MAX : 0, &n))
		return -1;
	return is ? open_stripe(x, &n) : 0;
}

int replica_restore(struct replica *r, struct err *err)
{
	struct restoring x = { .replica = r, .worker = r->workers[0],
			       .durable = r->options.store->durable, .err = err };
	int rc;

	if (!x.durable)
		return 0;
	x.open = calloc(r->records.stripes, sizeof *x.open);
	if (!x.open)
		return cant(&x, "there is no memory");
	rc = durable_notes(x.durable, look, &x, err);
	if (!rc)
		rc = durable_notes(x.durable, restore, &x, err);
	if (!rc)
		rc = durable_renoted(x.durable, err);
	free(x.open);
	if (!rc && x.count)
		log_info("%" PRIu64 " changes of the disk are open: the primary decides, or this member "
			 "sends them again as primary", x.count);
	return rc;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/store/apply.h"

#include <string.h>

#include "server/store/change/effect.h"
#include "server/store/change/remove.h"
#include "server/table/index.h"

void store_apply_seal(struct store_worker *w, struct layout_item *item, uint64_t version)
{
	item->checksum = item_checksum(w->store, item, version);
	state_store(item, layout_state(version, LAYOUT_DEAD, 0));
}

struct layout_item *store_apply_item(struct store_worker *w, const struct durable_record *d)
{
	struct layout_item *item = store_item_new(w, d->key, d->key_bytes, d->value_bytes, &d->with);

	if (!item)
		return NULL;
	memcpy(item->data + d->key_bytes, d->value, d->value_bytes);
	store_apply_seal(w, item, d->version);
	return item;
}

struct layout_item *store_apply_find(const struct store *s, struct hash hash, const void *key,
				     unsigned key_bytes)
{
	struct layout_item *item = NULL;
	struct index_entry entry;
	struct index_spot spot;

	index_lock(s->index, hash, &spot);
	if (index_find(s->index, &spot, key, key_bytes, &entry))
		item = item_at(s, entry.word);
	index_unlock(s->index, &spot);
	return item;
}

void store_apply_saw(struct store *s, uint64_t version)
{
	uint64_t last = atomic_load(&s->version);

	while (last < version && !atomic_compare_exchange_weak(&s->version, &last, version))
		;
}

int store_apply_put(struct store_worker *w, struct layout_item *item)
{
	struct store *s = w->store;
	unsigned key_bytes = layout_key_bytes(item->lengths);
	struct store_change c = { .hash = hash_key(s->table->hash_seed, item->data, key_bytes),
				  .key = item->data, .key_bytes = key_bytes,
				  .value_bytes = layout_value_bytes(item->lengths),
				  .item = item, .with = item_attributes(item), .is_decided = true };
	uint64_t version = layout_state_version(item->state);
	struct store_result r;
	struct work k;
	int status;

	if (!work_enter(w, &c, &k))
		return STORE_ASIDE;
	status = !k.old && !index_has_place(s->index, &k.spot) ? WIRE_ECROWDED
							       : work_put(w, &c, NULL, &k, &r);
	if (status != WIRE_OK)
		work_leave_unchanged(w, &k);
	else
		store_apply_saw(s, version);
	return status;
}

int store_apply_remove(struct store_worker *w, const void *key, unsigned key_bytes)
{
	struct store_change c = { .hash = hash_key(w->store->table->hash_seed, key, key_bytes),
				  .key = key, .key_bytes = key_bytes, .is_decided = true };

	return store_drop(w, &c);
}

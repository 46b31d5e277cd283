/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/store/change/remove.h"

#include "server/store/change/commit.h"
#include "server/store/change/effect.h"
#include "server/store/item/item.h"

int store_drop(struct store_worker *w, const struct store_change *c)
{
	struct work k;

	if (!work_enter(w, c, &k))
		return STORE_ASIDE;
	if (!k.old) {
		work_leave_unchanged(w, &k);
		return WIRE_NOT_FOUND;
	}
	work_remove(w, &k);
	return WIRE_OK;
}

/* Nobody waits for the lock that keeps it. */
static int unblocked(struct store_worker *w, uint64_t blocked, int status)
{
	if (status == STORE_ASIDE)
		w->blocked = blocked;
	return status;
}

int store_discard(struct store_worker *w, const struct store_change *c)
{
	uint64_t blocked = w->blocked;

	return unblocked(w, blocked, store_drop(w, c));
}

/* A key that went at this member alone would be back at the next primary (cluster.md, 3). */
static int evict_of_all(struct store_worker *w, const struct store_change *c)
{
	struct work k;

	if (!work_enter(w, c, &k))
		return STORE_ASIDE;
	if (k.old)
		return commit_evict(w, &k);
	work_leave_unchanged(w, &k);
	return WIRE_NOT_FOUND;
}

int store_evict(struct store_worker *w, const struct store_change *c)
{
	uint64_t blocked = w->blocked;

	return w->others ? unblocked(w, blocked, evict_of_all(w, c)) : store_discard(w, c);
}

int store_remove(struct store_worker *w, const struct store_change *c, struct store_result *r)
{
	struct store *s = w->store;
	struct work k;

	if (!work_enter(w, c, &k))
		return STORE_ASIDE;
	const struct layout_item *old = work_unexpired(s, &k);
	*r = (struct store_result){ .bucket = ~0ull };
	if (old)
		work_tell(s, &k, r);
	if (!old || !change_holds(c, old)) {
		work_leave_unchanged(w, &k);
		return old ? WIRE_CONDITION : WIRE_NOT_FOUND;
	}
	if (s->waits)
		return commit_remove(w, &k, r);
	work_remove(w, &k);
	return WIRE_OK;
}

/* Nobody waits for it to be on disk. */
static int forget(struct store_worker *w, const struct store_change *c, struct work *k)
{
	if (w->store->durable && !durable_forget(w->store->durable, c->key, c->key_bytes)) {
		work_leave_unchanged(w, k);
		return STORE_ASIDE;
	}
	work_remove(w, k);
	return WIRE_OK;
}

int store_expire(struct store_worker *w, const struct store_change *c)
{
	struct work k;

	if (!work_enter(w, c, &k))
		return STORE_ASIDE;
	if (k.old && item_is_expired(w->store, k.old))
		return forget(w, c, &k);
	work_leave_unchanged(w, &k);
	return WIRE_NOT_FOUND;
}

int store_clear(struct store_worker *w, const struct store_change *c, uint64_t version)
{
	struct work k;

	if (!work_enter(w, c, &k))
		return STORE_ASIDE;
	if (k.old && layout_state_version(k.old->state) <= version)
		return forget(w, c, &k);
	work_leave_unchanged(w, &k);
	return WIRE_NOT_FOUND;
}

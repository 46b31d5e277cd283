/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/table/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "common/opt.h"

#define SEGMENT_BYTES_MIN (64ull << 10)
#define STRIPES_MIN (1ull << 10)
#define STRIPES_MAX (1ull << 20)

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* The largest power of two that is not above n. */
static uint64_t pow2_floor(uint64_t n)
{
	return 1ull << (63 - __builtin_clzll(n));
}

/* A lock stripe for every page, within limits (doc/design.md, Memory). */
static uint64_t stripes_for(uint64_t bytes)
{
	uint64_t n = pow2_floor(bytes / 4096);
	return n < STRIPES_MIN ? STRIPES_MIN : n > STRIPES_MAX ? STRIPES_MAX : n;
}

static void lay_out(struct table *t, uint64_t bytes, unsigned workers)
{
	t->bytes = bytes / REGION_PAGE_BYTES * REGION_PAGE_BYTES;
	t->unit_mask = layout_unit_mask(t->bytes);
	t->workers = workers;
	t->stripes = stripes_for(bytes);
	t->locks_bytes = round_up(t->stripes * sizeof(uint64_t), REGION_PAGE_BYTES);
	t->segment_bytes = pow2_floor(bytes >> 18);
	if (t->segment_bytes < SEGMENT_BYTES_MIN)
		t->segment_bytes = SEGMENT_BYTES_MIN;
	/* The index never takes more than a quarter of the table. */
	t->dir_entries = t->bytes / 4 / t->segment_bytes;
	t->marks_offset = REGION_PAGE_BYTES;
	t->scratch_offset = round_up(t->marks_offset + t->stripes * sizeof(uint32_t),
				     REGION_PAGE_BYTES);
	t->dir_offset = t->scratch_offset + workers * sizeof(struct layout_scratch);
	t->heap_offset = round_up(t->dir_offset + t->dir_entries * sizeof(uint64_t),
				  REGION_PAGE_BYTES);
}

static void point_into(struct table *t)
{
	t->header = (struct layout_header *)t->base;
	t->marks = (_Atomic uint32_t *)(t->base + t->marks_offset);
	t->scratch = (struct layout_scratch *)(t->base + t->scratch_offset);
	t->dir = (_Atomic uint64_t *)(t->base + t->dir_offset);
	t->header->magic = LAYOUT_MAGIC;
	t->header->table_bytes = t->bytes;
}

int table_new(const struct verbs *v, uint64_t bytes, unsigned workers, struct table **table,
	      struct err *err)
{
	char size[32];
	void *locks;
	int rc;
	struct table *t = calloc(1, sizeof *t);

	if (!t)
		return err_set(err, -1, "out of memory");
	t->verbs = v;
	if (getrandom(&t->hash_seed, sizeof t->hash_seed, 0) != sizeof t->hash_seed) {
		err_set_errno(err, -1, errno, "no random number for the keys' hash");
		goto fail;
	}
	lay_out(t, bytes, workers);
	rc = v->mem_alloc(t->bytes, VERBS_MEM_READ, (void **)&t->base);
	if (rc) {
		err_set_errno(err, -1, rc, "can't reserve %s for the table",
			      opt_format_size(t->bytes, size, sizeof size));
		goto fail;
	}
	rc = v->mem_alloc(t->locks_bytes, VERBS_MEM_ATOMIC, &locks);
	if (rc) {
		err_set_errno(err, -1, rc, "can't reserve memory for the locks");
		goto fail_base;
	}
	t->locks = locks;
	point_into(t);
	rc = region_new(t->base + t->heap_offset, t->bytes - t->heap_offset, &t->region);
	if (rc) {
		err_set_errno(err, -1, rc, "can't manage the table's memory");
		goto fail_locks;
	}
	rc = slabs_new(t->region, layout_unit_bytes(t->unit_mask), &t->slabs);
	if (rc) {
		err_set_errno(err, -1, rc, "can't manage the items' memory");
		goto fail_region;
	}
	*table = t;
	return 0;

fail_region:
	region_delete(&t->region);
fail_locks:
	v->mem_free(locks, t->locks_bytes);
fail_base:
	v->mem_free(t->base, t->bytes);
fail:
	free(t);
	return -1;
}

void table_keys_delete(struct table *t, struct table_keys *keys)
{
	if (keys->locks_mr)
		t->verbs->dereg_mr(keys->locks_mr);
	for (unsigned i = 0; i < RAILS_MAX; i++)
		if (keys->mr[i])
			t->verbs->dereg_mr(keys->mr[i]);
}

static void unregister(struct table *t)
{
	struct table_keys keys = { .locks_mr = t->locks_mr };

	memcpy(keys.mr, t->mr, sizeof keys.mr);
	table_keys_delete(t, &keys);
	if (t->own_locks_mr)
		t->verbs->dereg_mr(t->own_locks_mr);
	memset(t->mr, 0, sizeof t->mr);
	t->own_locks_mr = t->locks_mr = NULL;
}

void table_delete(struct table **table)
{
	struct table *t = *table;

	if (!t)
		return;
	unregister(t);
	slabs_delete(&t->slabs);
	region_delete(&t->region);
	t->verbs->mem_free((void *)t->locks, t->locks_bytes);
	t->verbs->mem_free(t->base, t->bytes);
	free(t);
	*table = NULL;
}

/* A bare ENOMEM tells nobody that it was the locked-memory limit. */
static int explain_reg(struct err *err, int errno_value, const char *what, uint64_t bytes)
{
	struct rlimit lim;
	char need[32], have[32];

	opt_format_size(bytes, need, sizeof need);
	if ((errno_value == ENOMEM || errno_value == EAGAIN) &&
	    !getrlimit(RLIMIT_MEMLOCK, &lim) && lim.rlim_cur < bytes)
		return err_set(err, -1,
			       "can't register %s of memory for the %s: the locked-memory limit is %s; "
			       "raise it ('ulimit -l', LimitMEMLOCK= in the unit, --ulimit memlock in a "
			       "container) or lower --memory", need, what,
			       opt_format_size(lim.rlim_cur, have, sizeof have));
	return err_set_errno(err, -1, errno_value, "can't register %s of memory for the %s", need,
			     what);
}

#define LOCKS_ACCESS                                                                        \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

int table_keys_new(struct table *t, unsigned lost, struct table_keys *keys, struct err *err)
{
	*keys = (struct table_keys){ .locks_mr = NULL };
	for (unsigned i = 0; i < t->pd_count; i++) {
		if (lost >> i & 1)
			continue;
		keys->mr[i] = t->verbs->reg_mr(t->pd[i], t->base, t->bytes,
					       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
		if (!keys->mr[i]) {
			explain_reg(err, errno, "table", t->bytes);
			goto fail;
		}
	}
	keys->locks_mr = t->verbs->reg_mr(t->pd[0], (void *)t->locks, t->locks_bytes, LOCKS_ACCESS);
	if (keys->locks_mr)
		return 0;
	explain_reg(err, errno, "locks", t->locks_bytes);
fail:
	table_keys_delete(t, keys);
	return -1;
}

void table_keys_swap(struct table *t, const struct table_keys *keys, struct table_keys *old)
{
	*old = (struct table_keys){ .locks_mr = t->locks_mr };
	t->locks_mr = keys->locks_mr;
	for (unsigned i = 0; i < t->pd_count; i++) {
		if (!keys->mr[i])
			continue;
		old->mr[i] = t->mr[i];
		t->mr[i] = keys->mr[i];
		atomic_store(&t->lkey[i], t->mr[i]->lkey);
	}
}

int table_register(struct table *t, struct ibv_pd *const *pd, unsigned pd_count, struct err *err)
{
	struct table_keys keys, none;

	memcpy(t->pd, pd, pd_count * sizeof pd[0]);
	t->pd_count = pd_count;
	if (table_keys_new(t, 0, &keys, err))
		return -1;
	table_keys_swap(t, &keys, &none);
	t->own_locks_mr = t->verbs->reg_mr(t->pd[0], (void *)t->locks, t->locks_bytes, LOCKS_ACCESS);
	if (!t->own_locks_mr) {
		explain_reg(err, errno, "locks", t->locks_bytes);
		unregister(t);
		return -1;
	}
	return 0;
}

uint64_t table_used_bytes(const struct table *t)
{
	return t->heap_offset + t->locks_bytes + region_used_bytes(t->region);
}

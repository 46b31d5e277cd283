/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/worker/fate.h"

#include <pthread.h>
#include <stdlib.h>

struct fate_ring {
	uint64_t secret;
	uint32_t size;
	uint64_t used; /* ever: as many as no connection makes */
	struct fate fate[];
};

struct fates {
	pthread_mutex_t lock;
	unsigned next;
	struct {
		uint64_t connection_id;
		struct fate_ring *ring;
	} slot[FATES_MAX];
};

struct fate_ring *fate_ring_new(uint64_t secret, uint32_t credits)
{
	/* A reply may be lost while its successor is answered: keep twice as many. */
	uint32_t size = 2 * credits;
	struct fate_ring *r = calloc(1, sizeof *r + size * sizeof r->fate[0]);

	if (r) {
		r->secret = secret;
		r->size = size;
	}
	return r;
}

void fate_ring_delete(struct fate_ring **ring)
{
	free(*ring);
	*ring = NULL;
}

void fate_note(struct fate_ring *r, uint32_t request_id, enum wire_status status,
	       uint64_t version, uint64_t value_bytes)
{
	r->fate[r->used++ % r->size] = (struct fate){ request_id, status, version, value_bytes };
}

uint64_t fate_secret(const struct fate_ring *r)
{
	return r->secret;
}

uint32_t fate_kept(const struct fate_ring *r)
{
	return r->size;
}

bool fate_is_secret(const struct fate_ring *r, uint64_t secret)
{
	return r->secret == secret;
}

struct fates *fates_new(void)
{
	struct fates *f = calloc(1, sizeof *f);

	if (f)
		pthread_mutex_init(&f->lock, NULL);
	return f;
}

void fates_delete(struct fates **fates)
{
	struct fates *f = *fates;

	if (!f)
		return;
	for (unsigned i = 0; i < FATES_MAX; i++)
		fate_ring_delete(&f->slot[i].ring);
	pthread_mutex_destroy(&f->lock);
	free(f);
	*fates = NULL;
}

void fates_keep(struct fates *f, uint64_t connection_id, struct fate_ring *ring)
{
	pthread_mutex_lock(&f->lock);
	unsigned i = f->next++ % FATES_MAX;
	fate_ring_delete(&f->slot[i].ring);
	f->slot[i].connection_id = connection_id;
	f->slot[i].ring = ring;
	pthread_mutex_unlock(&f->lock);
}

static enum wire_status look_up(const struct fate_ring *r, uint32_t request_id,
				struct fate *fate)
{
	uint32_t n = r->used < r->size ? (uint32_t)r->used : r->size;

	for (uint32_t i = 0; i < n; i++) {
		if (r->fate[i].request_id != request_id)
			continue;
		*fate = r->fate[i];
		return WIRE_OK;
	}
	return WIRE_NOT_FOUND;
}

enum wire_status fates_find(struct fates *f, uint64_t connection_id, uint64_t secret,
			    uint32_t request_id, struct fate *fate)
{
	enum wire_status found = WIRE_EUNSUPPORTED;

	pthread_mutex_lock(&f->lock);
	for (unsigned i = 0; i < FATES_MAX; i++) {
		const struct fate_ring *r = f->slot[i].ring;
		if (r && f->slot[i].connection_id == connection_id && r->secret == secret) {
			found = look_up(r, request_id, fate);
			break;
		}
	}
	pthread_mutex_unlock(&f->lock);
	return found;
}

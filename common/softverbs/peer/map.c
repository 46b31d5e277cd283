/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * map.c -- mappings of a peer's memory.
 *
 * One for each memory object and right: asked for when it is first needed (the peer
 * also sends what may be needed before), used by the data path through the hints of
 * its queue pair, and ended when the peer says that nothing in it is registered any
 * more, or with the link.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "common/softverbs/peer/map.h"

#define ASK_AGAIN_NS 500000000u

struct sv_map {
	struct sv_map *next;
	uint32_t mem;
	bool write;
	bool pending; /* asked for, at asked_ns */
	uint8_t *base; /* NULL: can't be had, use the slow path */
	uint64_t size_bytes;
	uint64_t asked_ns;
};

void sv_maps_free(struct sv_map *list)
{
	while (list) {
		struct sv_map *map = list;

		list = map->next;
		if (map->base)
			munmap(map->base, map->size_bytes);
		free(map);
	}
}

/* One that may be used so; maps->lock held. */
static struct sv_map *find_map(struct sv_maps *maps, uint32_t mem, bool write)
{
	struct sv_map *map = maps->list;

	while (map && (map->mem != mem || map->write < write || map->pending))
		map = map->next;
	return map;
}

/* That for this very right, pending or not; maps->lock held. */
static struct sv_map *find_or_add_map(struct sv_maps *maps, uint32_t mem, bool write)
{
	struct sv_map *map = maps->list;

	while (map && (map->mem != mem || map->write != write))
		map = map->next;
	if (map)
		return map;
	map = calloc(1, sizeof(*map));
	if (!map)
		return NULL;
	map->mem = mem;
	map->write = write;
	map->pending = true;
	map->next = maps->list;
	maps->list = map;
	return map;
}

/* True if it is time to ask (again); maps->lock held. */
static bool must_ask(struct sv_maps *maps, uint32_t mem, bool write)
{
	struct sv_map *map = find_or_add_map(maps, mem, write);
	uint64_t now = sv_now_ns();

	if (!map || (map->asked_ns && now - map->asked_ns < ASK_AGAIN_NS))
		return false;
	map->asked_ns = now;
	return true;
}

int sv_maps_find(struct sv_maps *maps, int fd, const struct sv_msg *ask, uint32_t mem, bool write,
		 struct sv_map_hint *hint)
{
	struct sv_msg msg = *ask;
	struct sv_map *map;
	bool now = false;
	int ret = EAGAIN;

	sv_spin_lock(&maps->lock);
	map = find_map(maps, mem, write);
	if (map && map->base) {
		*hint = (struct sv_map_hint){ mem, map->write, map->base, map->size_bytes };
		ret = 0;
	} else if (map) {
		ret = ENOTSUP;
	} else {
		now = must_ask(maps, mem, write);
	}
	sv_spin_unlock(&maps->lock);
	if (!now)
		return ret;
	msg.type = SV_MSG_MAP;
	msg.mem = mem;
	msg.write = write;
	sv_msg_send(fd, &msg, NULL, 0);
	return EAGAIN;
}

/* ---- answers; control thread ---- */

/* A refusal that lasts is remembered; another shows at the next try. */
void sv_maps_answered(struct sv_maps *maps, const struct sv_msg *msg, int fd)
{
	struct sv_map *map;
	uint8_t *base = NULL;

	if (!msg->status && fd >= 0)
		base = sv_map_received(fd, msg->bytes64, msg->write);
	sv_spin_lock(&maps->lock);
	map = find_or_add_map(maps, msg->mem, msg->write);
	if (map && map->pending && msg->status && msg->status != ENOTSUP) {
		map->asked_ns = 0;
	} else if (map && map->pending) {
		map->pending = false;
		map->base = base;
		map->size_bytes = msg->bytes64;
		base = NULL;
	}
	sv_spin_unlock(&maps->lock);
	if (base) /* it was there already */
		munmap(base, msg->bytes64);
}

struct sv_map *sv_maps_take_out(struct sv_maps *maps, uint32_t mem)
{
	struct sv_map *gone = NULL, **at;

	sv_spin_lock(&maps->lock);
	for (at = &maps->list; *at;) {
		struct sv_map *map = *at;

		if (map->mem == mem) {
			*at = map->next;
			map->next = gone;
			gone = map;
		} else {
			at = &map->next;
		}
	}
	sv_spin_unlock(&maps->lock);
	return gone;
}

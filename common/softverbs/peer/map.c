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
#include "common/softverbs/peer/peer.h"
#include "common/softverbs/sv.h"

#define ASK_AGAIN_NS 500000000u

void sv_peer_free_maps(struct sv_peer_map *list)
{
	while (list) {
		struct sv_peer_map *map = list;

		list = map->next;
		if (map->base)
			munmap(map->base, map->size_bytes);
		free(map);
	}
}

/* One that may be used so; peer->lock held. */
static struct sv_peer_map *find_map(struct sv_peer *peer, uint32_t mem, bool write)
{
	struct sv_peer_map *map = peer->maps;

	while (map && (map->mem != mem || map->write < write || map->pending))
		map = map->next;
	return map;
}

/* That for this very right, pending or not; peer->lock held. */
static struct sv_peer_map *find_or_add_map(struct sv_peer *peer, uint32_t mem, bool write)
{
	struct sv_peer_map *map = peer->maps;

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
	map->next = peer->maps;
	peer->maps = map;
	return map;
}

/* True if it is time to ask (again); peer->lock held. */
static bool must_ask(struct sv_peer *peer, uint32_t mem, bool write)
{
	struct sv_peer_map *map = find_or_add_map(peer, mem, write);
	uint64_t now = sv_now_ns();

	if (!map || (map->asked_ns && now - map->asked_ns < ASK_AGAIN_NS))
		return false;
	map->asked_ns = now;
	return true;
}

int sv_peer_map(struct sv_peer *peer, const struct sv_msg *ask, uint32_t mem, bool write,
		struct sv_map_hint *hint)
{
	struct sv_msg msg = *ask;
	struct sv_peer_map *map;
	bool now = false;
	int ret = EAGAIN;

	sv_spin_lock(&peer->lock);
	map = find_map(peer, mem, write);
	if (map && map->base) {
		*hint = (struct sv_map_hint){ mem, map->write, map->base, map->size_bytes };
		ret = 0;
	} else if (map) {
		ret = ENOTSUP;
	} else {
		now = must_ask(peer, mem, write);
	}
	sv_spin_unlock(&peer->lock);
	if (!now)
		return ret;
	msg.type = SV_MSG_MAP;
	msg.mem = mem;
	msg.write = write;
	sv_peer_ask(peer, &msg);
	return EAGAIN;
}

/* ---- answers; control thread ---- */

/* A refusal that lasts is remembered; another shows at the next try. */
void sv_peer_on_map(struct sv_peer *peer, const struct sv_msg *msg, int fd)
{
	struct sv_peer_map *map;
	uint8_t *base = NULL;

	if (!msg->status && fd >= 0)
		base = sv_map_received(fd, msg->bytes64, msg->write);
	sv_spin_lock(&peer->lock);
	map = find_or_add_map(peer, msg->mem, msg->write);
	if (map && map->pending && msg->status && msg->status != ENOTSUP) {
		map->asked_ns = 0;
	} else if (map && map->pending) {
		map->pending = false;
		map->base = base;
		map->size_bytes = msg->bytes64;
		base = NULL;
	}
	sv_spin_unlock(&peer->lock);
	if (base) /* it was there already */
		munmap(base, msg->bytes64);
	sv_progress_blocked(NULL, peer);
}

/* No QP may use its mapping any more; each is used under the QP's sq_lock only. */
static void forget_hints(struct sv_peer *peer, uint32_t mem)
{
	for (uint32_t i = 1; i < SV_QPS; i++) {
		struct sv_qp *qp = sv_qp_get(i);

		if (!qp)
			continue;
		sv_spin_lock(&qp->sq_lock);
		for (int h = 0; qp->peer == peer && h < SV_MAP_HINTS; h++) {
			if (qp->hint[h].mem == mem)
				qp->hint[h] = (struct sv_map_hint){ 0 };
		}
		sv_spin_unlock(&qp->sq_lock);
		sv_qp_put(qp);
	}
}

void sv_peer_on_gone(struct sv_peer *peer, uint32_t mem)
{
	struct sv_peer_map *gone = NULL, **at;

	sv_spin_lock(&peer->lock);
	for (at = &peer->maps; *at;) {
		struct sv_peer_map *map = *at;

		if (map->mem == mem) {
			*at = map->next;
			map->next = gone;
			gone = map;
		} else {
			at = &map->next;
		}
	}
	sv_spin_unlock(&peer->lock);
	forget_hints(peer, mem);
	sv_peer_free_maps(gone);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* map.h -- mappings of a peer's memory. */
#ifndef COMMON_SOFTVERBS_PEER_MAP_H
#define COMMON_SOFTVERBS_PEER_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include "common/softverbs/base/lock.h"
#include "common/softverbs/peer/msg.h"

/* A mapping as a queue pair remembers it. */
struct sv_map_hint {
	uint32_t mem;
	bool write;
	uint8_t *base;
	uint64_t size_bytes;
};

struct sv_map;

/* All of one peer; zeroed at first. */
struct sv_maps {
	struct sv_spin lock;
	struct sv_map *list;
};

/* Finds a mapping; asks for it over the link's socket fd if there is none.  ask: the
 * request that needs it.  0; EAGAIN: asked for; ENOTSUP: can't be mapped. */
int sv_maps_find(struct sv_maps *maps, int fd, const struct sv_msg *ask, uint32_t mem, bool write,
		 struct sv_map_hint *hint);
/* The peer's answer: a refusal, or a descriptor, the caller's to close. */
void sv_maps_answered(struct sv_maps *maps, const struct sv_msg *msg, int fd);
/* Nothing in mem is registered any more: its mappings, which end with sv_maps_free() when
 * no queue pair has a hint of them. */
struct sv_map *sv_maps_take_out(struct sv_maps *maps, uint32_t mem);
void sv_maps_free(struct sv_map *list);

#endif

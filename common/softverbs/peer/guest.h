/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guest.h -- processes that have a link to this one, and the memory that they were given.
 *
 * A guest lives from sv_guest_add() to sv_guest_drop(), both on the control thread.
 */
#ifndef COMMON_SOFTVERBS_PEER_GUEST_H
#define COMMON_SOFTVERBS_PEER_GUEST_H

#include <stdbool.h>
#include <stdint.h>
#include "common/softverbs/base/ctl.h"

struct sv_guest {
	struct sv_watch watch;
	uint32_t slot;
	uint64_t incarnation;
	bool greeted;
	bool over;
	uint8_t *stage;
	struct sv_given {
		uint32_t mem;
		bool write;
	} *given; /* descriptors of memory; sv_proc.lock */
	uint32_t ngiven;
	struct sv_guest *next;
};

/* A region in memory that peers can map, and its rights. */
struct sv_offer {
	uint32_t mem;
	uint32_t pd;
	uint32_t access;
	struct sv_offer *next; /* sv_proc.offers */
};

/* A guest for a connection, which is watched, or closed: no memory, another user. */
void sv_guest_add(int fd, void (*ready)(struct sv_watch *watch, uint32_t events));
void sv_guest_drop(struct sv_guest *guest);
/* It has said who it is: it gets all that its queue pairs may access. */
void sv_guest_greet(struct sv_guest *guest, uint32_t slot, uint64_t incarnation);
/* Whether this is the only link that its process has to this one; control thread. */
bool sv_guest_is_last(const struct sv_guest *guest);
/* It is about to be given mem. */
void sv_guest_remember(struct sv_guest *guest, uint32_t mem, bool write);

/* Any thread: hands the memory of all regions that a QP's peer may now access to it, before
 * it asks: it can then use them while this process is stopped. */
void sv_guest_push(uint32_t qp_index);
/* Any thread: a region that peers may map, which is pushed to them; until withdrawn. */
void sv_guest_offer(struct sv_offer *offer);
void sv_guest_withdraw(struct sv_offer *offer);
/* Tells all guests that were given mem to drop it. */
void sv_guest_mem_gone(uint32_t mem);

#endif

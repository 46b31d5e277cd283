/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guest.c -- processes that have a link to this one, and the memory that they were given.
 *
 * A guest gets the memory of every region that the queue pairs which are connected to it
 * let it access, before it asks: with the link, when a region is registered, and when a
 * queue pair gets more rights.  What it asks for itself: exec/serve.c.  It is told when
 * nothing in such memory is registered any more.
 */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <infiniband/verbs.h>
#include "common/softverbs/base/compiler.h"
#include "common/softverbs/base/fd.h"
#include "common/softverbs/base/mem.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/peer/guest.h"
#include "common/softverbs/peer/msg.h"

#define GUEST_GIVEN_MAX 4096
#define PUSHES_MAX 64 /* at a time: they must fit into the socket */
#define REMOTE_CHANGES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define REMOTE_ACCESS (REMOTE_CHANGES | IBV_ACCESS_REMOTE_READ)

static void release_guest(struct sv_watch *watch)
{
	struct sv_guest *guest = SV_CONTAINER(watch, struct sv_guest, watch);

	if (guest->stage)
		munmap(guest->stage, SV_STAGES * SV_STAGE_BYTES);
	free(guest->given);
	free(guest);
}

void sv_guest_drop(struct sv_guest *guest)
{
	struct sv_guest **at;

	pthread_mutex_lock(&sv_proc->lock);
	guest->over = true;
	for (at = &sv_proc->guests; *at != guest; at = &(*at)->next)
		;
	*at = guest->next;
	pthread_mutex_unlock(&sv_proc->lock);
	sv_watch_retire(&guest->watch);
}

void sv_guest_add(int fd, void (*ready)(struct sv_watch *watch, uint32_t events))
{
	struct sv_guest *guest = sv_same_user(fd) ? calloc(1, sizeof(*guest)) : NULL;

	if (!guest) {
		sv_fd_close(fd);
		return;
	}
	guest->watch.fd = fd;
	guest->watch.ready = ready;
	guest->watch.release = release_guest;
	pthread_mutex_lock(&sv_proc->lock);
	guest->next = sv_proc->guests;
	sv_proc->guests = guest;
	pthread_mutex_unlock(&sv_proc->lock);
	if (sv_watch_add(&guest->watch, EPOLLIN))
		sv_guest_drop(guest);
}

/* ---- what they were given ---- */

static struct sv_given *find_given(struct sv_guest *guest, uint32_t mem, bool write)
{
	for (uint32_t i = 0; i < guest->ngiven; i++) {
		if (guest->given[i].mem == mem && guest->given[i].write >= write)
			return &guest->given[i];
	}
	return NULL;
}

/* sv_proc.lock held. */
static void remember_given(struct sv_guest *guest, uint32_t mem, bool write)
{
	struct sv_given *more;

	if (find_given(guest, mem, write) || guest->ngiven == GUEST_GIVEN_MAX)
		return; /* when too many, it keeps its mapping until it goes */
	more = realloc(guest->given, (guest->ngiven + 1) * sizeof(*more));
	if (!more)
		return;
	guest->given = more;
	more[guest->ngiven++] = (struct sv_given){ mem, write };
}

void sv_guest_remember(struct sv_guest *guest, uint32_t mem, bool write)
{
	pthread_mutex_lock(&sv_proc->lock);
	remember_given(guest, mem, write);
	pthread_mutex_unlock(&sv_proc->lock);
}

static bool forget_given(struct sv_guest *guest, uint32_t mem)
{
	struct sv_given *given;
	bool found = false;

	while ((given = find_given(guest, mem, false))) {
		*given = guest->given[--guest->ngiven];
		found = true;
	}
	return found;
}

void sv_guest_mem_gone(uint32_t mem)
{
	struct sv_msg msg = { .type = SV_MSG_GONE, .mem = mem };

	pthread_mutex_lock(&sv_proc->lock);
	for (struct sv_guest *guest = sv_proc->guests; guest; guest = guest->next) {
		if (forget_given(guest, mem))
			sv_msg_send(guest->watch.fd, &msg, NULL, 0);
	}
	pthread_mutex_unlock(&sv_proc->lock);
}

/* ---- memory handed over before it is asked for ---- */

/* sv_proc.lock held.  What does not fit now is asked for when it is used. */
static void push_mem(struct sv_guest *guest, const struct sv_offer *offer, bool write)
{
	struct sv_msg msg = { .type = SV_MSG_MAP_OK, .mem = offer->mem, .write = write };
	int fd;

	if (find_given(guest, offer->mem, write))
		return;
	fd = sv_mem_export(offer->mem, write, &msg.bytes64);
	if (fd < 0)
		return;
	if (!sv_msg_send(guest->watch.fd, &msg, &fd, 1))
		remember_given(guest, offer->mem, write);
	sv_fd_close(fd);
}

/* sv_proc.lock held. */
static void push_qp(struct sv_guest *guest, const struct sv_ro_qp *ro, uint32_t pd,
		    uint32_t most)
{
	const struct sv_offer *offer = sv_proc->offers;
	uint32_t dest_qpn = atomic_load(&ro->dest_qpn);
	uint32_t qp_pd = atomic_load(&ro->pd);

	if (!dest_qpn || sv_qpn_slot(dest_qpn) != guest->slot || (pd && pd != qp_pd))
		return;
	for (; offer && guest->ngiven < most; offer = offer->next) {
		uint32_t rights = offer->access & atomic_load(&ro->access);

		if (offer->pd == qp_pd && rights & REMOTE_ACCESS)
			push_mem(guest, offer, rights & REMOTE_CHANGES);
	}
}

/* sv_proc.lock held. */
static void push_guest(struct sv_guest *guest, uint32_t qp_index, uint32_t pd)
{
	uint32_t most = guest->ngiven + PUSHES_MAX;

	if (!guest->greeted)
		return;
	if (qp_index) {
		push_qp(guest, &sv_proc->ro->qp[qp_index], pd, most);
		return;
	}
	for (uint32_t i = 0; i < SV_QPS / 64; i++) {
		uint64_t bits = sv_proc->seats[i];

		for (; bits; bits &= bits - 1)
			push_qp(guest, &sv_proc->ro->qp[i * 64 + (uint32_t)__builtin_ctzll(bits)],
				pd, most);
	}
}

/* qp_index 0: all queue pairs; pd 0: all domains. */
static void push(uint32_t qp_index, uint32_t pd)
{
	pthread_mutex_lock(&sv_proc->lock);
	for (struct sv_guest *guest = sv_proc->guests; guest; guest = guest->next)
		push_guest(guest, qp_index, pd);
	pthread_mutex_unlock(&sv_proc->lock);
}

void sv_guest_push(uint32_t qp_index)
{
	push(qp_index, 0);
}

void sv_guest_offer(struct sv_offer *offer)
{
	pthread_mutex_lock(&sv_proc->lock);
	offer->next = sv_proc->offers;
	sv_proc->offers = offer;
	pthread_mutex_unlock(&sv_proc->lock);
	if (offer->access & REMOTE_ACCESS)
		push(0, offer->pd);
}

void sv_guest_withdraw(struct sv_offer *offer)
{
	struct sv_offer **at;

	pthread_mutex_lock(&sv_proc->lock);
	for (at = &sv_proc->offers; *at != offer; at = &(*at)->next)
		;
	*at = offer->next;
	pthread_mutex_unlock(&sv_proc->lock);
}

void sv_guest_greet(struct sv_guest *guest, uint32_t slot, uint64_t incarnation)
{
	pthread_mutex_lock(&sv_proc->lock);
	guest->greeted = true;
	guest->slot = slot;
	guest->incarnation = incarnation;
	push_guest(guest, 0, 0);
	pthread_mutex_unlock(&sv_proc->lock);
}

bool sv_guest_is_last(const struct sv_guest *guest)
{
	bool last = true;

	pthread_mutex_lock(&sv_proc->lock);
	for (struct sv_guest *other = sv_proc->guests; other && last; other = other->next)
		last = other == guest || !other->greeted || other->incarnation != guest->incarnation;
	pthread_mutex_unlock(&sv_proc->lock);
	return last;
}

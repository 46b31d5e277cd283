/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peer.c -- this process's links to others.
 *
 * Happy path: the first queue pair that is connected to a process makes the link:
 * connect to the process's address, greet, and on the answer map its tables
 * (control thread).  Data paths look at the state and wait for SV_PEER_UP.
 * Regions (map.c), channels and staging memory are asked for when first needed,
 * and the answers remembered until the link ends.
 *
 * Failure: nobody at the address, an answer that can't be right, or the end of
 * the connection, which is how the kernel tells of a process's death: the link is
 * SV_PEER_GONE for good; a later queue pair makes a new one.
 *
 * Teardown: when the last queue pair has left, the link is retired.  A link that
 * a process has to itself is the same, without a socket.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "common/softverbs/base/bell.h"
#include "common/softverbs/base/compiler.h"
#include "common/softverbs/base/fd.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/peer/peer.h"

#define ASKS_PER_WAKE 64

static const struct sv_peer_hooks *hooks;

void sv_peer_on_event(const struct sv_peer_hooks *to)
{
	hooks = to;
}

/* ---- making and ending ---- */

static void set_state(struct sv_peer *peer, uint32_t state)
{
	/* release: partner sv_peer_up(). */
	atomic_store_explicit(&peer->state, state, memory_order_release);
}

static void release_peer(struct sv_watch *watch)
{
	struct sv_peer *peer = SV_CONTAINER(watch, struct sv_peer, watch);

	sv_maps_free(peer->maps.list);
	while (peer->chans) {
		struct sv_peer_chan *chan = peer->chans;

		peer->chans = chan->next;
		sv_fd_close(chan->fd);
		free(chan);
	}
	if (peer->stage)
		munmap(peer->stage, SV_STAGES * SV_STAGE_BYTES);
	if (!peer->self) {
		if (peer->ro)
			munmap((void *)(uintptr_t)peer->ro, SV_RO_BYTES);
		if (peer->rw)
			munmap(peer->rw, SV_RW_BYTES);
		sv_fd_close(peer->rw_fd);
		sv_fd_close(peer->kick_fd);
	}
	free(peer);
}

static void on_peer(struct sv_watch *watch, uint32_t events);

static struct sv_peer *new_peer(uint32_t slot)
{
	struct sv_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	peer->slot = slot;
	peer->watch.fd = -1;
	peer->watch.ready = on_peer;
	peer->watch.release = release_peer;
	peer->rw_fd = peer->kick_fd = -1;
	peer->next = sv_proc->peers;
	sv_proc->peers = peer;
	if (slot == sv_proc->slot) {
		peer->self = true;
		peer->ro = sv_proc->ro;
		peer->rw = sv_proc->rw;
		peer->rw_fd = sv_proc->rw_fd;
		peer->kick_fd = sv_proc->kick_fd;
		set_state(peer, SV_PEER_UP);
	}
	return peer;
}

/* Connects and greets.  peer->lock held, state is SV_PEER_NEW. */
static void connect_peer(struct sv_peer *peer)
{
	struct sv_msg hello = { .type = SV_MSG_HELLO, .abi = SV_ABI_VERSION,
				.slot = sv_proc->slot, .incarnation = sv_proc->incarnation };
	struct sockaddr_un sun;
	char name[16];
	int fd;

	fd = sv_fd_track(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return; /* out of descriptors: tried again */
	snprintf(name, sizeof(name), "%u", peer->slot);
	if (connect(fd, (struct sockaddr *)&sun, sv_address(&sun, "p", name))) {
		if (errno != EAGAIN) /* EAGAIN: its backlog is full */
			set_state(peer, SV_PEER_GONE);
		sv_fd_close(fd);
		return;
	}
	peer->watch.fd = fd;
	if (!sv_same_user(fd) || sv_msg_send(fd, &hello, NULL, 0)) {
		set_state(peer, SV_PEER_GONE);
		return;
	}
	set_state(peer, SV_PEER_ASKED);
	if (sv_watch_add(&peer->watch, EPOLLIN))
		set_state(peer, SV_PEER_GONE);
}

void sv_peer_poke(struct sv_peer *peer)
{
	sv_spin_lock(&peer->lock);
	if (atomic_load(&peer->state) == SV_PEER_NEW)
		connect_peer(peer);
	sv_spin_unlock(&peer->lock);
}

struct sv_peer *sv_peer_get(uint32_t slot)
{
	struct sv_peer *peer;

	pthread_mutex_lock(&sv_proc->lock);
	for (peer = sv_proc->peers; peer; peer = peer->next) {
		if (peer->slot == slot && atomic_load(&peer->state) != SV_PEER_GONE)
			break;
	}
	if (!peer)
		peer = new_peer(slot);
	if (peer)
		peer->refs++;
	pthread_mutex_unlock(&sv_proc->lock);
	if (peer)
		sv_peer_poke(peer);
	else
		errno = ENOMEM;
	return peer;
}

void sv_peer_put(struct sv_peer *peer)
{
	struct sv_peer **at;
	bool last;

	pthread_mutex_lock(&sv_proc->lock);
	last = !--peer->refs;
	if (last) {
		for (at = &sv_proc->peers; *at != peer; at = &(*at)->next)
			;
		*at = peer->next;
	}
	pthread_mutex_unlock(&sv_proc->lock);
	if (last)
		sv_watch_retire(&peer->watch);
}

static void peer_gone(struct sv_peer *peer)
{
	if (atomic_load(&peer->state) == SV_PEER_GONE)
		return;
	set_state(peer, SV_PEER_GONE);
	sv_watch_stop(&peer->watch);
	hooks->gone(peer);
}

/* ---- asking ---- */

int sv_peer_ask(struct sv_peer *peer, const struct sv_msg *msg)
{
	return sv_msg_send(peer->watch.fd, msg, NULL, 0);
}

void sv_peer_attention(struct sv_peer *peer, uint32_t index, uint32_t flags)
{
	atomic_fetch_or(&peer->rw->qp[index].attention, flags);
	sv_set_add(&peer->rw->attention, index);
	sv_bell_ring(peer->kick_fd);
}

struct sv_wire *sv_peer_wire(struct sv_peer *peer, uint32_t index)
{
	void *wire = mmap(NULL, SV_WIRE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, peer->rw_fd,
			  (off_t)(SV_RW_BYTES + (size_t)index * SV_WIRE_BYTES));

	return wire == MAP_FAILED ? NULL : wire;
}

/* peer->lock held. */
static struct sv_peer_chan *find_chan(struct sv_peer *peer, uint32_t id)
{
	struct sv_peer_chan *chan = peer->chans;

	while (chan && chan->id != id)
		chan = chan->next;
	return chan;
}

static void ask_chan(struct sv_peer *peer, uint32_t id)
{
	struct sv_msg msg = { .type = SV_MSG_CHAN, .mem = id };

	if (!peer->self)
		sv_peer_ask(peer, &msg);
}

void sv_peer_notify(struct sv_peer *peer, uint32_t qp_index, uint32_t cq_index)
{
	uint32_t id = atomic_load(&peer->ro->cq[cq_index].channel);
	struct sv_peer_chan *chan;
	bool rung = false, fresh = false;

	sv_spin_lock(&peer->lock);
	chan = find_chan(peer, id);
	if (chan && chan->fd >= 0) {
		sv_bell_ring(chan->fd);
		atomic_fetch_add(&peer->rw->cq[cq_index].rung, 1);
		rung = true;
	} else if (!chan) {
		chan = calloc(1, sizeof(*chan));
		if (chan) {
			*chan = (struct sv_peer_chan){ peer->chans, id, -1 };
			peer->chans = chan;
			fresh = true;
		}
	}
	sv_spin_unlock(&peer->lock);
	if (fresh)
		ask_chan(peer, id);
	if (!rung)
		sv_peer_attention(peer, qp_index, SV_ATTN_NOTIFY);
}

/* ---- staging ---- */

/* Makes the staging memory and hands it over; peer->lock held. */
static bool make_stage(struct sv_peer *peer)
{
	struct sv_msg msg = { .type = SV_MSG_STAGE };
	int fd = sv_memfd("softverbs-stage", SV_STAGES * SV_STAGE_BYTES);

	if (fd < 0)
		return false;
	peer->stage = sv_map_received(fd, SV_STAGES * SV_STAGE_BYTES, true);
	if (peer->stage && sv_msg_send(peer->watch.fd, &msg, &fd, 1)) {
		munmap(peer->stage, SV_STAGES * SV_STAGE_BYTES);
		peer->stage = NULL;
	}
	sv_fd_close(fd);
	if (peer->stage)
		peer->stage_free = (1u << SV_STAGES) - 1;
	return peer->stage;
}

int sv_peer_stage_get(struct sv_peer *peer, uint8_t **data)
{
	int stage = -1;

	sv_spin_lock(&peer->lock);
	if ((peer->stage || make_stage(peer)) && peer->stage_free) {
		stage = __builtin_ctz(peer->stage_free);
		peer->stage_free &= ~(1u << stage);
		*data = peer->stage + (size_t)stage * SV_STAGE_BYTES;
	}
	sv_spin_unlock(&peer->lock);
	return stage;
}

void sv_peer_stage_put(struct sv_peer *peer, uint32_t stage)
{
	sv_spin_lock(&peer->lock);
	peer->stage_free |= 1u << stage;
	sv_spin_unlock(&peer->lock);
}

/* ---- answers; control thread ---- */

static bool on_hello(struct sv_peer *peer, const struct sv_msg *msg, int *fds, int nfds)
{
	if (nfds != 3 || msg->abi != SV_ABI_VERSION || msg->slot != peer->slot ||
	    atomic_load(&peer->state) != SV_PEER_ASKED)
		return false;
	peer->ro = sv_map_received(fds[0], SV_RO_BYTES, false);
	peer->rw = sv_map_received(fds[1], SV_RW_FILE_BYTES, true);
	if (peer->rw) /* the wires are mapped one by one */
		munmap((char *)peer->rw + SV_RW_BYTES, SV_RW_FILE_BYTES - SV_RW_BYTES);
	if (!peer->ro || !peer->rw)
		return false;
	sv_fd_close(fds[0]);
	peer->rw_fd = fds[1];
	peer->kick_fd = fds[2];
	fds[0] = fds[1] = fds[2] = -1;
	set_state(peer, SV_PEER_UP);
	hooks->progress(peer);
	return true;
}

static void on_chan(struct sv_peer *peer, const struct sv_msg *msg, int *fds, int nfds)
{
	struct sv_peer_chan *chan;

	sv_spin_lock(&peer->lock);
	chan = find_chan(peer, msg->mem);
	if (chan && chan->fd < 0 && nfds == 1) {
		chan->fd = fds[0];
		fds[0] = -1;
	}
	sv_spin_unlock(&peer->lock);
}

static void on_access(struct sv_peer *peer, const struct sv_msg *msg)
{
	if (msg->stage >= SV_STAGES || msg->bytes > SV_STAGE_BYTES || !peer->stage)
		return;
	hooks->answered(msg, peer->stage + (size_t)msg->stage * SV_STAGE_BYTES);
	sv_peer_stage_put(peer, msg->stage);
}

static void on_gone(struct sv_peer *peer, uint32_t mem)
{
	struct sv_map *gone = sv_maps_take_out(&peer->maps, mem);

	hooks->unmapped(peer, mem);
	sv_maps_free(gone);
}

static bool dispatch(struct sv_peer *peer, const struct sv_msg *msg, int *fds, int nfds)
{
	/* Memory comes before the link is up, so that it is there when it is. */
	if (msg->type != SV_MSG_HELLO_OK && msg->type != SV_MSG_MAP_OK && !sv_peer_up(peer))
		return false;
	switch (msg->type) {
	case SV_MSG_HELLO_OK:
		return on_hello(peer, msg, fds, nfds);
	case SV_MSG_CHAN_OK:
		on_chan(peer, msg, fds, nfds);
		return true;
	case SV_MSG_MAP_OK:
		sv_maps_answered(&peer->maps, msg, nfds ? fds[0] : -1);
		hooks->progress(peer);
		return true;
	case SV_MSG_ACCESS_OK:
		on_access(peer, msg);
		return true;
	case SV_MSG_JOIN_OK:
		hooks->joined(msg);
		return true;
	case SV_MSG_GONE:
		on_gone(peer, msg->mem);
		return true;
	default:
		return false;
	}
}

static void on_peer(struct sv_watch *watch, uint32_t events)
{
	struct sv_peer *peer = SV_CONTAINER(watch, struct sv_peer, watch);
	int fds[SV_MSG_FDS], nfds;
	struct sv_msg msg;

	(void)events;
	for (int i = 0; i < ASKS_PER_WAKE; i++) {
		int ret = sv_msg_recv(watch->fd, &msg, fds, &nfds);
		bool good;

		if (ret == EAGAIN)
			return;
		good = !ret && dispatch(peer, &msg, fds, nfds);
		for (int f = 0; f < nfds; f++)
			sv_fd_close(fds[f]);
		if (!good) {
			peer_gone(peer);
			return;
		}
	}
}

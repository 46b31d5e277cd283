/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group.c -- multicast groups: which queue pairs of the fabric are in one.
 *
 * There is no table of groups that anybody would have to own.  A member takes the name
 * "mc/<group>/<queue pair>", a process that sends to groups "ms/<slot>".
 *
 * Member:	take the name, look who sends, and raise sv_rw.groups of each.
 * Sender:	take the name, load sv_rw.groups, look who the members are.  That list holds until
 *		sv_rw.groups is another, or for a second.
 *
 * Each takes its name before it looks, so one of the two sees the other.  The second is for what
 * that leaves: a sender that was stopped when the member came, a name that the kernel's list
 * skipped.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "common/softverbs/base/fd.h"
#include "common/softverbs/base/device.h"
#include "common/softverbs/base/name.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/peer/group.h"
#include "common/softverbs/peer/peer.h"

#define MEMBER "mc"
#define SENDER "ms"
#define TELL_NS 1000000000u
#define TELL_STEP_NS 50000

/* ---- telling senders ---- */

struct senders {
	uint32_t n;
	bool seen[SV_SLOTS];
	struct sv_peer *peer[SV_SLOTS];
};

static void add_sender(void *arg, const char *rest)
{
	struct senders *all = arg;
	unsigned long slot = strtoul(rest, NULL, 10);

	if (!slot || slot >= SV_SLOTS || all->seen[slot])
		return;
	all->seen[slot] = true;
	all->peer[all->n] = sv_peer_get((uint32_t)slot);
	if (all->peer[all->n])
		all->n++;
}

/* Raises its number; true: it is known, or the process is gone. */
static bool tell(struct sv_peer *peer)
{
	sv_peer_poke(peer);
	if (!sv_peer_up(peer))
		return atomic_load(&peer->state) == SV_PEER_GONE;
	/* seq_cst: behind the member's name; partner sv_group_look(). */
	atomic_fetch_add(&peer->rw->groups, 1);
	return true;
}

static void tell_each(struct senders *all)
{
	const struct timespec step = { .tv_nsec = TELL_STEP_NS };
	uint64_t until = sv_now_ns() + TELL_NS;

	for (uint32_t i = 0; i < all->n; i++) {
		while (!tell(all->peer[i]) && sv_now_ns() < until)
			nanosleep(&step, NULL);
		sv_peer_put(all->peer[i]);
	}
}

static void tell_senders(void)
{
	struct senders *all = calloc(1, sizeof(*all));

	if (!all)
		return; /* UNTESTED: they see it themselves, within a second */
	sv_name_each(SENDER, "", add_sender, all);
	tell_each(all);
	free(all);
}

/* ---- members ---- */

static void write_prefix(const uint8_t *gid, char *text, size_t bytes)
{
	size_t at = 0;

	for (uint32_t i = 0; i < SV_GID_BYTES; i++)
		at += (size_t)snprintf(text + at, bytes - at, "%02x", gid[i]);
	snprintf(text + at, bytes - at, "/");
}

static void count_member(void *arg, const char *rest)
{
	(void)rest;
	++*(uint32_t *)arg;
}

int sv_group_enter(const uint8_t *gid, uint32_t qpn, int *fd)
{
	char name[48], prefix[40];
	uint32_t n = 0;
	int ret;

	write_prefix(gid, prefix, sizeof(prefix));
	snprintf(name, sizeof(name), "%s%06x", prefix, qpn);
	*fd = sv_name_take(MEMBER, name);
	if (*fd < 0)
		return errno;
	ret = sv_name_each(MEMBER, prefix, count_member, &n);
	if (!ret && n > SV_GROUP_MEMBERS)
		ret = ENOMEM;
	if (ret)
		sv_fd_close(*fd);
	else
		tell_senders();
	return ret;
}

void sv_group_leave(int fd)
{
	sv_fd_close(fd);
	tell_senders();
}

/* ---- looking ---- */

static void add_member(void *arg, const char *rest)
{
	struct sv_group_look *look = arg;
	unsigned long qpn = strtoul(rest, NULL, 16);

	if (qpn && qpn < SV_QPN_GROUP && look->n < SV_GROUP_MEMBERS)
		look->qpn[look->n++] = (uint32_t)qpn;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* A sender without the name still looks once in a second. */
static void take_sender_name(void)
{
	char name[16];

	pthread_mutex_lock(&sv_proc->lock);
	if (sv_proc->sender_fd < 0) {
		snprintf(name, sizeof(name), "%u", sv_proc->slot);
		sv_proc->sender_fd = sv_name_take(SENDER, name);
	}
	pthread_mutex_unlock(&sv_proc->lock);
}

void sv_group_look(const uint8_t *gid, struct sv_group_look *look)
{
	char prefix[40];

	take_sender_name();
	look->n = 0;
	/* seq_cst: before the look; partner tell(). */
	look->epoch = sv_group_epoch();
	write_prefix(gid, prefix, sizeof(prefix));
	sv_name_each(MEMBER, prefix, add_member, look);
	qsort(look->qpn, look->n, sizeof(look->qpn[0]), by_number);
}

uint32_t sv_group_epoch(void)
{
	return atomic_load(&sv_proc->rw->groups);
}

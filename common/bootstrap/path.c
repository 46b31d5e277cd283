/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/bootstrap/path.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define GIDS_MAX 256

/* Open devices: as with rdma_cm one context a device, open as long as the process. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct opened {
	struct opened *next;
	const struct verbs *base;
	struct ibv_context *ctx;
	char name[64];
} *all;

static struct ibv_context *open_by_name(const struct verbs *v, const char *name)
{
	struct ibv_device **list = v->get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	errno = ENODEV;
	for (int i = 0; list && list[i] && !ctx; i++)
		if (!strcmp(list[i]->name, name))
			ctx = v->open_device(list[i]);
	if (list)
		v->free_device_list(list);
	return ctx;
}

/* A context whose device was taken away answers no question any more, and another
 * takes its place: it may still be in use, so that it stays open. */
static struct ibv_context *get_context(const struct verbs *v, const char *name)
{
	struct ibv_device_attr attr;
	struct opened *o;

	for (o = all; o; o = o->next)
		if (o->base == v && !strcmp(o->name, name) && !v->query_device(o->ctx, &attr))
			return o->ctx;
	o = calloc(1, sizeof *o);
	if (!o)
		return NULL;
	o->base = v;
	snprintf(o->name, sizeof o->name, "%s", name);
	o->ctx = open_by_name(v, name);
	if (!o->ctx) {
		free(o);
		return NULL;
	}
	o->next = all;
	all = o;
	return o->ctx;
}

/* The kernel's word for it; "" if it has none. */
static void gid_type(const struct ibv_context *ctx, uint8_t port, int index, char *type,
		     size_t bytes)
{
	char path[192];

	snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%u/gid_attrs/types/%d",
		 ctx->device->name, port, index);
	FILE *f = fopen(path, "re");
	if (!f || !fgets(type, (int)bytes, f))
		type[0] = '\0';
	if (f)
		fclose(f);
}

static bool is_zero(const union ibv_gid *gid)
{
	static const union ibv_gid zero;

	return !memcmp(gid, &zero, sizeof zero);
}

/* RoCE v2 is routed by addresses: one with an address rather than a link-local one. */
static int choose_gid(const struct verbs *v, struct ibv_context *ctx, uint8_t port, int count)
{
	int best = 0, best_rank = -1;
	union ibv_gid gid;
	char type[32];

	if (v->soft)
		return 0;
	for (int i = 0; i < count && i < GIDS_MAX; i++) {
		if (v->query_gid(ctx, port, i, &gid) || is_zero(&gid))
			continue;
		gid_type(ctx, port, i, type, sizeof type);
		int rank = 2 * !strncmp(type, "RoCE v2", 7) +
			   !(gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80);
		if (rank > best_rank) {
			best = i;
			best_rank = rank;
		}
	}
	return best;
}

static int ask_port(struct bootstrap_path *p)
{
	const struct verbs *v = p->base;
	struct ibv_port_attr attr;

	memset(&attr, 0, sizeof attr);
	p->port = (uint8_t)(p->device.port ? p->device.port : 1);
	int rc = v->query_port(p->ctx, p->port, &attr);
	if (rc) {
		errno = rc;
		return -1;
	}
	if (attr.state != IBV_PORT_ACTIVE) {
		errno = ENETDOWN;
		return -1;
	}
	p->lid = attr.lid;
	p->mtu = (uint8_t)attr.active_mtu;
	p->link_layer = attr.link_layer == IBV_LINK_LAYER_ETHERNET ? WIRE_BOOTSTRAP_ETHERNET
								   : WIRE_BOOTSTRAP_INFINIBAND;
	p->gid_index = p->device.gid_index;
	if (p->gid_index < 0)
		p->gid_index = p->link_layer == WIRE_BOOTSTRAP_ETHERNET
				       ? choose_gid(v, p->ctx, p->port, attr.gid_tbl_len)
				       : 0;
	return v->query_gid(p->ctx, p->port, p->gid_index, &p->gid);
}

static int draw_psn(struct bootstrap_path *p)
{
	if (getrandom(&p->psn, sizeof p->psn, 0) != sizeof p->psn)
		return -1;
	p->psn &= 0xffffff;
	return 0;
}

int bootstrap_path_open(struct bootstrap_path *p)
{
	pthread_mutex_lock(&lock);
	p->ctx = get_context(p->base, p->device.name);
	pthread_mutex_unlock(&lock);
	return !p->ctx || ask_port(p) || draw_psn(p) ? -1 : 0;
}

int bootstrap_path_again(struct bootstrap_path *p, const struct bootstrap_path *from)
{
	*p = *from;
	return ask_port(p) || draw_psn(p) ? -1 : 0;
}

void bootstrap_path_tell(const struct bootstrap_path *p, struct wire_bootstrap *message)
{
	message->link_layer = p->link_layer;
	message->psn = p->psn;
	message->lid = p->lid;
	message->mtu = p->mtu;
	memcpy(message->gid, p->gid.raw, sizeof message->gid);
}

static void to_rtr(const struct bootstrap_path *p, const struct wire_bootstrap *peer,
		   struct ibv_qp_attr *attr)
{
	struct ibv_ah_attr *ah = &attr->ah_attr;

	attr->path_mtu = (enum ibv_mtu)(peer->mtu < p->mtu ? peer->mtu : p->mtu);
	attr->dest_qp_num = peer->qpn;
	attr->rq_psn = peer->psn;
	ah->port_num = p->port;
	ah->dlid = peer->lid;
	/* By LIDs within a subnet of InfiniBand, unless the user wants a certain GID. */
	ah->is_global = p->link_layer == WIRE_BOOTSTRAP_ETHERNET || p->device.gid_index >= 0 ||
			!peer->lid;
	if (!ah->is_global)
		return;
	memcpy(ah->grh.dgid.raw, peer->gid, sizeof peer->gid);
	ah->grh.sgid_index = (uint8_t)p->gid_index;
	ah->grh.hop_limit = 64;
}

int bootstrap_path_attr(const struct bootstrap_path *p, const struct wire_bootstrap *peer,
			struct ibv_qp_attr *attr, int *mask)
{
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		attr->port_num = p->port;
		attr->pkey_index = (uint16_t)p->device.pkey_index;
		*mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
		return 0;
	case IBV_QPS_RTR:
		to_rtr(p, peer, attr);
		*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC;
		attr->max_dest_rd_atomic = peer->initiator_depth;
		return 0;
	case IBV_QPS_RTS:
		attr->sq_psn = p->psn;
		attr->max_rd_atomic = peer->responder_resources;
		*mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
		return 0;
	default:
		errno = EINVAL;
		return -1;
	}
}

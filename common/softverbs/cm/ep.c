/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ep.c -- endpoints: the calls of librdmacm that do several steps at once.
 *
 * An endpoint of sv_create_ep() is an id in synchronous mode.  A listening one
 * remembers the attributes of queue pairs for the ids of its requests.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include "common/softverbs/cm/id.h"
#include "common/softverbs/cm/sync.h"
#include "common/softverbs/softverbs.h"

/* ---- addresses ---- */

static int qp_type_of(int port_space)
{
	return port_space == RDMA_PS_UDP || port_space == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
}

static int copy_addr(struct sockaddr **to, socklen_t *len, const struct sockaddr *from,
		     socklen_t from_len)
{
	*to = malloc(from_len);
	if (!*to)
		return ENOMEM;
	memcpy(*to, from, from_len);
	*len = from_len;
	return 0;
}

/* What hints say themselves, or what they leave to be chosen. */
static void take_hints(const struct rdma_addrinfo *hints, struct rdma_addrinfo *rai)
{
	if (hints) {
		rai->ai_flags = hints->ai_flags;
		rai->ai_family = hints->ai_family;
		rai->ai_port_space = hints->ai_port_space;
		rai->ai_qp_type = hints->ai_qp_type;
	}
	if (!rai->ai_port_space)
		rai->ai_port_space = RDMA_PS_TCP;
	if (!rai->ai_qp_type)
		rai->ai_qp_type = qp_type_of(rai->ai_port_space);
}

/* Addresses that were not looked up: those of the hints. */
static int fill_addrs(const struct rdma_addrinfo *hints, struct rdma_addrinfo *rai)
{
	int ret = 0;

	if (!rai->ai_src_len && hints->ai_src_len && hints->ai_src_addr)
		ret = copy_addr(&rai->ai_src_addr, &rai->ai_src_len, hints->ai_src_addr,
				hints->ai_src_len);
	if (!ret && !rai->ai_dst_len && hints->ai_dst_len && hints->ai_dst_addr &&
	    !(hints->ai_flags & RAI_PASSIVE))
		ret = copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len, hints->ai_dst_addr,
				hints->ai_dst_len);
	if (!rai->ai_family && (rai->ai_dst_addr || rai->ai_src_addr))
		rai->ai_family = (rai->ai_dst_addr ? rai->ai_dst_addr : rai->ai_src_addr)->sa_family;
	return ret;
}

static int eai_to_errno(int eai)
{
	switch (eai) {
	case EAI_SYSTEM:
		return errno;
	case EAI_MEMORY:
		return ENOMEM;
	case EAI_AGAIN:
		return EAGAIN;
	default:
		return ENODATA;
	}
}

/* The first of what the system's resolver finds: the source of a passive side, the
 * destination of an active one. */
static int look_up(const char *node, const char *service, struct rdma_addrinfo *rai)
{
	struct addrinfo want = { .ai_socktype = SOCK_STREAM }, *found;
	int ret;

	if (rai->ai_flags & RAI_PASSIVE)
		want.ai_flags |= AI_PASSIVE;
	if (rai->ai_flags & RAI_NUMERICHOST)
		want.ai_flags |= AI_NUMERICHOST;
	if (rai->ai_flags & RAI_FAMILY)
		want.ai_family = rai->ai_family;
	ret = getaddrinfo(node, service, &want, &found);
	if (ret)
		return eai_to_errno(ret);
	rai->ai_family = found->ai_family;
	if (rai->ai_flags & RAI_PASSIVE)
		ret = copy_addr(&rai->ai_src_addr, &rai->ai_src_len, found->ai_addr,
				found->ai_addrlen);
	else
		ret = copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len, found->ai_addr,
				found->ai_addrlen);
	freeaddrinfo(found);
	return ret;
}

int sv_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		   struct rdma_addrinfo **res)
{
	struct rdma_addrinfo *rai;
	int ret = 0;

	if (!node && !service && !hints) {
		errno = EINVAL;
		return -1;
	}
	rai = calloc(1, sizeof(*rai));
	if (!rai)
		return -1;
	take_hints(hints, rai);
	if (node || service)
		ret = look_up(node, service, rai);
	if (!ret && hints)
		ret = fill_addrs(hints, rai);
	if (ret) {
		sv_freeaddrinfo(rai);
		errno = ret;
		return -1;
	}
	*res = rai;
	return 0;
}

void sv_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;

		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res);
		res = next;
	}
}

/* ---- endpoints ---- */

/* What a listener's requests get their queue pairs from; kept by the id. */
static int remember_attr(struct sv_id *id, struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
	id->ep_pd = pd;
	if (!attr)
		return 0;
	id->ep_attr = malloc(sizeof(*attr));
	if (!id->ep_attr)
		return ENOMEM;
	*id->ep_attr = *attr;
	id->ep_attr->qp_type = id->id.qp_type;
	return 0;
}

/* 0, or -1 and errno. */
static int make_active(struct rdma_cm_id *id, struct rdma_addrinfo *res, struct ibv_pd *pd,
		       struct ibv_qp_init_attr *attr)
{
	if (sv_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr, 2000) ||
	    sv_resolve_route(id, 2000))
		return -1;
	if (!attr)
		return 0;
	attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	return sv_rdma_create_qp(id, pd, attr);
}

static int make_passive(struct rdma_cm_id *id, struct rdma_addrinfo *res, struct ibv_pd *pd,
			struct ibv_qp_init_attr *attr)
{
	int ret;

	if (sv_bind_addr(id, res->ai_src_addr))
		return -1;
	ret = remember_attr(sv_id_of(id), pd, attr);
	if (ret)
		errno = ret;
	return ret ? -1 : 0;
}

int sv_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd,
		 struct ibv_qp_init_attr *attr)
{
	struct rdma_cm_id *id;
	int ret, err;

	if (res->ai_qp_type != IBV_QPT_RC && res->ai_qp_type != IBV_QPT_UD) {
		errno = EOPNOTSUPP;
		return -1;
	}
	if (sv_create_id(NULL, &id, NULL, (enum rdma_port_space)res->ai_port_space))
		return -1;
	ret = res->ai_flags & RAI_PASSIVE ? make_passive(id, res, pd, attr) :
					    make_active(id, res, pd, attr);
	if (ret) {
		err = errno;
		sv_destroy_id(id);
		errno = err;
		return -1;
	}
	*out = id;
	return 0;
}

void sv_destroy_ep(struct rdma_cm_id *id)
{
	sv_rdma_destroy_qp(id);
	sv_rdma_destroy_srq(id);
	sv_destroy_id(id);
}

/* ---- requests ---- */

/* The id of a request, as its listener wants it. */
static int equip(struct rdma_cm_id *id, const struct sv_id *listener)
{
	struct ibv_qp_init_attr attr;

	if (!listener->ep_attr)
		return 0;
	attr = *listener->ep_attr;
	return sv_rdma_create_qp(id, listener->ep_pd, &attr);
}

int sv_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **out)
{
	struct rdma_cm_event *ev;
	struct sv_id *id;

	if (!sv_id_of(listen)->sync) {
		errno = EINVAL;
		return -1;
	}
	if (sv_cm_complete(listen))
		return -1;
	ev = listen->event;
	if (ev->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
		errno = EINVAL;
		return -1;
	}
	id = sv_id_of(ev->id);
	bool is_its_own = !sv_migrate_id(&id->id, NULL);
	/* Its private data stays readable as long as the id. */
	listen->event = NULL;
	id->id.event = ev;
	if (!is_its_own || equip(&id->id, sv_id_of(listen))) {
		int err = errno;

		sv_destroy_id(&id->id);
		errno = err;
		return -1;
	}
	*out = &id->id;
	return 0;
}

/* ---- shared receive queues ---- */

int sv_rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	if (!pd)
		pd = id->pd;
	if (id->srq || !pd) {
		errno = EINVAL;
		return -1;
	}
	id->srq = sv_create_srq(pd, attr);
	if (!id->srq)
		return -1;
	id->pd = pd;
	return 0;
}

void sv_rdma_destroy_srq(struct rdma_cm_id *id)
{
	if (id->srq)
		sv_destroy_srq(id->srq);
	id->srq = NULL;
}

/* ---- the devices of all ids ---- */

struct ibv_context **sv_get_devices(int *num)
{
	struct ibv_context **list = calloc(SV_DEVICES + 1, sizeof(*list));
	struct rdma_cm_id *id;

	if (num)
		*num = 0;
	/* An id opens them, and they stay open. */
	if (!list || sv_create_id(NULL, &id, NULL, RDMA_PS_TCP)) {
		free(list);
		return NULL;
	}
	memcpy(list, sv_cm.verbs, sizeof(sv_cm.verbs));
	sv_destroy_id(id);
	if (num)
		*num = (int)sv_device_count();
	return list;
}

void sv_free_devices(struct ibv_context **list)
{
	free(list);
}

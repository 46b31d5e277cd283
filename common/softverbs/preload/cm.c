/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm.c -- librdmacm's functions.
 *
 * An id has no device before it has an address, and event channels are shared, so
 * the choice is the process's: connection management is the software device's, or
 * the system's if SOFTVERBS_CM=system.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/rdma_verbs.h>
#include "common/softverbs/preload/preload.h"

static bool is_soft(void)
{
	static _Atomic int known; /* 1: soft, 2: the system's */
	int value = atomic_load_explicit(&known, memory_order_relaxed);
	const char *text;

	if (!value) {
		text = getenv("SOFTVERBS_CM");
		value = text && !strcmp(text, "system") ? 2 : 1;
		atomic_store_explicit(&known, value, memory_order_relaxed);
	}
	return value == 1;
}

#define CM(type, name, params, args, soft)                                                    \
	EXPORT type name params                                                               \
	{                                                                                     \
		if (is_soft())                                                                \
			return soft;                                                          \
		return SYSTEM(name) args;                                                     \
	}
#define CM_VOID(name, params, args, soft)                                                     \
	EXPORT void name params                                                               \
	{                                                                                     \
		if (is_soft())                                                                \
			soft;                                                                 \
		else                                                                          \
			SYSTEM(name) args;                                                    \
	}

static int no(int err)
{
	errno = err;
	return -1;
}

/* ---- channels and ids ---- */

CM(struct rdma_event_channel *, rdma_create_event_channel, (void), (), sv_create_event_channel())
CM_VOID(rdma_destroy_event_channel, (struct rdma_event_channel *channel), (channel),
	sv_destroy_event_channel(channel))
CM(int, rdma_create_id,
   (struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
    enum rdma_port_space ps),
   (channel, id, context, ps), sv_create_id(channel, id, context, ps))
CM(int, rdma_destroy_id, (struct rdma_cm_id *id), (id), sv_destroy_id(id))
CM(int, rdma_migrate_id, (struct rdma_cm_id *id, struct rdma_event_channel *channel),
   (id, channel), sv_migrate_id(id, channel))
CM(int, rdma_set_option,
   (struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen),
   (id, level, optname, optval, optlen), sv_set_option(id, level, optname, optval, optlen))
CM(int, rdma_get_cm_event, (struct rdma_event_channel *channel, struct rdma_cm_event **event),
   (channel, event), sv_get_cm_event(channel, event))
CM(int, rdma_ack_cm_event, (struct rdma_cm_event *event), (event), sv_ack_cm_event(event))

/* ---- addresses ---- */

CM(int, rdma_bind_addr, (struct rdma_cm_id *id, struct sockaddr *addr), (id, addr),
   sv_bind_addr(id, addr))
CM(int, rdma_resolve_addr,
   (struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms),
   (id, src, dst, timeout_ms), sv_resolve_addr(id, src, dst, timeout_ms))
CM(int, rdma_resolve_route, (struct rdma_cm_id *id, int timeout_ms), (id, timeout_ms),
   sv_resolve_route(id, timeout_ms))
CM(__be16, rdma_get_src_port, (struct rdma_cm_id *id), (id), sv_get_src_port(id))
CM(__be16, rdma_get_dst_port, (struct rdma_cm_id *id), (id), sv_get_dst_port(id))
CM(int, rdma_getaddrinfo,
   (const char *node, const char *service, const struct rdma_addrinfo *hints,
    struct rdma_addrinfo **res),
   (node, service, hints, res), sv_getaddrinfo(node, service, hints, res))
CM_VOID(rdma_freeaddrinfo, (struct rdma_addrinfo *res), (res), sv_freeaddrinfo(res))

/* ---- queue pairs and endpoints ---- */

CM(int, rdma_create_qp,
   (struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr), (id, pd, attr),
   sv_rdma_create_qp(id, pd, attr))
CM(int, rdma_create_qp_ex, (struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr), (id, attr),
   sv_rdma_create_qp_ex(id, attr))
CM_VOID(rdma_destroy_qp, (struct rdma_cm_id *id), (id), sv_rdma_destroy_qp(id))
CM(int, rdma_create_srq,
   (struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr), (id, pd, attr),
   sv_rdma_create_srq(id, pd, attr))
CM(int, rdma_create_srq_ex, (struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr),
   (id, attr), no(EOPNOTSUPP))
CM_VOID(rdma_destroy_srq, (struct rdma_cm_id *id), (id), sv_rdma_destroy_srq(id))
CM(int, rdma_create_ep,
   (struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
    struct ibv_qp_init_attr *attr),
   (id, res, pd, attr), sv_create_ep(id, res, pd, attr))
CM_VOID(rdma_destroy_ep, (struct rdma_cm_id *id), (id), sv_destroy_ep(id))
CM(int, rdma_init_qp_attr, (struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask),
   (id, attr, mask), sv_init_qp_attr(id, attr, mask))

/* ---- connections ---- */

CM(int, rdma_connect, (struct rdma_cm_id *id, struct rdma_conn_param *param), (id, param),
   sv_connect(id, param))
CM(int, rdma_establish, (struct rdma_cm_id *id), (id), sv_establish(id))
CM(int, rdma_listen, (struct rdma_cm_id *id, int backlog), (id, backlog), sv_listen(id, backlog))
CM(int, rdma_get_request, (struct rdma_cm_id *listen, struct rdma_cm_id **id), (listen, id),
   sv_get_request(listen, id))
CM(int, rdma_accept, (struct rdma_cm_id *id, struct rdma_conn_param *param), (id, param),
   sv_accept(id, param))
CM(int, rdma_reject, (struct rdma_cm_id *id, const void *data, uint8_t bytes), (id, data, bytes),
   sv_reject(id, data, bytes))
CM(int, rdma_reject_ece, (struct rdma_cm_id *id, const void *data, uint8_t bytes),
   (id, data, bytes), sv_reject(id, data, bytes))
CM(int, rdma_disconnect, (struct rdma_cm_id *id), (id), sv_disconnect(id))
/* Told by programs that move the queue pair themselves; the device knows. */
CM(int, rdma_notify, (struct rdma_cm_id *id, enum ibv_event_type event), (id, event), 0)

/* ---- multicast groups ---- */

CM(int, rdma_join_multicast, (struct rdma_cm_id *id, struct sockaddr *addr, void *context),
   (id, addr, context), sv_join_multicast(id, addr, context))
CM(int, rdma_join_multicast_ex,
   (struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context),
   (id, attr, context), sv_join_multicast_ex(id, attr, context))
CM(int, rdma_leave_multicast, (struct rdma_cm_id *id, struct sockaddr *addr), (id, addr),
   sv_leave_multicast(id, addr))

/* ---- what there is none of ---- */

CM(int, rdma_set_local_ece, (struct rdma_cm_id *id, struct ibv_ece *ece), (id, ece),
   no(EOPNOTSUPP))
CM(int, rdma_get_remote_ece, (struct rdma_cm_id *id, struct ibv_ece *ece), (id, ece),
   no(EOPNOTSUPP))

/* ---- devices ---- */

CM(struct ibv_context **, rdma_get_devices, (int *num), (num), sv_get_devices(num))
CM_VOID(rdma_free_devices, (struct ibv_context **list), (list), sv_free_devices(list))

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs.c -- libibverbs' functions, on the software device and on others.
 *
 * The device list holds the software device first, then the system's devices.
 * Inline functions of <infiniband/verbs.h> need nothing here: they go through the
 * context.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "common/softverbs/preload/preload.h"

/* <infiniband/verbs.h> has macros of these names. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* A library that the program loaded by dlopen() is in no scope that RTLD_NEXT looks through;
 * one that it has not loaded is loaded here. */
static void *symbol_of_library(const char *name)
{
	void *library = dlopen(strncmp(name, "rdma_", 5) ? "libibverbs.so.1" : "librdmacm.so.1",
			       RTLD_LAZY | RTLD_LOCAL);

	return library ? dlsym(library, name) : NULL;
}

void *sv_next_symbol(_Atomic(void *) *cache, const char *name)
{
	/* relaxed: whoever looks it up finds the same. */
	void *symbol = atomic_load_explicit(cache, memory_order_relaxed);

	if (symbol)
		return symbol;
	symbol = dlsym(RTLD_NEXT, name);
	if (!symbol)
		symbol = symbol_of_library(name);
	if (!symbol) {
		fprintf(stderr, "libsoftverbs-preload: the system's libraries have no %s(), "
				"which this program calls for another device\n", name);
		abort();
	}
	atomic_store_explicit(cache, symbol, memory_order_relaxed);
	return symbol;
}

/* ---- devices ---- */

/* The system's librdmacm looks after its own devices (SOFTVERBS_CM=system), and would
 * wonder what soft0 is in a kernel that has never heard of it. */
static bool is_of_librdmacm(void *code)
{
	Dl_info info;

	return dladdr(code, &info) && info.dli_fname && strstr(info.dli_fname, "librdmacm.so");
}

/*
 * The two lists as one.  It begins where its memory begins, as the system's does: programs
 * (qperf) end it with free().  Behind its NULL comes the system's list, which
 * ibv_free_device_list() gives back.
 */
static struct ibv_device **join(struct ibv_device **soft, int nsoft, struct ibv_device **system,
				int nsystem)
{
	size_t n = (size_t)nsoft + (size_t)nsystem;
	struct ibv_device **both = calloc(n + 2, sizeof(*both));

	if (!both)
		return NULL;
	for (int i = 0; i < nsoft; i++)
		both[i] = soft[i];
	for (int i = 0; i < nsystem; i++)
		both[nsoft + i] = system[i];
	both[n + 1] = (struct ibv_device *)(void *)system;
	return both;
}

EXPORT struct ibv_device **ibv_get_device_list(int *num)
{
	int nsystem = 0, nsoft = 0;
	struct ibv_device **system = SYSTEM(ibv_get_device_list)(&nsystem);
	struct ibv_device **soft = NULL, **both;

	if (!is_of_librdmacm(__builtin_return_address(0)))
		soft = sv_get_device_list(&nsoft);
	else if (!system)
		return NULL;
	if (!system)
		nsystem = 0; /* no kernel support for RDMA: that's what this is for */
	both = join(soft, nsoft, system, nsystem);
	if (!both && system)
		SYSTEM(ibv_free_device_list)(system);
	if (soft)
		sv_free_device_list(soft);
	if (num)
		*num = both ? nsoft + nsystem : 0;
	return both;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	size_t n = 0;

	if (!list)
		return;
	while (list[n])
		n++;
	if (list[n + 1])
		SYSTEM(ibv_free_device_list)((struct ibv_device **)(void *)list[n + 1]);
	free(list);
}

EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	return sv_is_soft(device) ? sv_get_device_guid(device) :
				    SYSTEM(ibv_get_device_guid)(device);
}

EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	return sv_is_soft(device) ? -1 : SYSTEM(ibv_get_device_index)(device);
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	return sv_is_soft(device) ? sv_open_device(device) : SYSTEM(ibv_open_device)(device);
}

VERB(int, ibv_close_device, (struct ibv_context *context), (context), context,
     sv_close_device(context))
VERB(int, ibv_query_device, (struct ibv_context *context, struct ibv_device_attr *attr),
     (context, attr), context, sv_query_device(context, attr))
VERB(int, ibv_query_gid,
     (struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid),
     (context, port, index, gid), context, sv_query_gid(context, port, index, gid))
VERB(int, ibv_query_pkey, (struct ibv_context *context, uint8_t port, int index, __be16 *pkey),
     (context, port, index, pkey), context, sv_query_pkey(context, port, index, pkey))
VERB(int, ibv_get_async_event, (struct ibv_context *context, struct ibv_async_event *event),
     (context, event), context, sv_get_async_event(context, event))

/* That of programs whose struct ibv_port_attr was shorter; the inline function that
 * new ones use goes through the context. */
static int query_port_short(struct ibv_context *context, uint8_t port,
			    struct _compat_ibv_port_attr *attr)
{
	struct ibv_port_attr all;
	int ret = sv_query_port(context, port, &all);

	if (!ret)
		memcpy(attr, &all, offsetof(struct ibv_port_attr, port_cap_flags2));
	return ret;
}
VERB(int, ibv_query_port,
     (struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr),
     (context, port, attr), context, query_port_short(context, port, attr))

static int pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	__be16 own;

	return !sv_query_pkey(context, port, 0, &own) && own == pkey ? 0 : -1;
}
VERB(int, ibv_get_pkey_index, (struct ibv_context *context, uint8_t port, __be16 pkey),
     (context, port, pkey), context, pkey_index(context, port, pkey))

/* Its object may be of any kind; all begin with the context. */
EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_context *context = NULL;

	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		context = event->element.cq->context;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		context = event->element.qp->context;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		context = event->element.srq->context;
		break;
	default: /* the software device raises no others */
		break;
	}
	if (context && sv_is_soft(context->device))
		sv_ack_async_event(event);
	else
		SYSTEM(ibv_ack_async_event)(event);
}

/* ---- GIDs ---- */

#define GIDS 2

static int gid_entry(struct ibv_context *context, uint32_t port, uint32_t index,
		     struct ibv_gid_entry *entry, uint32_t flags, size_t bytes)
{
	struct ibv_gid_entry all = { .gid_index = index, .port_num = port,
				     .gid_type = IBV_GID_TYPE_ROCE_V2 };

	if (flags || bytes < sizeof(all))
		return EINVAL;
	if (port != 1 || index >= GIDS)
		return port != 1 ? EINVAL : ENODATA;
	sv_query_gid(context, (uint8_t)port, (int)index, &all.gid);
	memcpy(entry, &all, sizeof(all));
	return 0;
}
VERB(int, _ibv_query_gid_ex,
     (struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
      uint32_t flags, size_t bytes),
     (context, port, index, entry, flags, bytes), context,
     gid_entry(context, port, index, entry, flags, bytes))

static ssize_t gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
			 uint32_t flags, size_t bytes)
{
	if (flags || bytes != sizeof(*entries))
		return -EINVAL;
	if (max < GIDS)
		return -EINVAL;
	for (uint32_t i = 0; i < GIDS; i++)
		gid_entry(context, 1, i, &entries[i], 0, bytes);
	return GIDS;
}
VERB(ssize_t, _ibv_query_gid_table,
     (struct ibv_context *context, struct ibv_gid_entry *entries, size_t max, uint32_t flags,
      size_t bytes),
     (context, entries, max, flags, bytes), context,
     gid_table(context, entries, max, flags, bytes))

/* Not in a public header; ibv_devinfo calls it.  1: RoCE v2. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type);

static int gid_type(uint8_t port, unsigned int index, int *type)
{
	if (port != 1 || index >= GIDS) {
		errno = EINVAL;
		return -1;
	}
	*type = 1;
	return 0;
}
VERB(int, ibv_query_gid_type,
     (struct ibv_context *context, uint8_t port, unsigned int index, int *type),
     (context, port, index, type), context, gid_type(port, index, type))

/* ---- protection domains and memory regions ---- */

VERB(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *context), (context), context,
     sv_alloc_pd(context))
VERB(int, ibv_dealloc_pd, (struct ibv_pd *pd), (pd), pd->context, sv_dealloc_pd(pd))

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			     unsigned int access)
{
	if (iova != (uintptr_t)addr)
		return sv_no_object();
	return sv_reg_mr(pd, addr, length, (int)access);
}
VERB(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd *pd, void *addr, size_t length, int access),
     (pd, addr, length, access), pd->context, sv_reg_mr(pd, addr, length, access))
VERB(struct ibv_mr *, ibv_reg_mr_iova,
     (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access),
     (pd, addr, length, iova, access), pd->context,
     reg_mr(pd, addr, length, iova, (unsigned int)access))
VERB(struct ibv_mr *, ibv_reg_mr_iova2,
     (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access),
     (pd, addr, length, iova, access), pd->context, reg_mr(pd, addr, length, iova, access))
VERB(struct ibv_mr *, ibv_reg_dmabuf_mr,
     (struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access),
     (pd, offset, length, iova, fd, access), pd->context, sv_no_object())
VERB(int, ibv_rereg_mr,
     (struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access),
     (mr, flags, pd, addr, length, access), mr->context,
     sv_rereg_mr(mr, flags, pd, addr, length, access))
VERB(int, ibv_dereg_mr, (struct ibv_mr *mr), (mr), mr->context, sv_dereg_mr(mr))
VERB(struct ibv_pd *, ibv_import_pd, (struct ibv_context *context, uint32_t handle),
     (context, handle), context, sv_no_object())
VERB(struct ibv_mr *, ibv_import_mr, (struct ibv_pd *pd, uint32_t handle), (pd, handle),
     pd->context, sv_no_object())
VERB(struct ibv_dm *, ibv_import_dm, (struct ibv_context *context, uint32_t handle),
     (context, handle), context, sv_no_object())

/* ---- completions ---- */

VERB(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context *context), (context),
     context, sv_create_comp_channel(context))
VERB(int, ibv_destroy_comp_channel, (struct ibv_comp_channel *channel), (channel),
     channel->context, sv_destroy_comp_channel(channel))
VERB(struct ibv_cq *, ibv_create_cq,
     (struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel,
      int comp_vector),
     (context, cqe, cq_context, channel, comp_vector), context,
     sv_create_cq(context, cqe, cq_context, channel, comp_vector))
VERB(int, ibv_resize_cq, (struct ibv_cq *cq, int cqe), (cq, cqe), cq->context,
     sv_resize_cq(cq, cqe))
VERB(int, ibv_destroy_cq, (struct ibv_cq *cq), (cq), cq->context, sv_destroy_cq(cq))
VERB(int, ibv_get_cq_event,
     (struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context),
     (channel, cq, cq_context), channel->context, sv_get_cq_event(channel, cq, cq_context))
VERB_VOID(ibv_ack_cq_events, (struct ibv_cq *cq, unsigned int nevents), (cq, nevents),
	  cq->context, sv_ack_cq_events(cq, nevents))

/* ---- queues ---- */

VERB(struct ibv_srq *, ibv_create_srq, (struct ibv_pd *pd, struct ibv_srq_init_attr *attr),
     (pd, attr), pd->context, sv_create_srq(pd, attr))
VERB(int, ibv_modify_srq, (struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask),
     (srq, attr, mask), srq->context, sv_modify_srq(srq, attr, mask))
VERB(int, ibv_query_srq, (struct ibv_srq *srq, struct ibv_srq_attr *attr), (srq, attr),
     srq->context, sv_query_srq(srq, attr))
VERB(int, ibv_destroy_srq, (struct ibv_srq *srq), (srq), srq->context, sv_destroy_srq(srq))
VERB(struct ibv_qp *, ibv_create_qp, (struct ibv_pd *pd, struct ibv_qp_init_attr *attr),
     (pd, attr), pd->context, sv_create_qp(pd, attr))
VERB(struct ibv_qp_ex *, ibv_qp_to_qp_ex, (struct ibv_qp *qp), (qp), qp->context,
     sv_qp_to_qp_ex(qp))
VERB(int, ibv_modify_qp, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask),
     (qp, attr, mask), qp->context, sv_modify_qp(qp, attr, mask))
VERB(int, ibv_query_qp,
     (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init),
     (qp, attr, mask, init), qp->context, sv_query_qp(qp, attr, mask, init))
VERB(int, ibv_query_qp_data_in_order, (struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags),
     (qp, op, flags), qp->context, 0)
VERB(int, ibv_destroy_qp, (struct ibv_qp *qp), (qp), qp->context, sv_destroy_qp(qp))
VERB(int, ibv_query_ece, (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece), qp->context,
     EOPNOTSUPP)
VERB(int, ibv_set_ece, (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece), qp->context,
     EOPNOTSUPP)
VERB(int, ibv_attach_mcast, (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid),
     (qp, gid, lid), qp->context, sv_attach_mcast(qp, gid, lid))
VERB(int, ibv_detach_mcast, (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid),
     (qp, gid, lid), qp->context, sv_detach_mcast(qp, gid, lid))

/* ---- address handles ---- */

VERB(struct ibv_ah *, ibv_create_ah, (struct ibv_pd *pd, struct ibv_ah_attr *attr), (pd, attr),
     pd->context, sv_create_ah(pd, attr))
VERB(int, ibv_destroy_ah, (struct ibv_ah *ah), (ah), ah->context, sv_destroy_ah(ah))
VERB(struct ibv_ah *, ibv_create_ah_from_wc,
     (struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port),
     (pd, wc, grh, port), pd->context, sv_create_ah_from_wc(pd, wc, grh, port))
VERB(int, ibv_init_ah_from_wc,
     (struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
      struct ibv_ah_attr *attr),
     (context, port, wc, grh, attr), context,
     sv_init_ah_from_wc(context, port, wc, grh, attr))
VERB(int, ibv_resolve_eth_l2_from_gid,
     (struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t mac[ETHERNET_LL_SIZE],
      uint16_t *vid),
     (context, attr, mac, vid), context, EOPNOTSUPP)

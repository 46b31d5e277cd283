/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * device.c -- the devices, their contexts, and their attributes.
 *
 * There is one device (base/device.h: or some more), and it is always there.  Each sv_open_device() makes a
 * context with an event queue of its own.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "common/softverbs/base/bell.h"
#include "common/softverbs/base/device.h"
#include "common/softverbs/base/limits.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/poll.h"
#include "common/softverbs/object/async.h"
#include "common/softverbs/object/cq.h"
#include "common/softverbs/object/rq.h"
#include "common/softverbs/peer/group.h"
#include "common/softverbs/softverbs.h"
#include "common/softverbs/verbs/post.h"
#include "common/softverbs/verbs/start.h"
#include "common/softverbs/verbs/xrc.h"

#undef ibv_query_port
#undef ibv_reg_mr

#define DEVICE_GUID 0x0200536f66740001ull

int sv_is_soft(const struct ibv_device *device)
{
	return device >= sv_device_at(0) && device <= sv_device_at(SV_DEVICES - 1);
}

/* ---- device ---- */

struct ibv_device **sv_get_device_list(int *num_devices)
{
	struct ibv_device **list = calloc(SV_DEVICES + 1, sizeof(*list));
	uint32_t n = sv_device_count();

	for (uint32_t i = 0; list && i < n; i++)
		list[i] = sv_device_at(i);
	if (num_devices)
		*num_devices = list ? (int)n : 0;
	return list;
}

void sv_free_device_list(struct ibv_device **list)
{
	free(list);
}

__be64 sv_get_device_guid(struct ibv_device *device)
{
	return htobe64(DEVICE_GUID + sv_device_index(device));
}

int sv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	strcpy(attr->fw_ver, "soft");
	attr->node_guid = sv_get_device_guid(context->device);
	attr->sys_image_guid = attr->node_guid;
	attr->vendor_id = 0xffffff; /* nobody's, as Soft-RoCE's */
	attr->max_mr_size = UINT64_MAX >> 1;
	attr->page_size_cap = 0xfffff000;
	attr->max_qp = SV_QPS - 1;
	attr->max_qp_wr = SV_MAX_QP_WR;
	attr->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID |
				 IBV_DEVICE_CHANGE_PHY_PORT | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC |
				 IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
				 IBV_DEVICE_MEM_MGT_EXTENSIONS;
	attr->max_sge = SV_MAX_SGE;
	attr->max_sge_rd = SV_MAX_SGE;
	attr->max_cq = SV_CQS;
	attr->max_cqe = SV_MAX_CQE;
	attr->max_mr = SV_MRS - 1;
	attr->max_mw = SV_MRS - 1;
	attr->max_pd = 65536;
	attr->max_qp_rd_atom = SV_MAX_RD_ATOMIC;
	attr->max_qp_init_rd_atom = SV_MAX_RD_ATOMIC;
	attr->max_res_rd_atom = SV_MAX_RD_ATOMIC * (SV_QPS - 1);
	/* As iWARP's devices are, for tests of what their users are told. */
	attr->atomic_cap = getenv("SOFTVERBS_NO_ATOMICS") ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA;
	attr->max_srq = SV_SRQS;
	attr->max_srq_wr = SV_MAX_SRQ_WR;
	attr->max_srq_sge = SV_MAX_SGE;
	attr->max_ah = INT32_MAX;
	attr->max_mcast_grp = SV_MAX_GROUPS;
	attr->max_mcast_qp_attach = SV_GROUP_MEMBERS;
	attr->max_total_mcast_qp_attach = SV_MAX_GROUPS * SV_GROUP_MEMBERS;
	attr->max_pkeys = 1;
	attr->local_ca_ack_delay = 15;
	attr->phys_port_cnt = 1;
	return 0;
}

int sv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	bool cut = sv_device_is_cut(sv_device_index(context->device));

	if (port != 1)
		return EINVAL;
	memset(attr, 0, sizeof(*attr));
	attr->state = cut ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = IBV_MTU_4096;
	attr->gid_tbl_len = SV_GIDS;
	attr->port_cap_flags = IBV_PORT_CM_SUP;
	attr->max_msg_sz = SV_MAX_MSG_BYTES;
	attr->qkey_viol_cntr = atomic_load(&sv_proc->bad_qkeys);
	attr->pkey_tbl_len = 1;
	attr->max_vl_num = 1;
	attr->active_width = 2; /* 4X */
	attr->active_speed = 32; /* EDR */
	attr->phys_state = cut ? 3 : 5; /* disabled; link up */
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

int sv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	if (port != 1 || index < 0 || index >= (int)SV_GIDS) {
		errno = EINVAL;
		return -1;
	}
	sv_gid_get(sv_device_index(context->device), (uint32_t)index, gid->raw);
	return 0;
}

int sv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	(void)context;
	if (port != 1 || index) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htobe16(0xffff);
	return 0;
}

/* ---- attributes that came later ---- */

static void copy_out(void *to, size_t to_bytes, const void *from, size_t bytes)
{
	memset(to, 0, to_bytes);
	memcpy(to, from, bytes < to_bytes ? bytes : to_bytes);
}

static int query_device_ex(struct ibv_context *context,
			   const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t attr_bytes)
{
	struct ibv_device_attr_ex all = { 0 };

	if (input && input->comp_mask)
		return EINVAL;
	if (attr_bytes < sizeof(all.orig_attr))
		return EINVAL;
	sv_query_device(context, &all.orig_attr);
	all.completion_timestamp_mask = UINT64_MAX;
	all.hca_core_clock = 1000000; /* kHz: nanoseconds */
	all.device_cap_flags_ex = (uint64_t)all.orig_attr.device_cap_flags;
	all.phys_port_cnt_ex = all.orig_attr.phys_port_cnt;
	copy_out(attr, attr_bytes, &all, sizeof(all));
	return 0;
}

static int query_port_ex(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
			 size_t attr_bytes)
{
	struct ibv_port_attr all;
	int ret = sv_query_port(context, port, &all);

	if (!ret)
		copy_out(attr, attr_bytes, &all, sizeof(all));
	return ret;
}

static int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	(void)context;
	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return EOPNOTSUPP;
	clock_gettime(CLOCK_MONOTONIC, &values->raw_clock);
	return 0;
}

/* ---- contexts ---- */

static void set_ops(struct verbs_context *vctx)
{
	struct ibv_context *context = &vctx->context;

	vctx->query_port = query_port_ex;
	vctx->query_device_ex = query_device_ex;
	vctx->query_rt_values = query_rt_values;
	vctx->create_cq_ex = sv_create_cq_ex;
	vctx->create_qp_ex = sv_create_qp_ex;
	vctx->open_xrcd = sv_open_xrcd;
	vctx->close_xrcd = sv_close_xrcd;
	vctx->create_srq_ex = sv_create_srq_ex;
	vctx->get_srq_num = sv_get_srq_num;
	context->ops.alloc_mw = sv_alloc_mw;
	context->ops.dealloc_mw = sv_dealloc_mw;
	context->ops.bind_mw = sv_bind_mw;
	context->ops.poll_cq = sv_poll_cq;
	context->ops.req_notify_cq = sv_req_notify_cq;
	context->ops.post_send = sv_post_send;
	context->ops.post_recv = sv_post_recv;
	context->ops.post_srq_recv = sv_post_srq_recv;
}

struct ibv_context *sv_open_device(struct ibv_device *device)
{
	struct sv_ctx *ctx;

	if (!sv_is_soft(device)) {
		errno = ENODEV;
		return NULL;
	}
	if (sv_start())
		return NULL;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return NULL;
	ctx->tail = &ctx->head;
	atomic_store(&ctx->users, 1);
	ctx->vctx.sz = sizeof(ctx->vctx);
	ctx->vctx.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	ctx->vctx.context.device = device;
	ctx->vctx.context.cmd_fd = -1;
	ctx->vctx.context.num_comp_vectors = 8;
	ctx->vctx.context.async_fd = sv_bell_open();
	if (ctx->vctx.context.async_fd < 0) {
		free(ctx);
		return NULL;
	}
	pthread_mutex_init(&ctx->vctx.context.mutex, NULL);
	set_ops(&ctx->vctx);
	return &ctx->vctx.context;
}

/* As with a kernel's device, objects that are left don't hinder it.  They and the
 * context's memory stay until they are destroyed. */
int sv_close_device(struct ibv_context *context)
{
	sv_ctx_put(context);
	return 0;
}

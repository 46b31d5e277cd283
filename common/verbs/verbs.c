/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "config.h"

/*
 * Anonymous memory, aligned to a huge page so that the kernel can use some.
 * Never decommitted while it is registered: the device would go on with the old pages.
 */
static int system_mem_alloc(size_t size_bytes, int kind, void **addr)
{
	(void)kind;
	void *p = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return errno;
	(void)madvise(p, size_bytes, MADV_HUGEPAGE);
	(void)madvise(p, size_bytes, MADV_DONTFORK);
	*addr = p;
	return 0;
}

static int system_mem_free(void *addr, size_t size_bytes)
{
	return munmap(addr, size_bytes) ? errno : 0;
}

static int system_query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr)
{
	return ___ibv_query_port(ctx, port, attr);
}

/* librdmacm looks at what devices there are only here, and where it meets a new one. */
static void system_forget_devices(void)
{
	struct ibv_context **list = rdma_get_devices(NULL);

	if (list)
		rdma_free_devices(list);
}

const struct verbs verbs_system = {
	.name = "system",
	.soft = false,
	.mem_alloc = system_mem_alloc,
	.mem_free = system_mem_free,
	.get_device_list = ibv_get_device_list,
	.free_device_list = ibv_free_device_list,
	.get_device_guid = ibv_get_device_guid,
	.open_device = ibv_open_device,
	.close_device = ibv_close_device,
	.forget_devices = system_forget_devices,
	.query_device = ibv_query_device,
	.query_port = system_query_port,
	.query_gid = ibv_query_gid,
	.query_pkey = ibv_query_pkey,
	.get_async_event = ibv_get_async_event,
	.ack_async_event = ibv_ack_async_event,
	.alloc_pd = ibv_alloc_pd,
	.dealloc_pd = ibv_dealloc_pd,
	.reg_mr = ibv_reg_mr,
	.dereg_mr = ibv_dereg_mr,
	.create_ah = ibv_create_ah,
	.destroy_ah = ibv_destroy_ah,
	.create_comp_channel = ibv_create_comp_channel,
	.destroy_comp_channel = ibv_destroy_comp_channel,
	.create_cq = ibv_create_cq,
	.destroy_cq = ibv_destroy_cq,
	.get_cq_event = ibv_get_cq_event,
	.ack_cq_events = ibv_ack_cq_events,
	.create_srq = ibv_create_srq,
	.modify_srq = ibv_modify_srq,
	.query_srq = ibv_query_srq,
	.destroy_srq = ibv_destroy_srq,
	.create_qp = ibv_create_qp,
	.modify_qp = ibv_modify_qp,
	.query_qp = ibv_query_qp,
	.destroy_qp = ibv_destroy_qp,
	.create_event_channel = rdma_create_event_channel,
	.destroy_event_channel = rdma_destroy_event_channel,
	.create_id = rdma_create_id,
	.destroy_id = rdma_destroy_id,
	.bind_addr = rdma_bind_addr,
	.resolve_addr = rdma_resolve_addr,
	.resolve_route = rdma_resolve_route,
	.connect = rdma_connect,
	.establish = rdma_establish,
	.listen = rdma_listen,
	.accept = rdma_accept,
	.reject = rdma_reject,
	.disconnect = rdma_disconnect,
	.init_qp_attr = rdma_init_qp_attr,
	.get_cm_event = rdma_get_cm_event,
	.ack_cm_event = rdma_ack_cm_event,
	.set_option = rdma_set_option,
	.get_src_port = rdma_get_src_port,
};

#ifdef WITH_SOFTVERBS
#include "common/softverbs/softverbs.h"

static int soft_mem_alloc(size_t size_bytes, int kind, void **addr)
{
	return sv_mem_alloc(size_bytes, kind == VERBS_MEM_READ ? SV_MEM_SEALED : 0, addr);
}

static int soft_mem_free(void *addr, size_t size_bytes)
{
	(void)size_bytes;
	return sv_mem_free(addr);
}

static void soft_forget_devices(void)
{
}

static const struct verbs soft = {
	.name = "soft",
	.soft = true,
	.mem_alloc = soft_mem_alloc,
	.mem_free = soft_mem_free,
	.get_device_list = sv_get_device_list,
	.free_device_list = sv_free_device_list,
	.get_device_guid = sv_get_device_guid,
	.open_device = sv_open_device,
	.close_device = sv_close_device,
	.forget_devices = soft_forget_devices,
	.listens_elsewhere = sv_listens_elsewhere,
	.query_device = sv_query_device,
	.query_port = sv_query_port,
	.query_gid = sv_query_gid,
	.query_pkey = sv_query_pkey,
	.get_async_event = sv_get_async_event,
	.ack_async_event = sv_ack_async_event,
	.alloc_pd = sv_alloc_pd,
	.dealloc_pd = sv_dealloc_pd,
	.reg_mr = sv_reg_mr,
	.dereg_mr = sv_dereg_mr,
	.create_ah = sv_create_ah,
	.destroy_ah = sv_destroy_ah,
	.create_comp_channel = sv_create_comp_channel,
	.destroy_comp_channel = sv_destroy_comp_channel,
	.create_cq = sv_create_cq,
	.destroy_cq = sv_destroy_cq,
	.get_cq_event = sv_get_cq_event,
	.ack_cq_events = sv_ack_cq_events,
	.create_srq = sv_create_srq,
	.modify_srq = sv_modify_srq,
	.query_srq = sv_query_srq,
	.destroy_srq = sv_destroy_srq,
	.create_qp = sv_create_qp,
	.modify_qp = sv_modify_qp,
	.query_qp = sv_query_qp,
	.destroy_qp = sv_destroy_qp,
	.create_event_channel = sv_create_event_channel,
	.destroy_event_channel = sv_destroy_event_channel,
	.create_id = sv_create_id,
	.destroy_id = sv_destroy_id,
	.bind_addr = sv_bind_addr,
	.resolve_addr = sv_resolve_addr,
	.resolve_route = sv_resolve_route,
	.connect = sv_connect,
	.establish = sv_establish,
	.listen = sv_listen,
	.accept = sv_accept,
	.reject = sv_reject,
	.disconnect = sv_disconnect,
	.init_qp_attr = sv_init_qp_attr,
	.get_cm_event = sv_get_cm_event,
	.ack_cm_event = sv_ack_cm_event,
	.set_option = sv_set_option,
	.get_src_port = sv_get_src_port,
};
const struct verbs *const verbs_soft = &soft;
#else
const struct verbs *const verbs_soft = NULL;
#endif

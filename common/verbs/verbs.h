/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs.h -- the table through which the store calls RDMA control functions.
 *
 * Two instances: the system's libibverbs and librdmacm, and the software
 * device.  Data verbs stay the inline functions of <infiniband/verbs.h>, which
 * both serve through the context.  Each member has the signature and the
 * errors of the library function it is named after.
 */
#ifndef COMMON_VERBS_VERBS_H
#define COMMON_VERBS_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* <infiniband/verbs.h> wraps these in macros that call the library by name. */
#undef ibv_reg_mr
#undef ibv_query_port

struct verbs {
	const char *name; /* "system" or "soft" */
	bool soft;

	/* Memory for regions that peers read (VERBS_MEM_READ) or also change
	 * by atomics (VERBS_MEM_ATOMIC), zeroed, page aligned.  0 or an errno
	 * value.  mem_free takes the size that mem_alloc took. */
	int (*mem_alloc)(size_t size_bytes, int kind, void **addr);
	int (*mem_free)(void *addr, size_t size_bytes);

	struct ibv_device **(*get_device_list)(int *num);
	void (*free_device_list)(struct ibv_device **list);
	__be64 (*get_device_guid)(struct ibv_device *device);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *ctx);
	/* Closes rdma_cm's own contexts of devices that are gone and of which nothing is
	 * in use: until then the kernel can't let go of them. */
	void (*forget_devices)(void);
	/* The software device only, else NULL: a process that this one can't reach, as it is
	 * another user's, listens on the port; the name of its fabric, which is the user's
	 * number unless SOFTVERBS_FABRIC says another. */
	bool (*listens_elsewhere)(uint16_t port, char *fabric, size_t fabric_bytes);
	int (*query_device)(struct ibv_context *ctx, struct ibv_device_attr *attr);
	int (*query_port)(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr);
	int (*query_gid)(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid);
	int (*query_pkey)(struct ibv_context *ctx, uint8_t port, int index, __be16 *pkey);
	int (*get_async_event)(struct ibv_context *ctx, struct ibv_async_event *event);
	void (*ack_async_event)(struct ibv_async_event *event);

	struct ibv_pd *(*alloc_pd)(struct ibv_context *ctx);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access);
	int (*dereg_mr)(struct ibv_mr *mr);

	struct ibv_ah *(*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
	int (*destroy_ah)(struct ibv_ah *ah);

	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *ctx);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	struct ibv_cq *(*create_cq)(struct ibv_context *ctx, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int comp_vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq,
			    void **cq_context);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned int nevents);

	struct ibv_srq *(*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
	int (*modify_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
	int (*query_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr);
	int (*destroy_srq)(struct ibv_srq *srq);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			struct ibv_qp_init_attr *init_attr);
	int (*destroy_qp)(struct ibv_qp *qp);

	struct rdma_event_channel *(*create_event_channel)(void);
	void (*destroy_event_channel)(struct rdma_event_channel *channel);
	int (*create_id)(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			 enum rdma_port_space ps);
	int (*destroy_id)(struct rdma_cm_id *id);
	int (*bind_addr)(struct rdma_cm_id *id, struct sockaddr *addr);
	int (*resolve_addr)(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
			    int timeout_ms);
	int (*resolve_route)(struct rdma_cm_id *id, int timeout_ms);
	int (*connect)(struct rdma_cm_id *id, struct rdma_conn_param *param);
	int (*establish)(struct rdma_cm_id *id);
	int (*listen)(struct rdma_cm_id *id, int backlog);
	int (*accept)(struct rdma_cm_id *id, struct rdma_conn_param *param);
	int (*reject)(struct rdma_cm_id *id, const void *data, uint8_t bytes);
	int (*disconnect)(struct rdma_cm_id *id);
	int (*init_qp_attr)(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask);
	int (*get_cm_event)(struct rdma_event_channel *channel, struct rdma_cm_event **event);
	int (*ack_cm_event)(struct rdma_cm_event *event);
	int (*set_option)(struct rdma_cm_id *id, int level, int optname, void *optval,
			  size_t optlen);
	__be16 (*get_src_port)(struct rdma_cm_id *id);
};

#define VERBS_MEM_READ 0
#define VERBS_MEM_ATOMIC 1

extern const struct verbs verbs_system;
/* NULL when built with --disable-softverbs. */
extern const struct verbs *const verbs_soft;

#endif

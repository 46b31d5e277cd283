/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * softverbs.h -- an RDMA device in software, for processes of one host.
 *
 * Every sv_X() has the signature, the ownership rules and the errors of the
 * libibverbs or librdmacm function X(); objects are the structs of
 * <infiniband/verbs.h> and <rdma/rdma_cma.h>.  Data verbs (ibv_post_send,
 * ibv_post_recv, ibv_post_srq_recv, ibv_poll_cq, ibv_req_notify_cq) are the
 * inline functions of <infiniband/verbs.h>: they reach the device through the
 * context.  The module knows nothing of the program that uses it.
 *
 * Processes: those of one user, or root, that share a network namespace.  Each is
 * found under an abstract unix address, in a fabric named by SOFTVERBS_FABRIC (the
 * user id, if it is not set).  Nothing is left behind by a process, however it ends.
 * A process needs some six descriptors for each other process that it talks to.
 *
 * What differs from a NIC, or is worth knowing:
 *  - RC, UC, UD and XRC queue pairs only; others fail with EOPNOTSUPP.  UC loses what the peer
 *    refuses, has no receive for, or is not there for, and nothing else.  UD the same, and
 *    what a receiver leaves no room for within a second; see sv_dropped().  The end of a UD
 *    queue pair waits until what was posted is sent, or nothing was for a second.
 *  - A READ, WRITE or atomic on memory of sv_mem_alloc() runs no instruction of its
 *    owner, which may be stopped; and so does a SEND, as long as receives are
 *    posted and no more than 60 KiB or 256 messages of that sender wait to be taken.
 *    Beyond that, and for other memory, the owner's control thread has to run.
 *    An initiator waits at least 5 s (10 s for an access under way) for one.
 *  - The link between two processes is made when the first queue pair goes to RTR;
 *    nothing blocks, the first requests wait for it.  With the link come the
 *    mappings of regions that the peer may access; later ones when a region is
 *    registered or a queue pair gets more rights.
 *  - A slot of the send queue is free again when the completion of its request or of
 *    a later one was polled.  A SEND is complete when it is in the receiver's ring,
 *    except one that is longer than the shortest posted receive.
 *  - A message that was not polled when its CQ would overflow waits; only
 *    completions in the CQ itself overrun it.
 *  - Private data of connection events has InfiniBand's fixed lengths, padded with
 *    zeros: 56 bytes of a request, 196 of a response, 148 of a rejection.
 *  - Time-outs of connection management are 4 s, or SOFTVERBS_CM_TIMEOUT_MS.
 *  - sv_get_cq_event() looks for an event itself for up to 50 us, or SOFTVERBS_SPIN_US,
 *    before it sleeps, where such looks were not in vain the last time (object/channel.c).
 *  - What peers must be able to write is one mapping for all of them, so a hostile
 *    process of the same user can disturb others' messages.  It can't make its
 *    victim touch memory outside its regions.
 *
 * Threads: as libibverbs: every function may be called by any thread at any
 * time, but an object must not be destroyed while another thread uses it.  A channel
 * or a context may be ended under a thread that waits for its next event: as in a system
 * call, that thread goes on waiting, and keeps what it needs.
 *
 * fork: a child must not use objects of its parent.  It may open the device anew.
 */
#ifndef COMMON_SOFTVERBS_SOFTVERBS_H
#define COMMON_SOFTVERBS_SOFTVERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* The device's name in device lists.  SOFTVERBS_DEVICES (1 to 4) makes more of them, for tests:
 * soft1 has the address 127.0.0.2, soft2 127.0.0.3, soft3 127.0.0.4, soft0 all others.  What is
 * made on one can't be used with another. */
#define SV_DEVICE_NAME "soft0"

/* True if it is the software device, or one of them. */
int sv_is_soft(const struct ibv_device *device);

/*
 * Memory that peers can map: a READ or an atomic on a region that was
 * registered in it costs a copy and no instruction of its owner.  Memory from
 * elsewhere may be registered too; its owner's control thread then serves
 * remote accesses to it.
 *
 * SV_MEM_SEALED: no peer can ever map it writable (F_SEAL_FUTURE_WRITE);
 *                registering it with remote WRITE or ATOMIC fails with EPERM.
 *
 * size_bytes is rounded up to whole pages.  The memory is zeroed, and not
 * populated.  Returns 0 and sets *addr, or an errno value.  sv_mem_free() wants
 * the same address, after every region in it was deregistered.
 */
#define SV_MEM_SEALED 1
int sv_mem_alloc(size_t size_bytes, int flags, void **addr);
int sv_mem_free(void *addr);

/* Whether a process of another fabric listens on this port, of whatever address: this one
 * can't reach it.  Sets the fabric's name then.  Reads /proc/net/unix. */
bool sv_listens_elsewhere(uint16_t port, char *fabric, size_t fabric_bytes);

/* Devices */
struct ibv_device **sv_get_device_list(int *num_devices);
void sv_free_device_list(struct ibv_device **list);
__be64 sv_get_device_guid(struct ibv_device *device);
struct ibv_context *sv_open_device(struct ibv_device *device);
int sv_close_device(struct ibv_context *context);
int sv_query_device(struct ibv_context *context, struct ibv_device_attr *attr);
int sv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
int sv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
int sv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey);
int sv_get_async_event(struct ibv_context *context, struct ibv_async_event *event);
void sv_ack_async_event(struct ibv_async_event *event);

/* Protection domains and memory regions */
struct ibv_pd *sv_alloc_pd(struct ibv_context *context);
int sv_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *sv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
/* Both keys stay as they are. */
int sv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		int access);
/* EBUSY: a window is bound to it. */
int sv_dereg_mr(struct ibv_mr *mr);
/* Memory windows, of type 1 and 2B.  ibv_alloc_mw() and the others find these through the
 * context. */
struct ibv_mw *sv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int sv_dealloc_mw(struct ibv_mw *mw);
int sv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

/* Completions */
struct ibv_comp_channel *sv_create_comp_channel(struct ibv_context *context);
int sv_destroy_comp_channel(struct ibv_comp_channel *channel);
struct ibv_cq *sv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			    struct ibv_comp_channel *channel, int comp_vector);
int sv_resize_cq(struct ibv_cq *cq, int cqe);
int sv_destroy_cq(struct ibv_cq *cq);
int sv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
void sv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);

/* Queues */
struct ibv_srq *sv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
int sv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int sv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int sv_destroy_srq(struct ibv_srq *srq);
struct ibv_qp *sv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int sv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int sv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		struct ibv_qp_init_attr *init_attr);
int sv_destroy_qp(struct ibv_qp *qp);

/* Datagrams */
struct ibv_ah *sv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int sv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
		       struct ibv_grh *grh, struct ibv_ah_attr *attr);
struct ibv_ah *sv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				    uint8_t port);
int sv_destroy_ah(struct ibv_ah *ah);
/* The queue pair gets what is sent to 0xffffff at the group's address, its own as well.  Needs
 * /proc, to find the group's other members.  In up to 64 groups at once (ENOMEM); one that is in
 * some can't be destroyed (EBUSY).  Waits up to a second for a process that sends to groups and
 * doesn't answer.  The group's LID has no meaning here. */
int sv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int sv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
/* How many datagrams for it were lost because no receive was posted, or nobody took what was
 * there for a second.  Any thread. */
uint32_t sv_dropped(struct ibv_qp *qp);

/* Extended verbs.  On the software device their inline functions in
 * <infiniband/verbs.h> find these, and ibv_query_device_ex()'s, through the context, but
 * sv_qp_to_qp_ex(). */
struct ibv_cq_ex *sv_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
struct ibv_qp *sv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp_ex *sv_qp_to_qp_ex(struct ibv_qp *qp);

/* Connection management */
struct rdma_event_channel *sv_create_event_channel(void);
void sv_destroy_event_channel(struct rdma_event_channel *channel);
int sv_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		 enum rdma_port_space ps);
int sv_destroy_id(struct rdma_cm_id *id);
int sv_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
int sv_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
		    int timeout_ms);
int sv_resolve_route(struct rdma_cm_id *id, int timeout_ms);
int sv_rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int sv_rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr);
void sv_rdma_destroy_qp(struct rdma_cm_id *id);
int sv_rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
void sv_rdma_destroy_srq(struct rdma_cm_id *id);
/* The first address only.  No route data, no canonical names. */
int sv_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		   struct rdma_addrinfo **res);
void sv_freeaddrinfo(struct rdma_addrinfo *res);
int sv_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
		 struct ibv_qp_init_attr *attr);
void sv_destroy_ep(struct rdma_cm_id *id);
struct ibv_context **sv_get_devices(int *num);
void sv_free_devices(struct ibv_context **list);
int sv_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int sv_establish(struct rdma_cm_id *id);
int sv_listen(struct rdma_cm_id *id, int backlog);
int sv_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int sv_reject(struct rdma_cm_id *id, const void *data, uint8_t bytes);
int sv_disconnect(struct rdma_cm_id *id);
/* Datagrams' ids only.  An address of IPv4 is a group's as RoCE v2 writes it. */
int sv_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context);
int sv_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
			 void *context);
int sv_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr);
int sv_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask);
int sv_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
int sv_ack_cm_event(struct rdma_cm_event *event);
/* For a listener in synchronous mode, created without a channel. */
int sv_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id);
int sv_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel);
int sv_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen);
__be16 sv_get_src_port(struct rdma_cm_id *id);
__be16 sv_get_dst_port(struct rdma_cm_id *id);

/*
 * Fault injection, for tests.  spec is a list "name=value,...", as in the
 * environment variable SOFTVERBS_FAULT, which is read when the process first
 * uses the device; NULL or "" ends all of it.  Rates are per mille of requests.
 *	seed=N		the faults of the nth queue pair that the process makes follow
 *			from N, n, and its requests
 *	torn=P		a READ fetches its cache lines in random order, with pauses
 *	flip=P		one random bit of what a READ fetched is wrong
 *	ack_lost=P	an atomic is applied, and ends in IBV_WC_RETRY_EXC_ERR
 *	error=P		a request ends in IBV_WC_GENERAL_ERR and is not executed
 *	rnr=P		a SEND finds the receiver not ready, once
 *	delay_us=N	each request waits that long before it is executed
 *	noncoherent=1	remote atomics are atomic among each other, not to CPUs
 *	overrun=P	the send CQ overruns at a completion
 *	partition=1	no peer answers
 *	kill_at=N	the process's Nth request since faults were set first kills it
 *	kill_after=N	the same, after its execution and before its completion
 *	freeze_at=N	the process stops itself there (SIGSTOP)
 *	event_at=N	there the device raises the asynchronous event that event= says, a
 *			number of enum ibv_event_type, of port 1 or the request's queues
 *	qp=N		all of it only in the Nth queue pair that the process makes
 *	device=N	all of it only in queue pairs of the device softN
 * They apply to requests that this process posts; noncoherent must be set in
 * every process that issues atomics.  Returns 0, or EINVAL and changes nothing.
 * The file that SOFTVERBS_FAULT_LOG names gets a line with the name of each fault of a rate
 * that was injected.
 */
int sv_fault_set(const char *spec);

#endif

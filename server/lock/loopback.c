/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/lock/loopback.h"

#include <errno.h>
#include <arpa/inet.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/rdma/link.h"

#define CAS_NS_MAX 5000000000ull
#define GIDS_MAX 64

struct loopback {
	struct loopback_config config;
	struct ibv_cq *cq;
	struct ibv_qp *qp[2]; /* the first does the work on the second */
	uint64_t *result;
	struct ibv_mr *mr;
};

/* The GID of the address that kvd serves; the first one if none is. */
static int find_gid(const struct loopback_config *s, union ibv_gid *gid)
{
	union ibv_gid want = { .raw = { [10] = 0xff, [11] = 0xff } };
	int found = -1;

	if (s->addr.sa.sa_family == AF_INET6)
		memcpy(want.raw, &s->addr.v6.sin6_addr, 16);
	else
		memcpy(want.raw + 12, &s->addr.v4.sin_addr, 4);
	for (int i = 0; i < GIDS_MAX; i++) {
		if (s->verbs->query_gid(s->ctx, s->port, i, gid))
			break;
		/* The same address may stand for RoCE v1 and v2: the later is v2. */
		if (!memcmp(gid->raw, want.raw, 16))
			found = i;
	}
	if (found < 0)
		found = 0;
	return s->verbs->query_gid(s->ctx, s->port, found, gid) ? -1 : found;
}

static int to_init(const struct loopback_config *s, struct ibv_qp *qp, int access)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = s->port,
				    .qp_access_flags = (unsigned)access };

	return s->verbs->modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						      IBV_QP_ACCESS_FLAGS);
}

static int to_ready(const struct loopback_config *s, struct ibv_qp *qp, uint32_t peer,
		    const struct ibv_port_attr *port, const union ibv_gid *gid, int gid_index)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = port->active_mtu,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .dlid = port->lid, .port_num = s->port,
			     .is_global = port->link_layer == IBV_LINK_LAYER_ETHERNET,
			     .grh = { .dgid = *gid, .sgid_index = (uint8_t)gid_index,
				      .hop_limit = 64 } },
	};
	int rc = s->verbs->modify_qp(qp, &attr,
				     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (rc)
		return rc;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 6,
				     .rnr_retry = 7, .max_rd_atomic = 1 };
	return s->verbs->modify_qp(qp, &attr,
				   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					   IBV_QP_MAX_QP_RD_ATOMIC);
}

static int connect_pair(struct loopback *l, struct err *err)
{
	const struct loopback_config *s = &l->config;
	struct link_config config = { .pd = s->pd, .send_cq = l->cq, .recv_cq = l->cq,
				      .send_depth = 4, .recv_depth = 1, .send_sge = 1 };
	struct ibv_port_attr port;
	union ibv_gid gid;
	uint32_t none;
	int rc = s->verbs->query_port(s->ctx, s->port, &port);
	int index = rc ? -1 : find_gid(s, &gid);

	if (rc || index < 0)
		return err_set_errno(err, -1, rc ? rc : errno, "can't find a GID for the loopback");
	for (int i = 0; i < 2; i++) {
		l->qp[i] = link_qp_new(s->verbs, &config, &none, err);
		if (!l->qp[i])
			return -1;
	}
	rc = to_init(s, l->qp[0], 0);
	if (!rc)
		rc = to_init(s, l->qp[1], IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	for (int i = 0; i < 2 && !rc; i++)
		rc = to_ready(s, l->qp[i], l->qp[1 - i]->qp_num, &port, &gid, index);
	return rc ? err_set_errno(err, -1, rc, "can't connect the loopback queue pair") : 0;
}

int loopback_new(const struct loopback_config *s, struct loopback **loopback, struct err *err)
{
	struct loopback *l = calloc(1, sizeof *l);

	if (!l)
		return err_set(err, -1, "out of memory");
	l->config = *s;
	l->cq = s->verbs->create_cq(s->ctx, 16, NULL, NULL, 0);
	int rc = posix_memalign((void **)&l->result, 4096, 4096);
	if (rc) {
		l->result = NULL;
		errno = rc;
	}
	if (l->cq && l->result)
		l->mr = s->verbs->reg_mr(s->pd, l->result, 4096, IBV_ACCESS_LOCAL_WRITE);
	if (!l->mr)
		err_set_errno(err, -1, errno, "can't make the loopback's completion queue or memory");
	if (!l->mr || connect_pair(l, err)) {
		loopback_delete(&l);
		return -1;
	}
	*loopback = l;
	return 0;
}

void loopback_delete(struct loopback **loopback)
{
	struct loopback *l = *loopback;

	if (!l)
		return;
	const struct verbs *v = l->config.verbs;
	for (int i = 0; i < 2; i++)
		if (l->qp[i])
			v->destroy_qp(l->qp[i]);
	if (l->mr)
		v->dereg_mr(l->mr);
	if (l->cq)
		v->destroy_cq(l->cq);
	free(l->result);
	free(l);
	*loopback = NULL;
}

static int wait_completion(struct loopback *l, struct err *err)
{
	uint64_t end = clock_ns() + CAS_NS_MAX;
	struct ibv_wc wc;

	for (;;) {
		int n = ibv_poll_cq(l->cq, 1, &wc);
		if (n < 0)
			return err_set(err, -1, "polling the loopback's completion queue failed");
		if (n > 0)
			break;
		if (clock_ns() > end)
			return err_set(err, -1, "an atomic through the loopback takes for ever");
		sched_yield();
	}
	if (wc.status != IBV_WC_SUCCESS)
		return err_set(err, -1, "an atomic through the loopback failed: %s (vendor error 0x%x)",
			       ibv_wc_status_str(wc.status), wc.vendor_err);
	return 0;
}

int loopback_cas(struct loopback *l, uint64_t stripe, uint64_t expected, uint64_t desired,
		 uint64_t *old, struct err *err)
{
	struct ibv_sge sge = { (uintptr_t)l->result, 8, l->mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = { .remote_addr = (uintptr_t)&l->config.locks[stripe],
			       .rkey = l->config.rkey,
			       .compare_add = expected,
			       .swap = desired },
	}, *bad;
	int rc = ibv_post_send(l->qp[0], &wr, &bad);

	if (rc)
		return err_set_errno(err, -1, rc, "posting an atomic to the loopback failed");
	if (wait_completion(l, err))
		return -1;
	*old = *l->result;
	return 0;
}

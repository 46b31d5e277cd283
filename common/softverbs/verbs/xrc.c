/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * xrc.c -- XRC: domains, shared receive queues that are found by number, and their queue pairs.
 *
 * A domain is an inode, so that processes share one by a file, or a random number.  Its target
 * queue pairs receive nothing themselves: they say to whom they are connected, with which rights.
 *
 * Happy path: a sender's first request to a receive queue asks the queue's process, which makes a
 * queue pair for it: RC, on the receive queue and its completion queue, connected to the
 * sender.  The program does not see it, and its completions bear the target's number.  From then on
 * the sender executes its requests on it (object/branch.h), as on any other connection.
 *
 * Failure: no such receive queue, or of another domain: the sender's request fails as
 * invalid.
 *
 * Teardown: the sender leaves, or its process dies: what it had sent is still taken, and the
 * queue pair goes when no completion of it is left.  With the receive queue it goes at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "common/softverbs/base/fd.h"
#include "common/softverbs/base/limits.h"
#include "common/softverbs/base/name.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/serve.h"
#include "common/softverbs/object/branch.h"
#include "common/softverbs/object/mr.h"
#include "common/softverbs/softverbs.h"
#include "common/softverbs/verbs/qp_state.h"
#include "common/softverbs/verbs/xrc.h"

#define DOMAIN "xd"

struct sv_xrcd {
	struct ibv_xrcd ib;
	uint64_t id;
	int name_fd;
	/* What a target queue pair has to have, and never uses. */
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	_Atomic unsigned int users;
};

/* A queue pair that was made for a sender. */
struct joint {
	struct joint *next;
	struct sv_qp *qp;
	uint32_t sender_qpn;
	bool left; /* the sender has */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct joint *joints; /* lock */

static struct sv_xrcd *xrcd_of(struct ibv_xrcd *xrcd)
{
	return SV_CONTAINER(xrcd, struct sv_xrcd, ib);
}

/* ---- domains ---- */

static void count(void *arg, const char *rest)
{
	(void)rest;
	++*(uint32_t *)arg;
}

/* The domain's number: that of a file, or a random one. */
static int identify(int fd, uint64_t *id)
{
	struct stat st;
	int ret = 0;

	if (fd == -1)
		ret = sv_random(id, sizeof(*id));
	else if (fstat(fd, &st))
		ret = EBADF;
	else
		*id = (uint64_t)st.st_dev * 0x9e3779b97f4a7c15ull ^ (uint64_t)st.st_ino;
	*id |= 1ull << 63; /* never 0 */
	return ret;
}

/* Whether it may be opened so, and its name, by which others see that it is there. */
static int take_name(struct sv_xrcd *xrcd, int oflags)
{
	static _Atomic uint32_t opened;
	char name[48], prefix[24];
	uint32_t n = 0;
	int ret;

	snprintf(prefix, sizeof(prefix), "%016llx/", (unsigned long long)xrcd->id);
	ret = sv_name_each(DOMAIN, prefix, count, &n);
	if (ret)
		return ret;
	if (n && oflags & O_EXCL)
		return EEXIST;
	if (!n && !(oflags & O_CREAT))
		return ENOENT;
	snprintf(name, sizeof(name), "%s%u.%u", prefix, sv_proc->slot, atomic_fetch_add(&opened, 1));
	xrcd->name_fd = sv_name_take(DOMAIN, name);
	return xrcd->name_fd < 0 ? errno : 0;
}

static int check_domain(const struct ibv_xrcd_init_attr *attr)
{
	const uint32_t both = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;

	if ((attr->comp_mask & both) != both || attr->comp_mask & ~both ||
	    attr->oflags & ~(O_CREAT | O_EXCL))
		return EINVAL;
	/* Nobody else could have opened it. */
	return attr->fd == -1 && !(attr->oflags & O_CREAT) ? EINVAL : 0;
}

struct ibv_xrcd *sv_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	struct sv_xrcd *xrcd;
	int ret = check_domain(attr);

	if (ret)
		goto err;
	ret = ENOMEM;
	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		goto err;
	ret = identify(attr->fd, &xrcd->id);
	if (!ret)
		ret = take_name(xrcd, attr->oflags);
	if (ret)
		goto err_xrcd;
	ret = ENOMEM;
	xrcd->ib.context = context;
	xrcd->pd = sv_alloc_pd(context);
	xrcd->cq = sv_create_cq(context, 1, NULL, NULL, 0);
	if (xrcd->pd && xrcd->cq)
		return &xrcd->ib;
	if (xrcd->pd)
		sv_dealloc_pd(xrcd->pd);
	if (xrcd->cq)
		sv_destroy_cq(xrcd->cq);
	sv_fd_close(xrcd->name_fd);
err_xrcd:
	free(xrcd);
err:
	errno = ret;
	return NULL;
}

int sv_close_xrcd(struct ibv_xrcd *ib)
{
	struct sv_xrcd *xrcd = xrcd_of(ib);

	if (atomic_load(&xrcd->users))
		return EBUSY;
	sv_destroy_cq(xrcd->cq);
	sv_dealloc_pd(xrcd->pd);
	sv_fd_close(xrcd->name_fd);
	free(xrcd);
	return 0;
}

/* ---- queue pairs made for senders; lock held, except where said ---- */

static void delete_joint(struct joint **at)
{
	struct joint *joint = *at;

	*at = joint->next;
	sv_destroy_qp(&joint->qp->ib);
	free(joint);
}

/* All that the sender had sent was taken and polled. */
static bool is_empty(struct sv_qp *qp)
{
	bool empty;

	sv_qp_lock_receive(qp);
	empty = (qp->rx_closed || qp->rx_head == atomic_load(&qp->rw->tail)) &&
		!sv_cq_holds_locked(sv_cq_of(qp->ib.recv_cq), qp);
	sv_qp_unlock_receive(qp);
	return empty;
}

static void sweep(void)
{
	struct joint **at = &joints;

	while (*at) {
		if ((*at)->left && is_empty((*at)->qp))
			delete_joint(at);
		else
			at = &(*at)->next;
	}
}

/* No lock held.  Of all senders of a process (index 0), or of one. */
static void part(uint32_t sender_qpn, uint32_t index)
{
	pthread_mutex_lock(&lock);
	for (struct joint *joint = joints; joint; joint = joint->next) {
		if (index ? joint->sender_qpn == sender_qpn && joint->qp->index == index :
			    sv_qpn_slot(joint->sender_qpn) == sv_qpn_slot(sender_qpn))
			joint->left = true;
	}
	sweep();
	pthread_mutex_unlock(&lock);
}

/* Its receive queue ends; no lock held. */
static void end_srq(struct sv_srq *srq)
{
	struct joint **at = &joints;

	pthread_mutex_lock(&lock);
	srq->closed = true;
	while (*at) {
		if ((*at)->qp->ib.srq == &srq->ib)
			delete_joint(at);
		else
			at = &(*at)->next;
	}
	pthread_mutex_unlock(&lock);
	atomic_fetch_sub(&xrcd_of(srq->xrcd)->users, 1);
	atomic_fetch_sub(&sv_cq_of(srq->cq)->users, 1);
}

static struct sv_srq *find_srq(const struct sv_msg *msg)
{
	struct sv_srq *srq;

	if (msg->index >= SV_SRQS)
		return NULL;
	/* One that is no XRC's may go when this is unlocked; others can't, before end_srq(). */
	pthread_mutex_lock(&sv_proc->lock);
	srq = sv_proc->srq[msg->index];
	if (srq && (!srq->xrcd || srq->closed || xrcd_of(srq->xrcd)->id != msg->addr))
		srq = NULL;
	pthread_mutex_unlock(&sv_proc->lock);
	return srq;
}

static int connect_joint(struct ibv_qp *qp, const struct sv_msg *msg)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				    .qp_access_flags = msg->write };
	int ret = sv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						  IBV_QP_ACCESS_FLAGS);

	if (ret)
		return ret;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .dest_qp_num = msg->src_qpn,
				     .min_rnr_timer = (uint8_t)(msg->stage & 31),
				     .max_dest_rd_atomic = (uint8_t)(msg->bytes % (SV_MAX_RD_ATOMIC + 1)) };
	return sv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					       IBV_QP_MIN_RNR_TIMER);
}

static int make_joint(struct sv_srq *srq, const struct sv_msg *msg, uint32_t *index)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .send_cq = srq->cq, .recv_cq = srq->cq,
					 .srq = &srq->ib, .cap = { .max_send_wr = 1 } };
	struct joint *joint = calloc(1, sizeof(*joint));
	struct ibv_qp *qp = joint ? sv_qp_new(srq->ib.pd, &init) : NULL;
	int ret;

	if (!qp) {
		free(joint);
		return ENOMEM;
	}
	joint->qp = sv_qp_of(qp);
	joint->qp->hidden = true;
	qp->qp_num = msg->mem;
	joint->sender_qpn = msg->src_qpn;
	joint->next = joints;
	joints = joint;
	*index = joint->qp->index;
	ret = connect_joint(qp, msg);
	joint->left = ret != 0;
	return ret;
}

/* No lock held; control thread. */
static uint32_t join(const struct sv_msg *msg, uint32_t *index)
{
	struct sv_srq *srq;
	int ret = EINVAL;

	pthread_mutex_lock(&lock);
	sweep();
	srq = find_srq(msg);
	if (srq)
		ret = make_joint(srq, msg, index);
	pthread_mutex_unlock(&lock);
	return (uint32_t)ret;
}

/* The sender is of this process. */
static void join_own(struct sv_qp *qp)
{
	struct sv_msg msg;

	while (sv_branch_own_request(qp, &msg)) {
		msg.status = join(&msg, &msg.index);
		sv_branch_answered(&msg);
	}
}

/* ---- shared receive queues ---- */

struct ibv_srq *sv_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t all = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ;
	/* It begins with the members of struct ibv_srq_init_attr. */
	struct ibv_srq_init_attr *plain = (struct ibv_srq_init_attr *)(void *)attr;
	struct ibv_srq *ib;
	struct sv_srq *srq;

	(void)context;
	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type == IBV_SRQT_TM) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (attr->comp_mask != all || attr->srq_type != IBV_SRQT_XRC || !attr->pd || !attr->xrcd || !attr->cq) {
		errno = EINVAL;
		return NULL;
	}
	ib = sv_create_srq(attr->pd, plain);
	if (!ib)
		return NULL;
	srq = sv_srq_of(ib);
	srq->cq = attr->cq;
	srq->ended = end_srq;
	atomic_fetch_add(&xrcd_of(attr->xrcd)->users, 1);
	atomic_fetch_add(&sv_cq_of(attr->cq)->users, 1);
	pthread_mutex_lock(&lock);
	srq->xrcd = attr->xrcd; /* found from now on */
	pthread_mutex_unlock(&lock);
	return ib;
}

int sv_get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
	if (!sv_srq_of(srq)->xrcd)
		return EINVAL;
	*number = sv_qpn(sv_proc->slot, srq->handle);
	return 0;
}

/* ---- queue pairs ---- */

struct ibv_qp *sv_xrc_new_target(struct ibv_qp_init_attr_ex *init)
{
	struct sv_xrcd *xrcd = xrcd_of(init->xrcd);
	struct ibv_qp_init_attr plain = { .qp_context = init->qp_context, .qp_type = IBV_QPT_XRC_RECV,
					  .send_cq = xrcd->cq, .recv_cq = xrcd->cq,
					  .cap = { .max_send_wr = 1 } };
	struct ibv_qp *qp = sv_qp_new(xrcd->pd, &plain);

	if (!qp)
		return NULL;
	sv_qp_of(qp)->domain_users = &xrcd->users;
	atomic_store(&sv_qp_of(qp)->ro->domain, xrcd->id);
	atomic_fetch_add(&xrcd->users, 1);
	return qp;
}

static void all_part(uint32_t slot)
{
	part(sv_qpn(slot, 0), 0);
}

void sv_xrc_start(void)
{
	static const struct sv_join_hooks hooks = { .join = join, .join_own = join_own, .part = part,
						    .all_part = all_part };

	pthread_mutex_init(&lock, NULL); /* in a forked child, both are the parent's */
	joints = NULL;
	sv_serve_on_join(&hooks);
	sv_branch_on_part(part);
}

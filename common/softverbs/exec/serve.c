/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * serve.c -- answers to other processes; all of it runs on the control thread.
 *
 * Who they are and what they were given: peer/guest.c.
 *
 * Every right is checked here against this process's own tables: the asker's
 * queue pair must be connected to the one that it names.  An asker that breaks the
 * protocol, or does not read its answers, loses the link; nothing waits for it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <sys/epoll.h>
#include "common/softverbs/base/atomic.h"
#include "common/softverbs/base/compiler.h"
#include "common/softverbs/base/copy.h"
#include "common/softverbs/base/fd.h"
#include "common/softverbs/base/mem.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/exec/dgram.h"
#include "common/softverbs/exec/serve.h"
#include "common/softverbs/object/channel.h"
#include "common/softverbs/object/mr.h"
#include "common/softverbs/object/qp.h"
#include "common/softverbs/peer/guest.h"
#include "common/softverbs/peer/msg.h"

#define ACCEPTS_PER_WAKE 64
#define ASKS_PER_WAKE 16

static struct sv_watch listener;
static const struct sv_join_hooks *joins;

void sv_serve_on_join(const struct sv_join_hooks *hooks)
{
	joins = hooks;
}

void sv_serve_join_own(struct sv_qp *qp)
{
	joins->join_own(qp);
}

/* ---- answers ---- */

static int on_hello(struct sv_guest *guest, const struct sv_msg *msg)
{
	struct sv_msg answer = { .type = SV_MSG_HELLO_OK, .abi = SV_ABI_VERSION,
				 .slot = sv_proc->slot, .incarnation = sv_proc->incarnation };
	int fds[3] = { sv_proc->ro_fd, sv_proc->rw_fd, sv_proc->kick_fd };

	if (guest->greeted || msg->abi != SV_ABI_VERSION || msg->slot >= SV_SLOTS)
		return EPROTO;
	sv_guest_greet(guest, msg->slot, msg->incarnation);
	/* Last: whoever has a link has all that it may use, and need not ask. */
	return sv_msg_send(guest->watch.fd, &answer, fds, 3);
}

static int on_chan(struct sv_guest *guest, const struct sv_msg *msg)
{
	struct sv_msg answer = { .type = SV_MSG_CHAN_OK, .mem = msg->mem };
	int fd = sv_chan_dup(msg->mem);
	int ret = sv_msg_send(guest->watch.fd, &answer, &fd, fd >= 0);

	sv_fd_close(fd);
	return ret;
}

/* The rights of an asker's access, from this process's own tables. */
static uint32_t check_access(const struct sv_guest *guest, const struct sv_msg *msg,
			     uint32_t right, uint64_t bytes, struct sv_target *target)
{
	const struct sv_ro_qp *ro = &sv_proc->ro->qp[msg->index % SV_QPS];
	uint32_t state = atomic_load(&ro->state);

	if (msg->index >= SV_QPS || sv_qpn_slot(msg->src_qpn) != guest->slot ||
	    atomic_load(&ro->dest_qpn) != msg->src_qpn || state < IBV_QPS_RTR ||
	    state > IBV_QPS_SQE)
		return IBV_WC_REM_ABORT_ERR;
	if (right != IBV_ACCESS_REMOTE_WRITE && !atomic_load(&ro->rd_atomic))
		return IBV_WC_REM_INV_REQ_ERR;
	if (!(atomic_load(&ro->access) & right) ||
	    sv_mr_check(sv_proc->ro, msg->rkey, atomic_load(&ro->pd),
			sv_qpn(sv_proc->slot, msg->index), msg->addr, bytes, right, target))
		return IBV_WC_REM_ACCESS_ERR;
	return IBV_WC_SUCCESS;
}

static uint32_t right_of(uint32_t opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_READ:
		return IBV_ACCESS_REMOTE_READ;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_ACCESS_REMOTE_WRITE;
	default:
		return IBV_ACCESS_REMOTE_ATOMIC;
	}
}

static int on_map(struct sv_guest *guest, const struct sv_msg *msg)
{
	struct sv_msg answer = { .type = SV_MSG_MAP_OK, .mem = msg->mem, .write = msg->write };
	struct sv_target target;
	uint32_t right = right_of(msg->opcode);
	int fd = -1, ret;

	if (check_access(guest, msg, right, msg->bytes64, &target) || target.mem != msg->mem ||
	    (msg->write && right == IBV_ACCESS_REMOTE_READ)) {
		answer.status = EACCES;
	} else {
		answer.write = right != IBV_ACCESS_REMOTE_READ;
		fd = sv_mem_export(msg->mem, answer.write, &answer.bytes64);
		if (fd < 0)
			answer.status = ENOTSUP;
		else
			sv_guest_remember(guest, msg->mem, answer.write);
	}
	ret = sv_msg_send(guest->watch.fd, &answer, &fd, fd >= 0);
	sv_fd_close(fd);
	return ret;
}

static int on_stage(struct sv_guest *guest, const int *fds, int nfds)
{
	if (guest->stage || nfds != 1)
		return EPROTO;
	guest->stage = sv_map_received(fds[0], SV_STAGES * SV_STAGE_BYTES, true);
	return guest->stage ? 0 : EPROTO;
}

/* That of the queue pair that is asked. */
static uint32_t device_of(const struct sv_msg *msg)
{
	struct sv_qp *qp = sv_qp_get(msg->index % SV_QPS);
	uint32_t device = qp ? sv_device_index(qp->ib.context->device) : 0;

	if (qp)
		sv_qp_put(qp);
	return device;
}

static uint32_t do_access(const struct sv_guest *guest, const struct sv_msg *msg,
			  uint64_t *result)
{
	uint8_t *stage = guest->stage + (size_t)msg->stage * SV_STAGE_BYTES;
	void *at = (void *)(uintptr_t)msg->addr;
	uint32_t right = right_of(msg->opcode), status;
	struct sv_target target;
	bool is_atomic = right == IBV_ACCESS_REMOTE_ATOMIC;

	if (is_atomic && (msg->addr % 8 || msg->bytes != 8))
		return IBV_WC_REM_INV_REQ_ERR;
	status = check_access(guest, msg, right, msg->bytes, &target);
	if (status)
		return status;
	if (is_atomic)
		*result = sv_atomic_execute(device_of(msg), at, msg->opcode, msg->compare_add,
					    msg->swap);
	else if (right == IBV_ACCESS_REMOTE_READ)
		sv_copy_from_shared(stage, at, msg->bytes);
	else
		sv_copy_to_shared(at, stage, msg->bytes);
	return IBV_WC_SUCCESS;
}

static int on_access(struct sv_guest *guest, const struct sv_msg *msg)
{
	struct sv_msg answer = *msg;
	struct sv_qp *qp;

	if (!guest->stage || msg->stage >= SV_STAGES || msg->bytes > SV_STAGE_BYTES)
		return EPROTO;
	answer.type = SV_MSG_ACCESS_OK;
	/* A region is looked up and used in one piece: sv_dereg_mr() waits for its end. */
	pthread_mutex_lock(&sv_proc->serving);
	answer.status = do_access(guest, msg, &answer.swap);
	pthread_mutex_unlock(&sv_proc->serving);
	if (answer.status == IBV_WC_REM_ACCESS_ERR || answer.status == IBV_WC_REM_INV_REQ_ERR) {
		qp = sv_qp_get(msg->index % SV_QPS);
		if (qp && !sv_qp_unreliable(qp))
			sv_qp_fail_later(qp, answer.status == IBV_WC_REM_ACCESS_ERR ?
						     SV_FAULT_ACCESS :
						     SV_FAULT_REQUEST);
		if (qp)
			sv_qp_put(qp);
	}
	return sv_msg_send(guest->watch.fd, &answer, NULL, 0);
}

/* A sender asks for itself only. */
static int on_join(struct sv_guest *guest, const struct sv_msg *msg)
{
	struct sv_msg answer = *msg;

	if (sv_qpn_slot(msg->src_qpn) != guest->slot)
		return EPROTO;
	answer.type = SV_MSG_JOIN_OK;
	answer.index = 0;
	answer.status = joins->join(msg, &answer.index);
	return sv_msg_send(guest->watch.fd, &answer, NULL, 0);
}

static int on_part(struct sv_guest *guest, const struct sv_msg *msg)
{
	if (sv_qpn_slot(msg->src_qpn) != guest->slot || !msg->index)
		return EPROTO;
	joins->part(msg->src_qpn, msg->index);
	return 0;
}

static int dispatch(struct sv_guest *guest, const struct sv_msg *msg, const int *fds, int nfds)
{
	if (msg->type == SV_MSG_HELLO)
		return on_hello(guest, msg);
	if (!guest->greeted)
		return EPROTO;
	switch (msg->type) {
	case SV_MSG_CHAN:
		return on_chan(guest, msg);
	case SV_MSG_MAP:
		return on_map(guest, msg);
	case SV_MSG_STAGE:
		return on_stage(guest, fds, nfds);
	case SV_MSG_ACCESS:
		return on_access(guest, msg);
	case SV_MSG_JOIN:
		return on_join(guest, msg);
	case SV_MSG_PART:
		return on_part(guest, msg);
	default:
		return EPROTO;
	}
}

/* It has hung up, or its process is dead. */
static void lose(struct sv_guest *guest)
{
	if (guest->greeted && sv_guest_is_last(guest)) {
		sv_dgram_sender_gone(guest->incarnation);
		joins->all_part(guest->slot);
	}
	sv_guest_drop(guest);
}

static void on_guest(struct sv_watch *watch, uint32_t events)
{
	struct sv_guest *guest = SV_CONTAINER(watch, struct sv_guest, watch);
	int fds[SV_MSG_FDS], nfds;
	struct sv_msg msg;

	(void)events;
	for (int i = 0; i < ASKS_PER_WAKE && !guest->over; i++) {
		int ret = sv_msg_recv(watch->fd, &msg, fds, &nfds);

		if (ret == EAGAIN)
			return;
		if (!ret)
			ret = dispatch(guest, &msg, fds, nfds);
		for (int f = 0; f < nfds; f++)
			sv_fd_close(fds[f]);
		if (ret)
			lose(guest);
	}
}

static void on_listener(struct sv_watch *watch, uint32_t events)
{
	(void)events;
	for (int i = 0; i < ACCEPTS_PER_WAKE; i++) {
		int fd = sv_accept_bounded(watch->fd);

		if (fd < 0)
			return;
		sv_guest_add(fd, on_guest);
	}
}

int sv_serve_start(int fd)
{
	listener = (struct sv_watch){ .fd = fd, .ready = on_listener };
	return sv_watch_add(&listener, EPOLLIN);
}

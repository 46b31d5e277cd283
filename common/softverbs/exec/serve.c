/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exec/serve.c -- answers to other processes; all of it runs on the control thread.
 *
 * Every right is checked here against this process's own tables: the asker's
 * queue pair must be connected to the one that it names.  An asker that breaks the
 * protocol, or does not read its answers, loses the link; nothing waits for it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include "common/softverbs/peer/peer.h"
#include "common/softverbs/sv.h"

#define ACCEPTS_PER_WAKE 64
#define ASKS_PER_WAKE 16
#define GUEST_GIVEN_MAX 4096
#define PUSHES_MAX 64 /* at a time: they must fit into the socket */

/* ---- guests ---- */

static void release_guest(struct sv_watch *watch)
{
	struct sv_guest *guest = SV_CONTAINER(watch, struct sv_guest, watch);

	if (guest->stage)
		munmap(guest->stage, SV_STAGES * SV_STAGE_BYTES);
	free(guest->given);
	free(guest);
}

static void drop_guest(struct sv_guest *guest)
{
	struct sv_guest **at;

	pthread_mutex_lock(&sv_proc->lock);
	guest->over = true;
	for (at = &sv_proc->guests; *at != guest; at = &(*at)->next)
		;
	*at = guest->next;
	pthread_mutex_unlock(&sv_proc->lock);
	sv_watch_retire(&guest->watch);
}

static struct sv_given *find_given(struct sv_guest *guest, uint32_t mem, bool write)
{
	for (uint32_t i = 0; i < guest->ngiven; i++) {
		if (guest->given[i].mem == mem && guest->given[i].write >= write)
			return &guest->given[i];
	}
	return NULL;
}

/* sv_proc.lock held. */
static void remember_given(struct sv_guest *guest, uint32_t mem, bool write)
{
	struct sv_given *more;

	if (find_given(guest, mem, write) || guest->ngiven == GUEST_GIVEN_MAX)
		return; /* when too many, it keeps its mapping until it goes */
	more = realloc(guest->given, (guest->ngiven + 1) * sizeof(*more));
	if (!more)
		return;
	guest->given = more;
	more[guest->ngiven++] = (struct sv_given){ mem, write };
}

static bool forget_given(struct sv_guest *guest, uint32_t mem)
{
	struct sv_given *given;
	bool found = false;

	while ((given = find_given(guest, mem, false))) {
		*given = guest->given[--guest->ngiven];
		found = true;
	}
	return found;
}

void sv_serve_mem_gone(uint32_t mem)
{
	struct sv_msg msg = { .type = SV_MSG_GONE, .mem = mem };

	pthread_mutex_lock(&sv_proc->lock);
	for (struct sv_guest *guest = sv_proc->guests; guest; guest = guest->next) {
		if (forget_given(guest, mem))
			sv_msg_send(guest->watch.fd, &msg, NULL, 0);
	}
	pthread_mutex_unlock(&sv_proc->lock);
}

/* ---- memory handed over before it is asked for ---- */

/* sv_proc.lock held.  What does not fit now is asked for when it is used. */
static void push_mem(struct sv_guest *guest, const struct sv_mr *mr, bool write)
{
	struct sv_msg msg = { .type = SV_MSG_MAP_OK, .mem = mr->mem, .write = write };
	int fd;

	if (find_given(guest, mr->mem, write))
		return;
	fd = sv_mem_export(mr->mem, write, &msg.bytes64);
	if (fd < 0)
		return;
	if (!sv_msg_send(guest->watch.fd, &msg, &fd, 1))
		remember_given(guest, mr->mem, write);
	sv_fd_close(fd);
}

/* sv_proc.lock held. */
static void push_qp(struct sv_guest *guest, const struct sv_ro_qp *ro, uint32_t pd,
		    uint32_t most)
{
	const uint32_t change = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	uint32_t dest_qpn = atomic_load(&ro->dest_qpn);
	uint32_t qp_pd = atomic_load(&ro->pd);

	if (!dest_qpn || sv_qpn_slot(dest_qpn) != guest->slot || (pd && pd != qp_pd))
		return;
	for (const struct sv_mr *mr = sv_proc->mrs; mr && guest->ngiven < most; mr = mr->next) {
		uint32_t rights = mr->access & atomic_load(&ro->access);

		if (mr->pd == qp_pd && rights & (change | IBV_ACCESS_REMOTE_READ))
			push_mem(guest, mr, rights & change);
	}
}

/* sv_proc.lock held. */
static void push_guest(struct sv_guest *guest, uint32_t qp_index, uint32_t pd)
{
	uint32_t most = guest->ngiven + PUSHES_MAX;

	if (!guest->greeted)
		return;
	if (qp_index) {
		push_qp(guest, &sv_proc->ro->qp[qp_index], pd, most);
		return;
	}
	for (uint32_t i = 0; i < SV_QPS / 64; i++) {
		uint64_t bits = sv_proc->seats[i];

		for (; bits; bits &= bits - 1)
			push_qp(guest, &sv_proc->ro->qp[i * 64 + (uint32_t)__builtin_ctzll(bits)],
				pd, most);
	}
}

void sv_serve_push(uint32_t qp_index, uint32_t pd)
{
	pthread_mutex_lock(&sv_proc->lock);
	for (struct sv_guest *guest = sv_proc->guests; guest; guest = guest->next)
		push_guest(guest, qp_index, pd);
	pthread_mutex_unlock(&sv_proc->lock);
}

/* ---- answers ---- */

static int on_hello(struct sv_guest *guest, const struct sv_msg *msg)
{
	struct sv_msg answer = { .type = SV_MSG_HELLO_OK, .abi = SV_ABI_VERSION,
				 .slot = sv_proc->slot, .incarnation = sv_proc->incarnation };
	int fds[3] = { sv_proc->ro_fd, sv_proc->rw_fd, sv_proc->kick_fd };

	if (guest->greeted || msg->abi != SV_ABI_VERSION || msg->slot >= SV_SLOTS)
		return EPROTO;
	pthread_mutex_lock(&sv_proc->lock);
	guest->greeted = true;
	guest->slot = msg->slot;
	push_guest(guest, 0, 0);
	pthread_mutex_unlock(&sv_proc->lock);
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
	    sv_mr_check(sv_proc->ro, msg->rkey, atomic_load(&ro->pd), msg->addr, bytes, right,
			target))
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
		pthread_mutex_lock(&sv_proc->lock);
		if (fd >= 0)
			remember_given(guest, msg->mem, answer.write);
		pthread_mutex_unlock(&sv_proc->lock);
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

uint64_t sv_atomic_execute(void *word, uint32_t opcode, uint64_t compare_add, uint64_t swap)
{
	_Atomic uint64_t *at = word;
	uint64_t old;

	if (atomic_load(&sv_faults_on) && sv_faults.noncoherent) {
		pthread_mutex_lock(&sv_proc->nic_lock);
		old = atomic_load(at);
		sched_yield();
		if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			atomic_store(at, old + compare_add);
		else if (old == compare_add)
			atomic_store(at, swap);
		pthread_mutex_unlock(&sv_proc->nic_lock);
		return old;
	}
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return atomic_fetch_add(at, compare_add);
	old = compare_add;
	atomic_compare_exchange_strong(at, &old, swap);
	return old;
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
		*result = sv_atomic_execute(at, msg->opcode, msg->compare_add, msg->swap);
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
	default:
		return EPROTO;
	}
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
			drop_guest(guest);
	}
}

static void add_guest(int fd)
{
	struct sv_guest *guest = sv_same_user(fd) ? calloc(1, sizeof(*guest)) : NULL;

	if (!guest) {
		sv_fd_close(fd);
		return;
	}
	guest->watch.fd = fd;
	guest->watch.ready = on_guest;
	guest->watch.release = release_guest;
	pthread_mutex_lock(&sv_proc->lock);
	guest->next = sv_proc->guests;
	sv_proc->guests = guest;
	pthread_mutex_unlock(&sv_proc->lock);
	if (sv_watch_add(&guest->watch, EPOLLIN))
		drop_guest(guest);
}

void sv_serve_accept(struct sv_watch *listener, uint32_t events)
{
	(void)events;
	for (int i = 0; i < ACCEPTS_PER_WAKE; i++) {
		int fd = sv_accept_bounded(listener->fd);

		if (fd < 0)
			return;
		add_guest(fd);
	}
}

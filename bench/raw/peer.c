/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/raw/peer.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/raw/end.h"

#define BACKLOG 16
#define ECHO_RECEIVES 64u
#define SEND_DEPTH 128u
#define SIGNAL_EVERY 16u
#define BATCH 32

/* Empty polls between two looks at the connection. */
#define EMPTY_POLLS 64
#define LOOK_EVERY 4096u

struct peer {
	struct device device;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct rawend end;
	bool connected;
	bool gave_up; /* the connection is to end */
	enum rawend_mode mode;
	uint32_t answer_bytes; /* 0: as many as the message has */
	struct rawrelay relay;
	uint64_t sent, received;
};

/* ---------------------------------------------------------------- connection */

static bool is_sane(const struct peer *p, const struct rawend_hello *hello)
{
	return hello->magic == RAWEND_MAGIC && hello->version == RAWEND_VERSION &&
	       hello->mode < RAWEND_MODES && hello->region_bytes >= 8 &&
	       hello->region_bytes <= RAWEND_REGION_BYTES_MAX && hello->plain <= 1 &&
	       hello->transport < RAWTRANSPORTS &&
	       hello->message_bytes_max <= RAWEND_REGION_BYTES_MAX &&
	       hello->legs.answer_bytes <= hello->message_bytes_max &&
	       (hello->mode != RAWEND_RELAY || rawrelay_may(&p->relay, &hello->legs));
}

static int accept_end(struct peer *p, const struct rawend_hello *hello,
		      const struct rdma_conn_param *asked, struct err *err)
{
	struct rawend *e = &p->end;
	struct rawend_config config = {
		.transport = (enum rawtransport)hello->transport,
		.region_bytes = hello->region_bytes,
		.send_depth = SEND_DEPTH,
		.send_sge = 1,
		.recv_depth = hello->mode == RAWEND_ECHO || hello->mode == RAWEND_RELAY ?
				      ECHO_RECEIVES : RAWEND_SINK_RECEIVES,
		.recv_bytes = hello->message_bytes_max,
		.inline_bytes = 256,
		.events = hello->events,
		.plain = hello->plain,
		.access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
			  IBV_ACCESS_REMOTE_ATOMIC,
	};
	struct rawend_welcome welcome = { .magic = RAWEND_MAGIC };
	struct rdma_conn_param param;
	struct link_depths depths;

	if (rawend_make(e, &config, err) < 0)
		return -1;
	depths = link_depths(asked, e->rd_atom);
	if (rawend_ready(e, depths.answers, err) < 0)
		return -1;
	welcome.addr = (uintptr_t)e->memory;
	welcome.rkey = e->mr->rkey;
	link_conn_param(&param, e->qp, &welcome, sizeof welcome, depths.issues, depths.answers);
	if (e->verbs->accept(e->id, &param) != 0)
		return err_set_errno(err, -1, errno, "accepting a connection");
	return 0;
}

static void leave(struct peer *p)
{
	rawend_clear(&p->end);
	rawrelay_clear(&p->relay);
	p->connected = p->gave_up = false;
}

static void refuse(struct peer *p, struct rdma_cm_id *id)
{
	p->device.verbs->reject(id, NULL, 0);
	p->device.verbs->destroy_id(id);
}

/* The event is acknowledged after its data were used. */
static void requested(struct peer *p, struct rdma_cm_event *event)
{
	const struct rdma_conn_param *asked = &event->param.conn;
	struct rdma_cm_id *id = event->id;
	struct rawend_hello hello;
	struct err err = { "" };

	memset(&hello, 0, sizeof hello);
	if (asked->private_data != NULL && asked->private_data_len >= sizeof hello)
		memcpy(&hello, asked->private_data, sizeof hello);
	if (p->connected || !is_sane(p, &hello)) {
		refuse(p, id);
		return;
	}
	if (hello.mode == RAWEND_RELAY &&
	    rawrelay_connect(&p->relay, &p->device, &hello, &err) < 0) {
		fprintf(stderr, "kvbench: no connection: %s\n", err.text);
		rawrelay_clear(&p->relay);
		refuse(p, id);
		return;
	}
	p->end = (struct rawend){ .verbs = p->device.verbs, .id = id };
	p->mode = (enum rawend_mode)hello.mode;
	p->answer_bytes = (uint32_t)hello.legs.answer_bytes;
	p->sent = p->received = 0;
	p->connected = accept_end(p, &hello, asked, &err) == 0;
	if (!p->connected) {
		fprintf(stderr, "kvbench: no connection: %s\n", err.text);
		leave(p);
	}
}

static void take_event(struct peer *p, int timeout_ms)
{
	struct rdma_cm_event *event = rawend_event(p->device.verbs, p->channel, timeout_ms);
	bool ended;

	if (event == NULL)
		return;
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		requested(p, event);
	ended = p->connected && event->id == p->end.id &&
		(event->event == RDMA_CM_EVENT_DISCONNECTED ||
		 event->event == RDMA_CM_EVENT_CONNECT_ERROR ||
		 event->event == RDMA_CM_EVENT_UNREACHABLE);
	p->device.verbs->ack_cm_event(event);
	if (ended)
		leave(p);
}

/* ------------------------------------------------------------------ messages */

static int send_message(struct peer *p, uint32_t bytes, bool with_imm)
{
	struct rawend *e = &p->end;
	struct ibv_sge sge = { (uintptr_t)e->memory, bytes, e->mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = bytes > 0,
		.opcode = with_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
		.send_flags = bytes <= e->inline_bytes ? IBV_SEND_INLINE : 0,
	}, *bad;

	if (++p->sent % SIGNAL_EVERY == 0)
		wr.send_flags |= IBV_SEND_SIGNALED;
	rawtransport_address(&e->peer, &wr);
	return ibv_post_send(e->qp, &wr, &bad);
}

/* 0, or not: one of the others is gone, and so is what the client asked for. */
static int forward(struct peer *p, uint32_t messages)
{
	struct err err = { "" };

	if (rawrelay_forward(&p->relay, messages, &err) == 0)
		return 0;
	fprintf(stderr, "kvbench: %s\n", err.text);
	p->gave_up = true;
	return -1;
}

static int received(struct peer *p, const struct ibv_wc *wc)
{
	bool with_imm = wc->wc_flags & IBV_WC_WITH_IMM;
	uint32_t header = p->end.config.transport == RAWTRANSPORT_UD ? RAWTRANSPORT_GRH_BYTES : 0;
	uint32_t answer_bytes = p->answer_bytes != 0 ? p->answer_bytes : wc->byte_len - header;
	int rc = 0;

	p->received++;
	if (p->mode == RAWEND_ECHO || p->mode == RAWEND_RELAY)
		rc = send_message(p, answer_bytes, with_imm);
	if (rc == 0)
		rc = rawend_post_receive(&p->end);
	if (rc == 0 && p->mode == RAWEND_SINK && p->received % RAWEND_CREDIT == 0)
		rc = send_message(p, 1, false);
	return rc;
}

/* Takes what there is: the count, or -1 where the connection failed. */
static int take_completions(struct peer *p)
{
	struct ibv_wc wc[BATCH];
	int n = ibv_poll_cq(p->end.cq, BATCH, wc);
	uint32_t messages = 0;

	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			return -1;
		messages += (wc[i].opcode & IBV_WC_RECV) != 0;
	}
	if (p->mode == RAWEND_RELAY && messages > 0 && forward(p, messages) != 0)
		return -1;
	for (int i = 0; i < n; i++) {
		if ((wc[i].opcode & IBV_WC_RECV) && received(p, &wc[i]) != 0)
			return -1;
	}
	return n;
}

/* Waits for messages or for the end of the connection, asleep. */
static void sleep_for_either(struct peer *p)
{
	struct rawend *e = &p->end;
	struct pollfd fds[2] = { { .fd = e->comp->fd, .events = POLLIN },
				 { .fd = p->channel->fd, .events = POLLIN } };
	struct ibv_cq *cq;
	void *context;

	if (ibv_req_notify_cq(e->cq, 0) != 0 || take_completions(p) != 0)
		return;
	if (poll(fds, 2, 1000) > 0 && (fds[0].revents & POLLIN) != 0 &&
	    e->verbs->get_cq_event(e->comp, &cq, &context) == 0)
		e->events++;
}

static void serve_connection(struct peer *p)
{
	bool asleep = p->end.config.events || p->mode == RAWEND_PASSIVE;

	for (unsigned empty = 1; p->connected; empty++) {
		int n = take_completions(p);
		if (p->gave_up) {
			leave(p);
			return;
		}
		if (n < 0) {
			/* Its end is on the way. */
			take_event(p, 1000);
			continue;
		}
		if (n > 0) {
			empty = 0;
			continue;
		}
		if (asleep)
			sleep_for_either(p);
		else if (empty % EMPTY_POLLS == 0)
			sched_yield();
		if (asleep || empty % LOOK_EVERY == 0)
			take_event(p, 0);
	}
}

/* ---------------------------------------------------------------------- serve */

static int listen_at(struct peer *p, struct addr *addr, struct err *err)
{
	const struct verbs *v = p->device.verbs;

	p->channel = rawend_channel(v, err);
	if (p->channel == NULL)
		return -1;
	if (v->create_id(p->channel, &p->listener, p, RDMA_PS_TCP) != 0 ||
	    device_prepare(&p->device, p->listener) != 0)
		return err_set_errno(err, -1, errno, "can't create an RDMA id");
	if (v->bind_addr(p->listener, &addr->sa) != 0 || v->listen(p->listener, BACKLOG) != 0)
		return err_set_errno(err, -1, errno, "can't listen at %s", addr->text);
	addr_set_port(addr, ntohs(v->get_src_port(p->listener)));
	return 0;
}

int rawpeer_serve(const char *device, const struct addr *addr, const struct rawrelay_to *to,
		  int tell, struct err *err)
{
	struct peer *p = calloc(1, sizeof *p);
	struct addr at = *addr;

	if (p == NULL)
		return err_set(err, -1, "out of memory");
	if (to != NULL)
		p->relay.to = *to;
	if (device_choose(&p->device, device, addr, err) < 0 || listen_at(p, &at, err) < 0) {
		dprintf(tell, "! %s\n", err->text);
		free(p);
		return -1;
	}
	dprintf(tell, "%s\n", at.text);
	for (;;) {
		if (p->connected)
			serve_connection(p);
		else
			take_event(p, 1000);
	}
}

/* ------------------------------------------------------------------- a process */

static void child_main(const char *device, const struct addr *addr, const struct rawrelay_to *to,
		       int tell)
{
	struct err err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGINT, SIG_IGN); /* the parent ends it */
	rawpeer_serve(device, addr, to, tell, &err);
	_exit(1);
}

/* The child's first line: where it listens, or what went wrong. */
static int learn_address(int from, struct addr *addr, struct err *err)
{
	char line[ERR_BYTES] = "";
	FILE *file = fdopen(from, "r");

	if (file == NULL || fgets(line, sizeof line, file) == NULL)
		err_set(err, -1, "the peer's process ended at once");
	if (file != NULL)
		fclose(file);
	line[strcspn(line, "\n")] = '\0';
	if (line[0] == '\0')
		return -1;
	if (line[0] == '!')
		return err_set(err, -1, "%s", line + 2);
	return addr_parse(addr, line, err);
}

/* A process of our own, which serves; *addr is where it listens. */
static int fork_peer(struct rawpeer *peer, const char *device, const struct rawrelay_to *to,
		     struct addr *addr, struct err *err)
{
	int ends[2];

	if (pipe(ends) != 0)
		return err_set_errno(err, -1, errno, "pipe");
	fflush(NULL);
	peer->pid = fork();
	if (peer->pid < 0) {
		peer->pid = 0;
		close(ends[0]);
		close(ends[1]);
		return err_set_errno(err, -1, errno, "fork");
	}
	if (peer->pid == 0) {
		close(ends[0]);
		child_main(device, addr, to, ends[1]);
	}
	close(ends[1]);
	if (learn_address(ends[0], addr, err) < 0) {
		rawpeer_end(peer);
		return -1;
	}
	return 0;
}

int rawpeer_begin(struct rawpeer *peer, const char *server, const char *address,
		  const char *device, const struct rawrelay_to *to, struct addr *addr,
		  struct err *err)
{
	if (addr_parse(addr, server != NULL ? server : address, err) < 0)
		return -1;
	if (server != NULL)
		return 0;
	addr_set_port(addr, 0);
	return fork_peer(peer, device, to, addr, err);
}

void rawpeer_end(struct rawpeer *peer)
{
	if (peer->pid <= 0)
		return;
	kill(peer->pid, SIGKILL);
	waitpid(peer->pid, NULL, 0);
	peer->pid = 0;
}

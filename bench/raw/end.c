/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/raw/end.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/measure/stopwatch.h"

/* Empty polls before the core is lent to somebody else, and between two looks at the
 * connection. */
#define EMPTY_POLLS 64
#define LOOK_EVERY 4096u

static bool set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

/* -------------------------------------------------------------------- events */

struct rdma_event_channel *rawend_channel(const struct verbs *verbs, struct err *err)
{
	struct rdma_event_channel *channel = verbs->create_event_channel();

	if (channel == NULL || !set_nonblocking(channel->fd)) {
		err_set_errno(err, -1, errno,
			      "can't open an RDMA event channel (is the module rdma_ucm loaded?)");
		if (channel != NULL)
			verbs->destroy_event_channel(channel);
		return NULL;
	}
	return channel;
}

struct rdma_cm_event *rawend_event(const struct verbs *verbs, struct rdma_event_channel *channel,
				   int timeout_ms)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;

	if (verbs->get_cm_event(channel, &event) == 0)
		return event;
	if (poll(&fd, 1, timeout_ms) <= 0 || verbs->get_cm_event(channel, &event) != 0)
		return NULL;
	return event;
}

/* Waits for `wanted`; *welcome is its private data, if there is any. */
static int expect(struct rawend *e, enum rdma_cm_event_type wanted, const char *step,
		  struct rawend_welcome *welcome, struct err *err)
{
	struct rdma_cm_event *event = rawend_event(e->verbs, e->channel, RAWEND_TIMEOUT_MS);
	char words[256];
	bool right;

	if (event == NULL)
		return err_set(err, -1, "%s: no answer within %d s", step,
			       RAWEND_TIMEOUT_MS / 1000);
	right = event->event == wanted;
	if (right && welcome != NULL && event->param.conn.private_data != NULL &&
	    event->param.conn.private_data_len >= sizeof *welcome)
		memcpy(welcome, event->param.conn.private_data, sizeof *welcome);
	link_event_words(event, words, sizeof words);
	e->verbs->ack_cm_event(event);
	return right ? 0 : err_set(err, -1, "%s: %s", step, words);
}

/* ----------------------------------------------------------------- resources */

static int plain_memory(uint64_t bytes, void **memory)
{
	*memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return *memory == MAP_FAILED ? errno : 0;
}

/* Of one receive: a datagram comes with a header. */
static uint64_t receive_bytes(const struct rawend *e)
{
	const struct rawend_config *c = &e->config;

	return c->recv_bytes + (c->transport == RAWTRANSPORT_UD ? RAWTRANSPORT_GRH_BYTES : 0);
}

static int make_memory(struct rawend *e, struct err *err)
{
	const struct rawend_config *c = &e->config;
	uint64_t bytes = c->region_bytes + receive_bytes(e);
	void *memory;
	int rc;

	bytes += -bytes % 4096;
	rc = c->plain ? plain_memory(bytes, &memory)
		      : e->verbs->mem_alloc(bytes, VERBS_MEM_ATOMIC, &memory);
	if (rc != 0)
		return err_set_errno(err, -1, rc, "can't get %llu bytes",
				     (unsigned long long)bytes);
	e->memory = memory;
	e->memory_bytes = bytes;
	memset(memory, 0, bytes); /* no page is to be found missing in a measurement */
	e->mr = e->verbs->reg_mr(e->pd, memory, bytes, c->access | IBV_ACCESS_LOCAL_WRITE);
	if (e->mr == NULL)
		return err_set_errno(err, -1, errno, "can't register %llu bytes; the locked-memory "
				     "limit may be too low (see 'ulimit -l')",
				     (unsigned long long)bytes);
	return 0;
}

static int make_queues(struct rawend *e, struct err *err)
{
	const struct rawend_config *c = &e->config;
	struct link_config link = { .type = rawtransport_qp_type(c->transport), .send_depth = c->send_depth, .recv_depth = c->recv_depth,
				    .send_sge = c->send_sge, .inline_bytes = c->inline_bytes };

	e->comp = e->verbs->create_comp_channel(e->id->verbs);
	if (e->comp == NULL || !set_nonblocking(e->comp->fd))
		return err_set_errno(err, -1, errno, "can't create a completion channel");
	e->cq = e->verbs->create_cq(e->id->verbs, (int)(c->send_depth + c->recv_depth + 1), e,
				    e->comp, 0);
	if (e->cq == NULL)
		return err_set_errno(err, -1, errno, "can't create a completion queue");
	link.pd = e->pd;
	link.send_cq = link.recv_cq = e->cq;
	e->qp = link_qp_new(e->verbs, &link, &e->inline_bytes, err);
	if (e->qp == NULL)
		return -1;
	if (c->transport == RAWTRANSPORT_RC)
		return link_qp_init(e->verbs, e->id, e->qp, c->access, err);
	return rawtransport_init(c->transport, e->verbs, e->id, e->qp, c->access, err);
}

int rawend_post_receive(struct rawend *e)
{
	struct ibv_sge sge = { (uintptr_t)(e->memory + e->config.region_bytes),
			       (uint32_t)receive_bytes(e), e->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = receive_bytes(e) > 0 }, *bad;

	return ibv_post_recv(e->qp, &wr, &bad);
}

int rawend_make(struct rawend *e, const struct rawend_config *config, struct err *err)
{
	uint8_t port = e->id->port_num != 0 ? e->id->port_num : 1;
	int rc;

	e->config = *config;
	if (link_query(e->verbs, e->id->verbs, port, &e->limits, err) < 0)
		return -1;
	e->rd_atom = e->limits.rd_atom < LINK_RD_ATOM_MAX ? e->limits.rd_atom : LINK_RD_ATOM_MAX;
	if (e->config.send_sge > e->limits.sge_max)
		e->config.send_sge = e->limits.sge_max;
	e->pd = e->verbs->alloc_pd(e->id->verbs);
	if (e->pd == NULL)
		return err_set_errno(err, -1, errno, "can't allocate a protection domain");
	if (make_memory(e, err) < 0 || make_queues(e, err) < 0)
		return -1;
	for (uint32_t i = 0; i < config->recv_depth; i++) {
		rc = rawend_post_receive(e);
		if (rc != 0)
			return err_set_errno(err, -1, rc, "posting a receive failed");
	}
	return 0;
}

int rawend_ready(struct rawend *e, uint8_t peer_rd_atom, struct err *err)
{
	const struct rawend_config *c = &e->config;

	if (c->transport == RAWTRANSPORT_RC)
		return link_qp_ready(e->verbs, e->id, e->qp, c->access, e->rd_atom, peer_rd_atom,
				     err);
	return rawtransport_ready(c->transport, e->verbs, e->id, e->qp, &e->peer, err);
}

void rawend_clear(struct rawend *e)
{
	const struct verbs *v = e->verbs;

	if (v == NULL)
		return;
	if (e->id != NULL && e->qp != NULL)
		v->disconnect(e->id);
	if (e->qp != NULL)
		v->destroy_qp(e->qp);
	rawtransport_forget(v, &e->peer);
	if (e->cq != NULL) {
		v->ack_cq_events(e->cq, e->events);
		v->destroy_cq(e->cq);
	}
	if (e->comp != NULL)
		v->destroy_comp_channel(e->comp);
	if (e->mr != NULL)
		v->dereg_mr(e->mr);
	if (e->memory != NULL && e->config.plain)
		munmap(e->memory, e->memory_bytes);
	else if (e->memory != NULL)
		v->mem_free(e->memory, e->memory_bytes);
	if (e->pd != NULL)
		v->dealloc_pd(e->pd);
	if (e->id != NULL)
		v->destroy_id(e->id);
	if (e->channel != NULL)
		v->destroy_event_channel(e->channel);
	memset(e, 0, sizeof *e);
}

/* ------------------------------------------------------------------- connect */

static int resolve(struct rawend *e, struct device *device, const struct addr *addr,
		   struct err *err)
{
	struct addr to = *addr;

	e->channel = rawend_channel(e->verbs, err);
	if (e->channel == NULL)
		return -1;
	if (e->verbs->create_id(e->channel, &e->id, e, RDMA_PS_TCP) != 0 ||
	    device_prepare(device, e->id) != 0)
		return err_set_errno(err, -1, errno, "can't create an RDMA id");
	if (e->verbs->resolve_addr(e->id, NULL, &to.sa, RAWEND_TIMEOUT_MS) != 0)
		return err_set_errno(err, -1, errno, "resolving the address %s", addr->text);
	if (expect(e, RDMA_CM_EVENT_ADDR_RESOLVED, "resolving the address", NULL, err) < 0 ||
	    device_check(device, e->id, addr, err) < 0)
		return -1;
	if (e->verbs->resolve_route(e->id, RAWEND_TIMEOUT_MS) != 0)
		return err_set_errno(err, -1, errno, "resolving the route to %s", addr->text);
	return expect(e, RDMA_CM_EVENT_ROUTE_RESOLVED, "resolving the route", NULL, err);
}

static int greet(struct rawend *e, const struct addr *addr, enum rawend_mode mode,
		 struct err *err)
{
	struct rawend_hello hello = {
		.magic = RAWEND_MAGIC, .version = RAWEND_VERSION, .mode = (uint8_t)mode,
		.events = e->config.events, .region_bytes = e->config.region_bytes,
		.message_bytes_max = e->config.recv_bytes, .legs = e->config.legs,
		.plain = e->config.plain_peer, .transport = e->config.transport,
	};
	struct rawend_welcome welcome = { 0 };
	struct rdma_conn_param param;

	link_conn_param(&param, e->qp, &hello, sizeof hello, e->rd_atom, e->rd_atom);
	if (e->verbs->connect(e->id, &param) != 0)
		return err_set_errno(err, -1, errno, "connecting to %s", addr->text);
	if (expect(e, RDMA_CM_EVENT_CONNECT_RESPONSE, "connecting", &welcome, err) < 0)
		return -1;
	if (welcome.magic != RAWEND_MAGIC)
		return err_set(err, -1, "what listens at %s is not 'kvbench raw --listen', or of "
			       "another version", addr->text);
	e->remote_addr = welcome.addr;
	e->remote_rkey = welcome.rkey;
	return 0;
}

int rawend_connect(struct rawend *e, struct device *device, const struct addr *addr,
		   const struct rawend_config *config, enum rawend_mode mode, struct err *err)
{
	e->verbs = device->verbs;
	if (resolve(e, device, addr, err) < 0 || rawend_make(e, config, err) < 0 ||
	    greet(e, addr, mode, err) < 0)
		return -1;
	if (rawend_ready(e, e->rd_atom, err) < 0)
		return -1;
	if (e->verbs->establish(e->id) != 0)
		return err_set_errno(err, -1, errno, "establishing the connection to %s",
				     addr->text);
	return 0;
}

/* --------------------------------------------------------------- completions */

/* Whether the peer closed the connection, or does within timeout_ms. */
static bool is_closed(struct rawend *e, int timeout_ms)
{
	struct rdma_cm_event *event = NULL;
	bool closed;

	if (e->channel != NULL)
		event = rawend_event(e->verbs, e->channel, timeout_ms);
	if (event == NULL)
		return false;
	closed = event->event == RDMA_CM_EVENT_DISCONNECTED;
	e->verbs->ack_cm_event(event);
	return closed;
}

static int closed_by_peer(struct err *err)
{
	return err_set(err, -1, "the peer closed the connection, or its process is gone");
}

/*
 * Where the connection is about to end, that is why one failed.
 * UNTESTED: the software device tells of the end before a work request fails of it.
 */
static int check(struct rawend *e, const struct ibv_wc *wc, int n, struct err *err)
{
	for (int i = 0; i < n; i++) {
		if (wc[i].status == IBV_WC_SUCCESS)
			continue;
		if (is_closed(e, 1000))
			return closed_by_peer(err);
		return err_set(err, -1, "a work request failed: %s (vendor error 0x%x)",
			       ibv_wc_status_str(wc[i].status), wc[i].vendor_err);
	}
	return n;
}

/* Sleeps until the completion queue has something, or the connection's channel (true),
 * for up to a second. */
static bool sleep_for_event(struct rawend *e)
{
	struct pollfd fds[2] = { { .fd = e->comp->fd, .events = POLLIN },
				 { .fd = e->channel != NULL ? e->channel->fd : -1,
				   .events = POLLIN } };
	struct ibv_cq *cq;
	void *context;

	if (poll(fds, 2, 1000) <= 0)
		return false;
	if ((fds[0].revents & POLLIN) && e->verbs->get_cq_event(e->comp, &cq, &context) == 0 &&
	    ++e->events == 64) {
		e->verbs->ack_cq_events(e->cq, e->events);
		e->events = 0;
	}
	return fds[1].revents & POLLIN;
}

/* Between two polls in vain; whether it is time to look at the connection. */
static bool idle(struct rawend *e, unsigned empty, bool *armed)
{
	bool look = false;

	if (!e->config.events) {
		sched_yield();
		return empty % LOOK_EVERY == 0;
	}
	if (*armed)
		look = sleep_for_event(e);
	*armed = ibv_req_notify_cq(e->cq, 0) == 0;
	return look;
}

static const char *perhaps_lost(const struct rawend *e)
{
	return e->config.transport == RAWTRANSPORT_RC ? "" : " (or a message was lost, which nobody "
							     "is told of by this transport)";
}

int rawend_wait(struct rawend *e, struct ibv_wc *wc, int max, struct err *err)
{
	uint64_t timeout_ms = e->config.timeout_ms != 0 ? e->config.timeout_ms : RAWEND_TIMEOUT_MS;
	uint64_t deadline = 0;
	bool armed = false;

	for (unsigned empty = 1;; empty++) {
		int n = ibv_poll_cq(e->cq, max, wc);
		if (n < 0)
			return err_set(err, -1, "polling the completion queue failed");
		if (n > 0)
			return check(e, wc, n, err);
		if (!e->config.events && empty % EMPTY_POLLS != 0)
			continue;
		if (idle(e, empty, &armed) && is_closed(e, 0))
			return closed_by_peer(err);
		if (deadline == 0)
			deadline = stopwatch_ns() + timeout_ms * 1000000;
		else if (stopwatch_ns() > deadline)
			return err_set(err, -1, "no completion within %d s; is the peer there?%s",
				       (int)(timeout_ms / 1000), perhaps_lost(e));
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_far.h -- the other process of a connection, which the test plays: what it says and hears over its socket. */
#ifndef TESTS_UNIT_SOFTVERBS_CM_FAR_H
#define TESTS_UNIT_SOFTVERBS_CM_FAR_H

#include <sys/un.h>
#include "tests/unit/softverbs/cm_lock.h"
#include "tests/unit/softverbs/events.h"
#include "common/softverbs/base/proc.h"
#include "common/softverbs/cm/msg.h"

#define PORT 7
#define END_MS 10000 /* who hangs up does it at once, or by a deadline of the test */

/* ---- the other process ---- */

/* A fabric of the test's own: its ports are free. */
static inline struct rdma_event_channel *begin(const char *timeout_ms)
{
	char fabric[32];
	struct rdma_event_channel *ch;

	snprintf(fabric, sizeof(fabric), "wire-%d", (int)getpid());
	CHECK(!setenv("SOFTVERBS_FABRIC", fabric, 1));
	CHECK(!setenv("SOFTVERBS_CM_TIMEOUT_MS", timeout_ms, 1));
	watch_lock();
	ch = sv_create_event_channel();
	CHECK(ch);
	return ch;
}

static inline socklen_t name_of(struct sockaddr_un *sun, const char *kind, uint16_t port)
{
	char name[32];

	snprintf(name, sizeof(name), "127.0.0.1/%u", port);
	return sv_address(sun, kind, name);
}

static inline int new_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	return fd;
}

static inline int far_listen(int backlog)
{
	struct sockaddr_un sun;
	int fd = new_socket();

	CHECK(!bind(fd, (struct sockaddr *)&sun, name_of(&sun, "cm", PORT)) && !listen(fd, backlog));
	return fd;
}

static inline int far_dial(const char *kind, uint16_t port)
{
	struct sockaddr_un sun;
	int fd = new_socket();

	CHECK(!connect(fd, (struct sockaddr *)&sun, name_of(&sun, kind, ntohs(port))));
	return fd;
}

static inline bool is_readable(int fd, int ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, ms) == 1;
}

static inline int far_accept(int listener)
{
	int fd;

	CHECK(is_readable(listener, KIT_LIMIT_S * 1000));
	fd = accept(listener, NULL, NULL);
	CHECK(fd >= 0);
	return fd;
}

/* Behind it nothing comes but what the test waits for. */
static inline void hear(int fd, uint32_t type, struct sv_cm_msg *msg)
{
	CHECK(is_readable(fd, KIT_LIMIT_S * 1000));
	CHECK(recv(fd, msg, sizeof(*msg), MSG_TRUNC) == sizeof(*msg));
	CHECK(msg->type == type && msg->abi == SV_ABI_VERSION);
}

static inline void hear_end(int fd)
{
	char byte;
	ssize_t n;

	CHECK(is_readable(fd, END_MS));
	n = recv(fd, &byte, 1, 0);
	CHECK(!n || (n < 0 && errno == ECONNRESET));
	close(fd);
}

static inline void say_bytes(int fd, uint32_t type, uint32_t abi, size_t bytes)
{
	struct {
		struct sv_cm_msg msg;
		uint8_t more[8];
	} all = { .msg = { .type = type, .abi = abi, .qpn = 3, .initiator_depth = 2, .responder_resources = 1 } };

	CHECK(send(fd, &all, bytes, MSG_NOSIGNAL) == (ssize_t)bytes);
}

static inline void say(int fd, uint32_t type)
{
	say_bytes(fd, type, SV_ABI_VERSION, sizeof(struct sv_cm_msg));
}

static inline bool is_zero(const void *mem, size_t bytes)
{
	const uint8_t *at = mem;

	while (bytes && !*at)
		at++, bytes--;
	return !bytes;
}

/* ---- what is said ---- */

static const struct rdma_conn_param some_param = { .private_data = "data", .private_data_len = 4,
						   .responder_resources = 3, .initiator_depth = 200,
						   .flow_control = 1, .retry_count = 5, .rnr_retry_count = 6,
						   .srq = 1, .qp_num = 0x123 };

/* The device has 16 READs and atomics under way at most. */
static inline void check_some(const struct sv_cm_msg *msg, uint8_t ack_timeout)
{
	CHECK(msg->qpn == 0x123 && msg->psn <= 0xffffff && !msg->reason && msg->srq == 1);
	CHECK(msg->responder_resources == 3 && msg->initiator_depth == 16 && msg->flow_control == 1);
	CHECK(msg->retry_count == 5 && msg->rnr_retry_count == 6 && msg->ack_timeout == ack_timeout);
	CHECK(!memcmp(msg->data, "data", 4) && is_zero(msg->data + 4, sizeof(msg->data) - 4));
}

/* ---- ids ---- */

static inline struct rdma_cm_id *listen_local(struct rdma_event_channel *ch, enum rdma_port_space ps, int backlog)
{
	struct sockaddr_in addr = loopback(0);
	struct rdma_cm_id *id;

	CHECK(!sv_create_id(ch, &id, NULL, ps));
	CHECK(!sv_bind_addr(id, (struct sockaddr *)&addr) && !sv_listen(id, backlog));
	return id;
}

static inline struct rdma_cm_id *ready_to_ask(struct rdma_event_channel *ch)
{
	struct sockaddr_in addr = loopback(htons(PORT));
	struct rdma_cm_id *id;

	CHECK(!sv_create_id(ch, &id, NULL, RDMA_PS_TCP));
	CHECK(!sv_resolve_addr(id, NULL, (struct sockaddr *)&addr, 1000));
	expect_event(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(!sv_resolve_route(id, 1000));
	expect_event(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return id;
}

static inline struct rdma_cm_id *take_request(struct rdma_event_channel *ch)
{
	struct rdma_cm_event *ev = take_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = ev->id;

	CHECK(!sv_ack_cm_event(ev));
	return id;
}

static inline void end(struct rdma_event_channel *ch, struct rdma_cm_id *id)
{
	CHECK(!is_readable(ch->fd, 0)); /* nothing else was told */
	CHECK(!sv_destroy_id(id));
	sv_destroy_event_channel(ch);
}

#endif

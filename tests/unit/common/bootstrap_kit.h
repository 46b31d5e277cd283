/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bootstrap_kit.h -- both ends of a connection over TCP in one thread, on a device that is made up, and
 * plain sockets in the place of either.
 *
 * The program is linked with --wrap of accept4(), send() and calloc().
 */
#ifndef TESTS_UNIT_COMMON_BOOTSTRAP_KIT_H
#define TESTS_UNIT_COMMON_BOOTSTRAP_KIT_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/bootstrap/bootstrap.h"
#include "common/bootstrap/message.h" /* has a fail() of its own, which is a macro of cmocka.h */
#include "common/bootstrap/server.h"

#include <cmocka.h>

#define WAIT_MS 10000
#define HALF_OPEN_MAX 256

/* ------------------------------------------------------------------- device */

static struct ibv_device nic = { .name = "nic0" };
static struct ibv_context context = { .device = &nic };

static inline struct ibv_device **get_device_list(int *n)
{
	static struct ibv_device *list[] = { &nic, NULL };

	if (n)
		*n = 1;
	return list;
}

static inline void free_device_list(struct ibv_device **list)
{
	(void)list;
}

static inline struct ibv_context *open_device(struct ibv_device *device)
{
	(void)device;
	return &context;
}

static inline int query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	(void)ctx, (void)attr;
	return 0;
}

static int port_error;

static inline int query_port(struct ibv_context *ctx, uint8_t number, struct ibv_port_attr *attr)
{
	(void)ctx, (void)number;
	*attr = (struct ibv_port_attr){ .state = IBV_PORT_ACTIVE, .active_mtu = IBV_MTU_2048, .lid = 9,
					.gid_tbl_len = 1, .link_layer = IBV_LINK_LAYER_ETHERNET };
	return port_error;
}

static inline int query_gid(struct ibv_context *ctx, uint8_t number, int index, union ibv_gid *gid)
{
	(void)ctx, (void)number, (void)index;
	memset(gid, 0x21, sizeof *gid);
	return 0;
}

const struct verbs verbs_system = { .get_device_list = get_device_list, .free_device_list = free_device_list,
				    .open_device = open_device, .query_device = query_device,
				    .query_port = query_port, .query_gid = query_gid };
static const struct verbs soft = { .soft = true, .query_port = query_port };
const struct verbs *const verbs_soft = &soft;

/* ------------------------------------------------------------------- faults */

int __real_accept4(int fd, struct sockaddr *from, socklen_t *bytes, int flags);
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *bytes, int flags);
ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

static int accept_error;  /* of the next one; then none */
static bool send_is_short, no_memory;

int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *bytes, int flags)
{
	int error = accept_error;

	accept_error = 0;
	if (!error)
		return __real_accept4(fd, from, bytes, flags);
	errno = error;
	return -1;
}

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
	return __real_send(fd, data, send_is_short ? bytes - 1 : bytes, flags);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	if (!no_memory)
		return __real_calloc(n, bytes);
	errno = ENOMEM;
	return NULL;
}

/* ------------------------------------------------------------------- ends */

static const struct verbs *v;
static struct rdma_event_channel *kvd, *clients;
static struct rdma_cm_id *listener;
static union {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
} to;
static int mark; /* the listener's context */
static unsigned open_before;

static inline int next_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

static inline unsigned open_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static inline struct rdma_event_channel *channel_new(void)
{
	struct rdma_event_channel *channel = v->create_event_channel();

	assert_non_null(channel);
	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	return channel;
}

static inline struct rdma_cm_id *id_new(struct rdma_event_channel *channel)
{
	struct bootstrap_device device = { .name = "nic0", .port = 2, .gid_index = -1 };
	struct rdma_cm_id *id;

	assert_int_equal(v->create_id(channel, &id, &mark, RDMA_PS_TCP), 0);
	assert_int_equal(v->set_option(id, BOOTSTRAP_LEVEL, 0, &device, sizeof device), 0);
	assert_ptr_equal(id->channel, channel);
	assert_int_equal(id->ps, RDMA_PS_TCP);
	return id;
}

static inline void listen_at_to(void)
{
	listener = id_new(kvd);
	assert_int_equal(v->bind_addr(listener, &to.sa), 0);
	assert_ptr_equal(listener->verbs, &context);
	to.in.sin_port = v->get_src_port(listener); /* where sin6_port is, too */
	assert_true(to.in.sin_port);
	assert_int_equal(v->listen(listener, 1024), 0);
}

static inline int set_up(void **state)
{
	(void)state;
	v = bootstrap_verbs(&verbs_system);
	open_before = open_descriptors();
	port_error = accept_error = 0;
	send_is_short = no_memory = false;
	kvd = channel_new();
	clients = channel_new();
	to.in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	listen_at_to();
	return 0;
}

/* Nothing is left open. */
static inline int tear_down(void **state)
{
	(void)state;
	assert_int_equal(v->destroy_id(listener), 0);
	v->destroy_event_channel(kvd);
	v->destroy_event_channel(clients);
	assert_int_equal(open_descriptors(), open_before);
	return 0;
}

static inline bool rings(struct rdma_event_channel *channel, int ms)
{
	return poll(&(struct pollfd){ .fd = channel->fd, .events = POLLIN }, 1, ms) == 1;
}

/* What is ready is done, and is nothing to tell of. */
static inline void tells_nothing(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;

	assert_int_equal(v->get_cm_event(channel, &event), -1);
	assert_int_equal(errno, EAGAIN);
}

static inline void does_its_part(struct rdma_event_channel *channel)
{
	assert_true(rings(channel, WAIT_MS));
	tells_nothing(channel);
}

/* The next event; it stays until it is acknowledged. */
static inline struct rdma_cm_event *next(struct rdma_event_channel *channel, enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *event = NULL;

	while (v->get_cm_event(channel, &event)) {
		assert_int_equal(errno, EAGAIN);
		assert_true(rings(channel, WAIT_MS));
	}
	assert_int_equal(event->event, type);
	assert_int_equal(event->status, status);
	return event;
}

static inline struct rdma_cm_id *next_is(struct rdma_event_channel *channel, enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *event = next(channel, type, status);
	struct rdma_cm_id *id = event->id;

	assert_int_equal(v->ack_cm_event(event), 0);
	return id;
}

static inline struct rdma_conn_param param_of(uint32_t qpn, const char *data)
{
	return (struct rdma_conn_param){ .qp_num = qpn, .initiator_depth = 3, .responder_resources = 5,
					 .private_data = data, .private_data_len = (uint8_t)strlen(data) };
}

/* A client that has asked. */
static inline struct rdma_cm_id *ask(void)
{
	struct rdma_conn_param param = param_of(77, "hello");
	struct rdma_cm_id *id = id_new(clients);

	assert_int_equal(v->resolve_addr(id, NULL, &to.sa, 1000), 0);
	assert_ptr_equal(next_is(clients, RDMA_CM_EVENT_ADDR_RESOLVED, 0), id);
	assert_int_equal(v->resolve_route(id, 1000), 0);
	assert_ptr_equal(next_is(clients, RDMA_CM_EVENT_ROUTE_RESOLVED, 0), id);
	assert_int_equal(v->connect(id, &param), 0);
	does_its_part(clients);
	return id;
}

static inline struct rdma_cm_id *accept_next(void)
{
	struct rdma_conn_param param = param_of(88, "welcome");
	struct rdma_cm_id *id = next_is(kvd, RDMA_CM_EVENT_CONNECT_REQUEST, 0);

	assert_int_equal(v->accept(id, &param), 0);
	return id;
}

static inline void is_refused(int rc, int error)
{
	assert_int_equal(rc, -1);
	assert_int_equal(errno, error);
}

/* ------------------------------------------------------------------- plain sockets */

static inline struct wire_bootstrap sane(enum wire_bootstrap_kind kind)
{
	return (struct wire_bootstrap){ .magic = WIRE_BOOTSTRAP_MAGIC, .version = WIRE_BOOTSTRAP_VERSION,
					.kind = (uint8_t)kind, .link_layer = WIRE_BOOTSTRAP_ETHERNET, .qpn = 5,
					.mtu = IBV_MTU_1024 };
}

static inline int plain_client(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, &to.sa, sizeof to.in), 0);
	return fd;
}

static inline void say(int fd, const void *data, size_t bytes)
{
	assert_int_equal(write(fd, data, bytes), bytes);
}

static inline void say_message(int fd, enum wire_bootstrap_kind kind)
{
	struct wire_bootstrap m = sane(kind);

	say(fd, &m, sizeof m);
}

/* A plain client that kvd knows as one that has asked. */
static inline struct rdma_cm_id *plain_asked(int *fd)
{
	*fd = plain_client();
	say_message(*fd, WIRE_BOOTSTRAP_REQUEST);
	return next_is(kvd, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
}

/* The peer closed it, with or without what was sent being read. */
static inline void ends(int fd)
{
	char byte;

	assert_int_equal(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, WAIT_MS), 1);
	ssize_t n = read(fd, &byte, 1);
	assert_true(n == 0 || (n < 0 && errno == ECONNRESET));
	close(fd);
}

static inline bool is_open(int fd)
{
	return poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0) == 0;
}

static inline void reset(int fd)
{
	struct linger now = { .l_onoff = 1 };

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
	close(fd);
}

/* A plain server at `to` in the listener's place, and a client of it that has asked. */
static inline struct rdma_cm_id *ask_plain(int *fd)
{
	int at = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct wire_bootstrap m;
	struct rdma_cm_id *id;
	socklen_t bytes = sizeof to.in;

	to.in.sin_port = 0;
	assert_int_equal(bind(at, &to.sa, sizeof to.in), 0);
	assert_int_equal(getsockname(at, &to.sa, &bytes), 0);
	assert_int_equal(listen(at, 1), 0);
	id = ask();
	*fd = accept(at, NULL, NULL);
	assert_true(*fd >= 0);
	close(at);
	assert_int_equal(recv(*fd, &m, sizeof m, MSG_WAITALL), sizeof m);
	assert_true(bootstrap_is_sane(&m, 1u << WIRE_BOOTSTRAP_REQUEST));
	return id;
}

static inline struct rdma_cm_id *answered_plain(int *fd)
{
	struct rdma_cm_id *id = ask_plain(fd);

	say_message(*fd, WIRE_BOOTSTRAP_RESPONSE);
	assert_ptr_equal(next_is(clients, RDMA_CM_EVENT_CONNECT_RESPONSE, 0), id);
	return id;
}

static inline unsigned half_open(void)
{
	return ((struct id *)listener)->half_open_count;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif

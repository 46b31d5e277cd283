/* SPDX-License-Identifier: BSD-2-Clause */
/* common/bootstrap/bootstrap.h: a connection over TCP from both ends, and calls that fail. */
#include <sys/syscall.h>

#include "tests/unit/common/bootstrap_kit.h"

/* The program's own: for how long it was told to wait. */
static int waits_ms;

int epoll_wait(int set, struct epoll_event *events, int most, int timeout_ms)
{
	waits_ms = timeout_ms;
	return (int)syscall(SYS_epoll_pwait, set, events, most, timeout_ms, NULL, 8);
}

static void has_message(const struct rdma_cm_event *event, uint32_t qpn, const char *data)
{
	const struct rdma_conn_param *p = &event->param.conn;

	assert_int_equal(p->qp_num, qpn);
	assert_int_equal(p->responder_resources, 3);
	assert_int_equal(p->initiator_depth, 5);
	assert_int_equal(p->private_data_len, strlen(data));
	assert_memory_equal(p->private_data, data, strlen(data));
}

/* Each end's queue pair is to be towards the other's, on the port that was chosen. */
static void is_towards(struct rdma_cm_id *id, uint32_t qpn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	int mask = 0;

	assert_ptr_equal(id->verbs, &context);
	assert_int_equal(id->port_num, 2);
	assert_int_equal(id->route.addr.addr.ibaddr.sgid.raw[7], 0x21);
	assert_int_equal(v->init_qp_attr(id, &attr, &mask), 0);
	assert_int_equal(attr.dest_qp_num, qpn);
	assert_int_equal(attr.ah_attr.grh.dgid.raw[7], 0x21);
	assert_int_equal(attr.ah_attr.dlid, 9);
	assert_true(mask & IBV_QP_DEST_QPN);
}

/* Sent at once, not left to a child, never blocking; who is silent for half a minute is dead. */
static void is_tuned(const struct rdma_cm_id *id)
{
	static const int names[] = { TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT };
	int fd = ((const struct id *)id)->fd, on = 0, value[3];
	socklen_t bytes = sizeof on;

	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &bytes), 0);
	assert_true(on);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &bytes), 0);
	assert_true(on);
	for (int i = 0; i < 3; i++)
		assert_int_equal(getsockopt(fd, IPPROTO_TCP, names[i], &value[i], &bytes), 0);
	assert_true(value[0] + value[1] * value[2] <= 30);
}

static void connect_and_part(void)
{
	struct rdma_conn_param answer = param_of(88, "welcome");
	struct rdma_cm_id *id = ask(), *served;
	struct rdma_cm_event *event = next(kvd, RDMA_CM_EVENT_CONNECT_REQUEST, 0);

	served = event->id;
	has_message(event, 77, "hello");
	v->ack_cm_event(event);
	assert_int_equal(half_open(), 0);
	assert_ptr_equal(served->context, &mark);
	assert_int_equal(served->route.addr.dst_addr.sa_family, to.sa.sa_family);
	assert_true(served->route.addr.dst_sin.sin_port);
	is_towards(served, 77);
	assert_int_equal(v->accept(served, &answer), 0);
	event = next(clients, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	assert_ptr_equal(event->id, id);
	has_message(event, 88, "welcome");
	v->ack_cm_event(event);
	assert_int_equal(v->establish(id), 0);
	assert_ptr_equal(next_is(kvd, RDMA_CM_EVENT_ESTABLISHED, 0), served);
	is_towards(id, 88);
	is_tuned(id);
	is_tuned(served);
	is_refused(v->establish(id), ENOTCONN);
	is_refused(v->accept(served, &answer), ENOTCONN);
	is_refused(v->reject(served, "", 0), ENOTCONN);
	/* What kvd ends both are told of, once. */
	assert_int_equal(v->disconnect(served), 0);
	assert_ptr_equal(next_is(kvd, RDMA_CM_EVENT_DISCONNECTED, 0), served);
	assert_ptr_equal(next_is(clients, RDMA_CM_EVENT_DISCONNECTED, 0), id);
	is_refused(v->disconnect(served), ENOTCONN);
	is_refused(v->disconnect(id), ENOTCONN);
	tells_nothing(kvd);
	tells_nothing(clients);
	assert_int_equal(v->destroy_id(id), 0);
	assert_int_equal(v->destroy_id(served), 0);
}

/* And kvd can be started again at once at the same address, though its old connections linger. */
static void test_connection(void **state)
{
	(void)state;
	connect_and_part();
	assert_int_equal(v->destroy_id(listener), 0);
	listen_at_to();
	connect_and_part();
}

static void test_ipv6(void **state)
{
	int fd = socket(AF_INET6, SOCK_STREAM, 0);

	(void)state;
	to.in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	bool has = fd >= 0 && !bind(fd, &to.sa, sizeof to.in6);
	close(fd);
	if (!has)
		skip();
	assert_int_equal(v->destroy_id(listener), 0);
	listen_at_to();
	connect_and_part();
}

/* Who is refused is told so with the reason, and nothing more. */
static void test_rejected(void **state)
{
	char longer[WIRE_BOOTSTRAP_DATA_BYTES + 1] = "no";
	struct rdma_cm_id *id = ask(), *served = next_is(kvd, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	struct rdma_cm_event *event;

	(void)state;
	is_refused(v->reject(served, longer, sizeof longer), EINVAL);
	assert_int_equal(v->reject(served, longer, sizeof longer - 1), 0);
	event = next(clients, RDMA_CM_EVENT_REJECTED, 0);
	assert_ptr_equal(event->id, id);
	assert_int_equal(event->param.conn.private_data_len, sizeof longer - 1);
	assert_memory_equal(event->param.conn.private_data, longer, sizeof longer - 1);
	v->ack_cm_event(event);
	is_refused(v->establish(id), ENOTCONN);
	is_refused(v->disconnect(id), ENOTCONN);
	assert_ptr_equal(next_is(kvd, RDMA_CM_EVENT_DISCONNECTED, 0), served);
	tells_nothing(clients);
	v->destroy_id(id);
	v->destroy_id(served);
}

static void test_calls_out_of_turn(void **state)
{
	char longer[WIRE_BOOTSTRAP_DATA_BYTES + 2];
	struct bootstrap_device device = { .name = "nic1" };
	struct rdma_cm_id *id = id_new(clients), *served;
	struct rdma_conn_param param;

	(void)state;
	memset(longer, 'x', sizeof longer);
	longer[WIRE_BOOTSTRAP_DATA_BYTES + 1] = '\0';
	param = param_of(1, longer);
	is_refused(v->set_option(id, BOOTSTRAP_LEVEL + 1, 0, &device, sizeof device), EINVAL);
	is_refused(v->set_option(id, BOOTSTRAP_LEVEL, 0, &device, sizeof device - 1), EINVAL);
	is_refused(v->set_option(listener, BOOTSTRAP_LEVEL, 0, &device, sizeof device), EINVAL);
	is_refused(v->connect(id, &(struct rdma_conn_param){ .qp_num = 1 }), EINVAL); /* not resolved */
	is_refused(v->disconnect(id), ENOTCONN);
	is_refused(v->establish(id), ENOTCONN);
	is_refused(v->accept(id, &param), ENOTCONN);
	assert_int_equal(v->listen(id, 1), -1); /* not bound */
	is_refused(v->bind_addr(id, &to.sa), EADDRINUSE);
	v->destroy_id(id);
	id = id_new(clients);
	assert_int_equal(v->set_option(id, BOOTSTRAP_LEVEL, 0, &device, sizeof device), 0);
	is_refused(v->bind_addr(id, &to.sa), ENODEV);
	is_refused(v->resolve_addr(id, NULL, &to.sa, 1), ENODEV);
	assert_null(id->verbs);
	v->destroy_id(id);
	tells_nothing(clients);
	id = ask();
	is_refused(v->connect(id, &(struct rdma_conn_param){ .qp_num = 1 }), EINVAL); /* again */
	served = next_is(kvd, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	is_refused(v->accept(served, &param), EINVAL);
	param.private_data_len--;
	assert_int_equal(v->accept(served, &param), 0);
	assert_ptr_equal(next_is(clients, RDMA_CM_EVENT_CONNECT_RESPONSE, 0), id);
	v->destroy_id(id);
	v->destroy_id(served);
	id = id_new(clients);
	assert_int_equal(v->resolve_addr(id, NULL, &to.sa, 1), 0);
	param.private_data_len++;
	is_refused(v->connect(id, &param), EINVAL);
	param.private_data_len--;
	assert_int_equal(v->connect(id, &param), 0);
	v->destroy_id(id); /* with an event that nobody took */
	assert_false(rings(clients, 0));
}

/* Nobody listens there; there is no way; the peer is gone before it is asked. */
static void test_unreachable(void **state)
{
	struct rdma_conn_param param = param_of(1, "");
	struct rdma_cm_id *id = id_new(clients);

	(void)state;
	assert_int_equal(v->resolve_addr(id, NULL, &to.sa, 1), 0);
	next_is(clients, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	id->route.addr.dst_sin.sin_addr.s_addr = INADDR_BROADCAST;
	assert_int_equal(v->connect(id, &param), -1);
	assert_int_not_equal(errno, EINPROGRESS);
	v->destroy_id(id);
	v->destroy_id(listener);
	id = id_new(clients);
	assert_int_equal(v->resolve_addr(id, NULL, &to.sa, 1), 0);
	next_is(clients, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(v->connect(id, &param), 0);
	assert_ptr_equal(next_is(clients, RDMA_CM_EVENT_UNREACHABLE, -ECONNREFUSED), id);
	is_refused(v->disconnect(id), ENOTCONN);
	v->destroy_id(id);
	listen_at_to();
	id = id_new(clients);
	assert_int_equal(v->resolve_addr(id, NULL, &to.sa, 1), 0);
	next_is(clients, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(v->connect(id, &param), 0);
	send_is_short = true;
	assert_ptr_equal(next_is(clients, RDMA_CM_EVENT_UNREACHABLE, -EPIPE), id);
	v->destroy_id(id);
}

/* Whoever has lost its peer, or can't say all of it, hears so from the call. */
static void test_says_too_little(void **state)
{
	struct rdma_conn_param param = param_of(1, "");
	struct rdma_cm_id *id = ask(), *served = accept_next(), *other;
	int fd;

	(void)state;
	assert_ptr_equal(next_is(clients, RDMA_CM_EVENT_CONNECT_RESPONSE, 0), id);
	send_is_short = true;
	is_refused(v->establish(id), EPIPE);
	v->destroy_id(id);
	assert_ptr_equal(next_is(kvd, RDMA_CM_EVENT_DISCONNECTED, 0), served);
	v->destroy_id(served);
	other = plain_asked(&fd);
	is_refused(v->accept(other, &param), EPIPE);
	is_refused(v->reject(other, "", 0), EPIPE);
	send_is_short = false;
	reset(fd);
	assert_int_equal(poll(&(struct pollfd){ .fd = ((struct id *)other)->fd }, 1, WAIT_MS), 1);
	is_refused(v->accept(other, &param), ECONNRESET);
	v->destroy_id(other);
}

/* Who makes a channel that blocks waits for its events, however long; who does not never waits. */
static void test_waits(void **state)
{
	struct rdma_cm_id *id = ask(), *served;
	struct rdma_cm_event *event;

	(void)state;
	served = accept_next();
	tells_nothing(kvd);
	assert_int_equal(waits_ms, 0);
	assert_int_equal(fcntl(clients->fd, F_SETFL, 0), 0);
	assert_true(rings(clients, WAIT_MS));
	assert_int_equal(v->get_cm_event(clients, &event), 0);
	assert_int_equal(waits_ms, -1);
	assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(v->ack_cm_event(event), 0);
	v->destroy_id(id);
	v->destroy_id(served);
}

/* Without a descriptor for its socket either end says so. */
static void test_without_descriptors(void **state)
{
	struct rdma_conn_param param = param_of(1, "");
	struct rdma_cm_id *id = id_new(clients), *other = id_new(clients);
	struct rlimit was, is;
	int rc[2], error[2];

	(void)state;
	assert_int_equal(v->resolve_addr(id, NULL, &to.sa, 1), 0);
	next_is(clients, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	is = was;
	is.rlim_cur = (rlim_t)next_fd();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &is), 0);
	rc[0] = v->connect(id, &param);
	error[0] = errno;
	rc[1] = v->bind_addr(other, &to.sa);
	error[1] = errno;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(rc[i], -1);
		assert_int_equal(error[i], EMFILE);
	}
	tells_nothing(clients);
	v->destroy_id(id);
	v->destroy_id(other);
}

/* An id has one socket: what would make another one of it is refused, and a call that fails leaves none. */
static void test_one_socket(void **state)
{
	struct rdma_conn_param param = param_of(1, "");
	struct rdma_cm_id *id = id_new(clients);
	int before = next_fd();

	(void)state;
	is_refused(v->listen(listener, 1), EINVAL);
	is_refused(v->bind_addr(listener, &to.sa), EINVAL);
	is_refused(v->bind_addr(id, &to.sa), EADDRINUSE);
	assert_int_equal(next_fd(), before);
	assert_int_equal(v->resolve_addr(id, NULL, &to.sa, 1), 0);
	next_is(clients, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	id->route.addr.dst_sin.sin_addr.s_addr = INADDR_BROADCAST;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(v->connect(id, &param), -1);
		assert_int_not_equal(errno, EINVAL);
		assert_int_equal(next_fd(), before);
	}
	to.in.sin_port = 0;
	assert_int_equal(v->bind_addr(id, &to.sa), 0);
	is_refused(v->bind_addr(id, &to.sa), EINVAL);
	is_refused(v->connect(id, &param), EINVAL);
	v->destroy_id(id);
	assert_int_equal(next_fd(), before);
}

/* Each base has a table of its own, which differs in rdma_cm's part only. */
static void test_tables(void **state)
{
	const struct verbs *other = bootstrap_verbs(&soft);
	struct rdma_cm_id *id;

	(void)state;
	assert_ptr_not_equal(other, v);
	assert_true(other->soft);
	assert_false(v->soft);
	assert_ptr_equal(v->query_gid, query_gid);
	assert_null(other->query_gid);
	assert_int_equal(other->create_id(clients, &id, NULL, RDMA_PS_TCP), 0);
	assert_ptr_equal(((struct id *)id)->path.base, &soft);
	assert_int_equal(other->destroy_id(id), 0);
	assert_int_equal(v->create_id(clients, &id, NULL, RDMA_PS_TCP), 0);
	assert_ptr_equal(((struct id *)id)->path.base, &verbs_system);
	assert_int_equal(v->destroy_id(id), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_connection),
		TEST(test_ipv6),
		TEST(test_rejected),
		TEST(test_calls_out_of_turn),
		TEST(test_unreachable),
		TEST(test_says_too_little),
		TEST(test_waits),
		TEST(test_without_descriptors),
		TEST(test_one_socket),
		TEST(test_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

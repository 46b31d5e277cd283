/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common/bootstrap/bootstrap.h: what either end makes of a peer that says something else, too much, or
 * nothing, and of more peers than there is room for.
 */
#include "tests/unit/common/bootstrap_kit.h"

static void test_what_is_sane(void **state)
{
	const struct wire_bootstrap good = sane(WIRE_BOOTSTRAP_RESPONSE);
	const unsigned kinds = 1u << WIRE_BOOTSTRAP_RESPONSE;
	struct wire_bootstrap m;

	(void)state;
#define IS(want, field, value)                                                                               \
	do {                                                                                                 \
		m = good;                                                                                    \
		m.field = (value);                                                                           \
		assert_int_equal(bootstrap_is_sane(&m, kinds), want);                                        \
	} while (0)
	IS(true, qpn, 0xffffff);
	IS(true, psn, 0xffffff);
	IS(true, mtu, IBV_MTU_256);
	IS(true, mtu, IBV_MTU_4096);
	IS(true, link_layer, WIRE_BOOTSTRAP_INFINIBAND);
	IS(true, data_bytes, WIRE_BOOTSTRAP_DATA_BYTES);
	IS(false, magic, good.magic + 1);
	IS(false, version, good.version + 1);
	IS(false, kind, 0);
	IS(false, kind, WIRE_BOOTSTRAP_REQUEST);
	IS(false, kind, WIRE_BOOTSTRAP_REJECTION);
	IS(false, kind, WIRE_BOOTSTRAP_READY + 1);
	IS(false, kind, WIRE_BOOTSTRAP_RESPONSE + 32);
	IS(false, link_layer, 0);
	IS(false, link_layer, 3);
	IS(false, qpn, 0x1000000);
	IS(false, psn, 0x1000000);
	IS(false, mtu, 0);
	IS(false, mtu, IBV_MTU_4096 + 1);
	IS(false, data_bytes, WIRE_BOOTSTRAP_DATA_BYTES + 1);
	m = sane(WIRE_BOOTSTRAP_READY);
	assert_true(bootstrap_is_sane(&m, 1u << WIRE_BOOTSTRAP_READY));
	m.kind++;
	assert_false(bootstrap_is_sane(&m, ~0u));
}

/* Of a peer whose request is not one nobody hears; a request may come in parts. */
static void test_plain_requests(void **state)
{
	struct wire_bootstrap m = sane(WIRE_BOOTSTRAP_REQUEST);
	struct rdma_cm_id *served;
	int fd = plain_client();

	(void)state;
	say_message(fd, WIRE_BOOTSTRAP_READY);
	does_its_part(kvd);
	ends(fd);
	assert_int_equal(half_open(), 0);
	fd = plain_client();
	say(fd, &m, sizeof m - 1);
	does_its_part(kvd);
	assert_int_equal(half_open(), 1);
	say(fd, (uint8_t *)&m + sizeof m - 1, 1);
	served = next_is(kvd, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	assert_ptr_equal(served->verbs, &context);
	say(fd, "x", 1);
	assert_ptr_equal(next_is(kvd, RDMA_CM_EVENT_DISCONNECTED, -EPROTO), served);
	is_refused(v->reject(served, "", 0), ENOTCONN);
	ends(fd);
	v->destroy_id(served);
	/* The device went down meanwhile. */
	port_error = EIO;
	fd = plain_client();
	say(fd, &m, sizeof m);
	does_its_part(kvd);
	ends(fd);
}

/* Whether a peer that kvd accepted is ready, is not what it says it is, or goes. */
static void test_plain_ready(void **state)
{
	static const struct {
		enum wire_bootstrap_kind says; /* 0: it goes */
		enum rdma_cm_event_type event;
		int status;
	} cases[] = { { WIRE_BOOTSTRAP_READY, RDMA_CM_EVENT_ESTABLISHED, 0 },
		      { WIRE_BOOTSTRAP_REQUEST, RDMA_CM_EVENT_DISCONNECTED, -EPROTO },
		      { 0, RDMA_CM_EVENT_DISCONNECTED, 0 } };
	struct rdma_conn_param param = param_of(88, "welcome");
	struct wire_bootstrap m;
	int fd;

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct rdma_cm_id *served = plain_asked(&fd);
		assert_int_equal(v->accept(served, &param), 0);
		assert_int_equal(recv(fd, &m, sizeof m, MSG_WAITALL), sizeof m);
		assert_true(bootstrap_is_sane(&m, 1u << WIRE_BOOTSTRAP_RESPONSE));
		if (cases[i].says)
			say_message(fd, cases[i].says);
		else
			shutdown(fd, SHUT_RDWR);
		assert_ptr_equal(next_is(kvd, cases[i].event, cases[i].status), served);
		if (cases[i].event == RDMA_CM_EVENT_ESTABLISHED) {
			say_message(fd, WIRE_BOOTSTRAP_READY); /* once is enough */
			assert_ptr_equal(next_is(kvd, RDMA_CM_EVENT_DISCONNECTED, -EPROTO), served);
			tells_nothing(kvd); /* it is not up again */
		}
		is_refused(v->accept(served, &param), ENOTCONN);
		close(fd);
		v->destroy_id(served);
	}
	tells_nothing(kvd);
}

/* A client's server that answers something else, goes, or says more than it has to. */
static void test_plain_server(void **state)
{
	struct rdma_cm_id *id;
	int fd;

	(void)state;
	id = ask_plain(&fd);
	say_message(fd, WIRE_BOOTSTRAP_READY);
	assert_ptr_equal(next_is(clients, RDMA_CM_EVENT_CONNECT_ERROR, -EPROTO), id);
	ends(fd);
	v->destroy_id(id);
	for (int i = 0; i < 2; i++) {
		id = ask_plain(&fd);
		i ? reset(fd) : close(fd);
		assert_ptr_equal(next_is(clients, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNRESET), id);
		v->destroy_id(id);
	}
	id = answered_plain(&fd);
	say(fd, "x", 1);
	assert_ptr_equal(next_is(clients, RDMA_CM_EVENT_DISCONNECTED, -EPROTO), id);
	ends(fd);
	is_refused(v->establish(id), ENOTCONN);
	v->destroy_id(id);
	id = answered_plain(&fd);
	assert_int_equal(v->establish(id), 0);
	reset(fd);
	assert_ptr_equal(next_is(clients, RDMA_CM_EVENT_DISCONNECTED, -ECONNRESET), id);
	v->destroy_id(id);
}

/* A wake-up for nothing changes nothing. */
static void test_woken_for_nothing(void **state)
{
	struct rdma_cm_id *id = ask(), *served = accept_next();
	struct epoll_event e = { .events = EPOLLOUT | EPOLLONESHOT, .data.ptr = served };

	(void)state;
	assert_int_equal(epoll_ctl(kvd->fd, EPOLL_CTL_MOD, ((struct id *)served)->fd, &e), 0);
	does_its_part(kvd);
	e.events = EPOLLIN;
	assert_int_equal(epoll_ctl(kvd->fd, EPOLL_CTL_MOD, ((struct id *)served)->fd, &e), 0);
	next_is(clients, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	assert_int_equal(v->establish(id), 0);
	next_is(kvd, RDMA_CM_EVENT_ESTABLISHED, 0);
	v->destroy_id(id);
	v->destroy_id(served);
}

static void until_half_open(unsigned n)
{
	while (half_open() != n)
		does_its_part(kvd);
}

/* Those that say nothing: they go in any order, and the eldest make room. */
static void test_half_open(void **state)
{
	int fd[HALF_OPEN_MAX + 2];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		fd[i] = plain_client();
		until_half_open(i + 1);
	}
	reset(fd[1]);
	until_half_open(3);
	close(fd[3]);
	until_half_open(2);
	close(fd[0]);
	until_half_open(1);
	fd[0] = fd[2];
	for (unsigned i = 1; i < HALF_OPEN_MAX; i++) {
		fd[i] = plain_client();
		until_half_open(i + 1);
	}
	for (unsigned i = 0; i < 2; i++) {
		fd[HALF_OPEN_MAX + i] = plain_client();
		assert_true(is_open(fd[i]));
		does_its_part(kvd);
		ends(fd[i]);
		assert_true(is_open(fd[i + 1]));
		assert_int_equal(half_open(), HALF_OPEN_MAX);
	}
	v->destroy_id(listener);
	for (unsigned i = 2; i < HALF_OPEN_MAX + 2; i++)
		ends(fd[i]);
	to.in.sin_port = 0;
	listen_at_to();
}

/* So many in a row that the others have their turn; what fails of one is not the next one's. */
static void test_arrivals(void **state)
{
	static const int passing[] = { EINTR, ECONNABORTED }, lacking[] = { EMFILE, ENFILE };
	int fd[65];

	(void)state;
	for (unsigned i = 0; i < 65; i++)
		fd[i] = plain_client();
	bootstrap_server_arrived((struct id *)listener);
	assert_int_equal(half_open(), 64);
	bootstrap_server_arrived((struct id *)listener);
	assert_int_equal(half_open(), 65);
	for (unsigned i = 0; i < 65; i++)
		close(fd[i]);
	until_half_open(0);
	for (unsigned i = 0; i < 2; i++) {
		fd[0] = plain_client();
		accept_error = passing[i];
		bootstrap_server_arrived((struct id *)listener);
		assert_int_equal(half_open(), 1);
		close(fd[0]);
		until_half_open(0);
		fd[0] = plain_client();
		accept_error = lacking[i];
		bootstrap_server_arrived((struct id *)listener);
		assert_int_equal(half_open(), 0);
		ends(fd[0]);
	}
	fd[0] = plain_client();
	accept_error = ENOMEM; /* it is asked again later */
	bootstrap_server_arrived((struct id *)listener);
	assert_true(is_open(fd[0]));
	until_half_open(1);
	close(fd[0]);
}

/* Without a descriptor those that come are sent away, one after the other, and nothing rings for ever. */
static void test_without_descriptors(void **state)
{
	struct rlimit was, is;
	int fd[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		fd[i] = plain_client();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	is = was;
	is.rlim_cur = (rlim_t)next_fd();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &is), 0);
	for (unsigned i = 0; i < 3 && rings(kvd, WAIT_MS); i++)
		bootstrap_server_arrived((struct id *)listener);
	bool still = rings(kvd, 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_false(still);
	for (unsigned i = 0; i < 3; i++)
		ends(fd[i]);
	assert_int_equal(half_open(), 0);
	assert_true(fcntl(((struct id *)listener)->spare_fd, F_GETFD) & FD_CLOEXEC);
}

/* Where the channel's set takes no more, or its bell is gone, the call fails, or the peer is let go. */
static void test_without_room(void **state)
{
	struct rdma_conn_param param = param_of(1, "");
	struct rdma_cm_id *id = id_new(clients);
	int bell = ((struct channel *)clients)->bell, set = clients->fd, fd;

	(void)state;
	((struct channel *)clients)->bell = -1;
	is_refused(v->resolve_addr(id, NULL, &to.sa, 1), ENOMEM);
	is_refused(v->resolve_route(id, 1), ENOMEM);
	((struct channel *)clients)->bell = bell;
	clients->fd = -1;
	assert_int_equal(v->connect(id, &param), -1);
	clients->fd = set;
	v->destroy_id(id);
	set = kvd->fd;
	fd = plain_client();
	kvd->fd = -1;
	bootstrap_server_arrived((struct id *)listener);
	id = id_new(kvd);
	struct sockaddr_in any = { .sin_family = AF_INET };
	assert_int_equal(v->bind_addr(id, (struct sockaddr *)&any), 0);
	assert_int_equal(v->listen(id, 1), -1);
	kvd->fd = set;
	ends(fd);
	assert_int_equal(half_open(), 0);
	v->destroy_id(id);
}

/* Without memory calls say so, and a peer that comes is let go. */
static void test_without_memory(void **state)
{
	struct rdma_cm_id *id = id_new(clients), *none;
	struct rdma_event_channel *channel;
	int fd = plain_client();

	(void)state;
	no_memory = true;
	int rc = v->create_id(clients, &none, NULL, RDMA_PS_TCP);
	channel = v->create_event_channel();
	bootstrap_server_arrived((struct id *)listener);
	no_memory = false;
	assert_int_equal(rc, -1);
	assert_null(channel);
	assert_int_equal(half_open(), 0);
	ends(fd);
	no_memory = true;
	rc = v->resolve_route(id, 1);
	no_memory = false;
	is_refused(rc, ENOMEM);
	tells_nothing(clients);
	v->destroy_id(id);
}

/* A request for which there is no memory is told to nobody: the peer sees its end, and kvd goes on. */
static void test_asked_without_memory(void **state)
{
	int fd = plain_client();
	char byte;

	(void)state;
	until_half_open(1);
	say_message(fd, WIRE_BOOTSTRAP_REQUEST);
	assert_true(rings(kvd, WAIT_MS));
	no_memory = true;
	tells_nothing(kvd);
	no_memory = false;
	assert_int_equal(half_open(), 0);
	assert_int_equal(read(fd, &byte, 1), 0);
	close(fd);
	tells_nothing(kvd);
}

/* Nor can a device be opened. */
static void test_device_without_memory(void **state)
{
	struct bootstrap_device device = { .name = "nic9" };
	struct rdma_cm_id *id = id_new(clients);

	(void)state;
	assert_int_equal(v->set_option(id, BOOTSTRAP_LEVEL, 0, &device, sizeof device), 0);
	no_memory = true;
	int rc = v->resolve_addr(id, NULL, &to.sa, 1), error = errno;
	no_memory = false;
	assert_int_equal(rc, -1);
	assert_int_equal(error, ENOMEM);
	v->destroy_id(id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_sane),
		TEST(test_plain_requests),
		TEST(test_plain_ready),
		TEST(test_plain_server),
		TEST(test_woken_for_nothing),
		TEST(test_half_open),
		TEST(test_arrivals),
		TEST(test_without_descriptors),
		TEST(test_without_room),
		TEST(test_without_memory),
		TEST(test_asked_without_memory),
		TEST(test_device_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection management: which listeners are found from which addresses, calls in a state where
 * they make no sense, and ids that end while others still have something of theirs; what the resolver
 * is asked, which the test plays.
 *
 * The program is linked with --wrap=pthread_cond_wait: an event is acknowledged once somebody waits.
 */
#include <netdb.h>
#include <pthread.h>
#include "tests/unit/softverbs/events.h"

union addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

static union addr address(const char *text, uint16_t port)
{
	union addr addr = { 0 };

	if (strchr(text, ':')) {
		addr.in6.sin6_family = AF_INET6;
		addr.in6.sin6_port = port;
		CHECK(inet_pton(AF_INET6, text, &addr.in6.sin6_addr) == 1);
	} else {
		addr.in.sin_family = AF_INET;
		addr.in.sin_port = port;
		CHECK(inet_pton(AF_INET, text, &addr.in.sin_addr) == 1);
	}
	return addr;
}

static struct rdma_cm_id *new_id(struct rdma_event_channel *ch, enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	CHECK(!sv_create_id(ch, &id, NULL, ps));
	return id;
}

static struct rdma_cm_id *listen_at(struct rdma_event_channel *ch, const char *text, int only)
{
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);
	union addr addr = address(text, 0);

	CHECK(!sv_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof(only)));
	CHECK(!sv_bind_addr(id, &addr.sa) && sv_get_src_port(id));
	CHECK(!sv_listen(id, 4));
	return id;
}

static struct rdma_cm_id *resolved(struct rdma_event_channel *ch, enum rdma_port_space ps, const char *text,
				   uint16_t port)
{
	struct rdma_cm_id *id = new_id(ch, ps);
	union addr addr = address(text, port);

	CHECK(!sv_resolve_addr(id, NULL, &addr.sa, 1000));
	expect_event(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(sv_get_dst_port(id) == port);
	CHECK(ntohs(sv_get_src_port(id)) >= 32768); /* none that a service has */
	CHECK(id->route.addr.src_addr.sa_family == addr.sa.sa_family);
	CHECK(!sv_resolve_route(id, 1000));
	expect_event(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return id;
}

/* ---- addresses ---- */

struct way {
	const char *bound, *dialled;
	int only; /* addresses of its family */
	bool reached;
};

static void go(const struct way *way)
{
	struct rdma_event_channel *ch = sv_create_event_channel(), *other = sv_create_event_channel();
	struct rdma_cm_id *listener = listen_at(ch, way->bound, way->only);
	struct rdma_cm_id *id = resolved(other, RDMA_PS_TCP, way->dialled, sv_get_src_port(listener));
	struct rdma_cm_event *ev;

	CHECK(!sv_connect(id, NULL));
	if (way->reached) {
		ev = next_event(ch);
		CHECK(ev->event == RDMA_CM_EVENT_CONNECT_REQUEST && ev->listen_id == listener);
		CHECK(!ev->param.conn.qp_num && !ev->param.conn.srq); /* none was named */
		CHECK(ev->param.conn.retry_count == 7 && ev->param.conn.rnr_retry_count == 7);
		CHECK(!sv_reject(ev->id, "no", 2));
		CHECK(!sv_destroy_id(ev->id) && !sv_ack_cm_event(ev));
	}
	ev = next_event(other);
	CHECK(ev->event == RDMA_CM_EVENT_REJECTED && (ev->param.conn.private_data != NULL) == way->reached);
	CHECK(!sv_ack_cm_event(ev));
	CHECK(!sv_destroy_id(id) && !sv_destroy_id(listener));
	sv_destroy_event_channel(ch);
	sv_destroy_event_channel(other);
}

static void reached(int sock)
{
	static const struct way ways[] = {
		{ "127.0.0.1", "127.0.0.1", 0, true },
		{ "127.0.0.1", "0.0.0.0", 0, true },
		{ "0.0.0.0", "127.0.0.1", 1, true },
		{ "127.0.0.1", "::ffff:127.0.0.1", 0, true },
		{ "::ffff:127.0.0.1", "127.0.0.1", 0, true },
		{ "0.0.0.0", "::ffff:127.0.0.1", 0, true },
		{ "::", "127.0.0.1", 0, true },
		{ "::", "::ffff:127.0.0.1", 0, true },
		{ "::", "::1", 0, true },
		{ "::", "::1", 1, true },
		{ "::1", "::1", 1, true },
		{ "::1", "::", 0, true },
	};

	(void)sock;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		go(&ways[i]);
}

static void not_reached(int sock)
{
	static const struct way ways[] = {
		{ "127.0.0.2", "127.0.0.1", 0, false },
		{ "0.0.0.0", "::1", 0, false },
		{ "::", "127.0.0.1", 1, false },
		{ "::1", "127.0.0.1", 0, false },
		{ "::ffff:127.0.0.1", "::1", 0, false },
	};

	(void)sock;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		go(&ways[i]);
}

static void test_addresses(void **state)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	bool have = fd >= 0 && !bind(fd, (struct sockaddr *)&in6, sizeof(in6));

	(void)state;
	if (fd >= 0)
		close(fd);
	if (!have)
		skip();
	kit_run(reached, not_reached);
}

/* ---- states ---- */

static void fails(int ret, int error)
{
	CHECK(ret == -1 && errno == error);
}

static void orders(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	union addr local = address("127.0.0.1", htons(9)), far = address("192.0.2.1", htons(9));
	union addr mine = address("127.0.0.1", 0), none = { .sa.sa_family = AF_UNIX };
	struct rdma_cm_id *id = resolved(ch, RDMA_PS_TCP, "127.0.0.1", htons(9));

	(void)sock;
	fails(sv_resolve_addr(id, NULL, &local.sa, 1000), EINVAL);
	fails(sv_resolve_addr(id, NULL, &none.sa, 1000), EAFNOSUPPORT);
	fails(sv_bind_addr(id, &mine.sa), EINVAL);
	fails(sv_listen(id, 1), EINVAL);
	fails(sv_resolve_route(id, 1000), EINVAL);
	fails(sv_establish(id), EINVAL);
	fails(sv_accept(id, NULL), EINVAL);
	fails(sv_reject(id, NULL, 0), EINVAL);
	fails(sv_disconnect(id), EINVAL);
	CHECK(!sv_destroy_id(id));
	id = new_id(ch, RDMA_PS_TCP);
	fails(sv_resolve_route(id, 1000), EINVAL);
	fails(sv_connect(id, NULL), EINVAL);
	fails(sv_bind_addr(id, &far.sa), EADDRNOTAVAIL);
	fails(sv_bind_addr(id, &none.sa), EAFNOSUPPORT);
	CHECK(!sv_resolve_addr(id, NULL, &far.sa, 1000));
	expect_event(ch, RDMA_CM_EVENT_ADDR_ERROR, -EADDRNOTAVAIL);
	CHECK(!sv_listen(id, 1)); /* binds it */
	CHECK(id->route.addr.src_addr.sa_family == AF_INET && sv_get_src_port(id));
	fails(sv_resolve_addr(id, NULL, &local.sa, 1000), EINVAL);
	CHECK(!sv_destroy_id(id));
	id = new_id(ch, RDMA_PS_TCP); /* a port of its own, which stays */
	CHECK(!sv_bind_addr(id, &mine.sa));
	mine.in.sin_port = sv_get_src_port(id);
	CHECK(!sv_resolve_addr(id, NULL, &local.sa, 1000));
	expect_event(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(sv_get_src_port(id) == mine.in.sin_port && sv_get_dst_port(id) == htons(9));
	CHECK(!sv_destroy_id(id));
	sv_destroy_event_channel(ch);
}

/* Of a wildcard with a port: the address is chosen, the port kept. */
static void sources(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	union addr any = address("0.0.0.0", 0), dst = address("127.0.0.1", htons(9));
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP), *sync;
	uint16_t port;

	(void)sock;
	CHECK(!sv_bind_addr(id, &any.sa));
	port = sv_get_src_port(id);
	CHECK(!sv_resolve_addr(id, NULL, &dst.sa, 1000));
	expect_event(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(port && sv_get_src_port(id) == port);
	CHECK(id->route.addr.src_sin.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
	CHECK(!sv_destroy_id(id));
	sync = new_id(NULL, RDMA_PS_TCP);
	dst = address("192.0.2.1", htons(9));
	errno = 0;
	fails(sv_resolve_addr(sync, NULL, &dst.sa, 1000), EADDRNOTAVAIL);
	CHECK(sync->event && sync->event->event == RDMA_CM_EVENT_ADDR_ERROR);
	dst = address("127.0.0.1", htons(9));
	CHECK(!sv_resolve_addr(sync, NULL, &dst.sa, 1000) && !sv_resolve_route(sync, 1000));
	errno = 0;
	fails(sv_connect(sync, NULL), ECONNREFUSED); /* nobody */
	CHECK(!sv_destroy_id(sync));
	sv_destroy_event_channel(ch);
}

/* The device's ports are its own: that the system's of the same number is taken doesn't matter. */
static void ports(int sock)
{
	static const char *const texts[] = { "127.0.0.1", "::1" };
	struct rdma_event_channel *ch = sv_create_event_channel();

	(void)sock;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		union addr addr = address(texts[i], 0);
		socklen_t len = sizeof(addr);
		int fd = socket(addr.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		struct rdma_cm_id *id;

		if (fd >= 0 && !bind(fd, &addr.sa, i ? sizeof(addr.in6) : sizeof(addr.in))) {
			id = new_id(ch, RDMA_PS_TCP);
			CHECK(!getsockname(fd, &addr.sa, &len) && addr.in.sin_port);
			CHECK(!sv_bind_addr(id, &addr.sa) && sv_get_src_port(id) == addr.in.sin_port);
			CHECK(!sv_destroy_id(id));
		}
		close(fd);
	}
	sv_destroy_event_channel(ch);
}

static void test_states(void **state)
{
	(void)state;
	kit_run(orders, sources);
	kit_run(ports, kit_nothing);
}

/* ---- ends ---- */

static struct rdma_cm_event *held;
static _Atomic bool acked;

int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);

static _Atomic bool awaited;

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	awaited = true;
	return __real_pthread_cond_wait(cond, mutex);
}

static void *ack(void *arg)
{
	(void)arg;
	while (!awaited)
		sched_yield();
	acked = true;
	CHECK(!sv_ack_cm_event(held));
	return NULL;
}

/* An id lasts until its events are acknowledged. */
static void held_event(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel();
	union addr dst = address("127.0.0.1", htons(9));
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);
	pthread_t thread;

	(void)sock;
	CHECK(!sv_resolve_addr(id, NULL, &dst.sa, 1000));
	held = next_event(ch);
	CHECK(!pthread_create(&thread, NULL, ack, NULL));
	CHECK(!sv_destroy_id(id) && acked);
	CHECK(!pthread_join(thread, NULL));
	sv_destroy_event_channel(ch);
}

/* A request that was taken outlives its listener. */
static void orphan(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel(), *other = sv_create_event_channel();
	struct rdma_cm_id *listener = listen_at(ch, "127.0.0.1", 0), *request;
	struct rdma_cm_id *id = resolved(other, RDMA_PS_TCP, "127.0.0.1", sv_get_src_port(listener));
	struct rdma_conn_param param = { .qp_num = 5 };
	struct rdma_cm_event *ev;

	(void)sock;
	CHECK(!sv_connect(id, &param));
	ev = next_event(ch);
	CHECK(ev->event == RDMA_CM_EVENT_CONNECT_REQUEST && ev->param.conn.qp_num == 5);
	request = ev->id;
	CHECK(!sv_ack_cm_event(ev) && !sv_destroy_id(listener));
	listener = listen_at(ch, "127.0.0.1", 0); /* perhaps in the memory of the first */
	param.qp_num = 6;
	CHECK(!sv_accept(request, &param));
	ev = next_event(other);
	CHECK(ev->event == RDMA_CM_EVENT_CONNECT_RESPONSE && ev->param.conn.qp_num == 6);
	CHECK(!sv_ack_cm_event(ev) && !sv_establish(id));
	expect_event(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK(!sv_destroy_id(request) && !sv_destroy_id(id));
	id = resolved(other, RDMA_PS_TCP, "127.0.0.1", sv_get_src_port(listener));
	CHECK(!sv_connect(id, &param));
	ev = next_event(ch);
	CHECK(ev->event == RDMA_CM_EVENT_CONNECT_REQUEST && ev->listen_id == listener);
	CHECK(!sv_destroy_id(ev->id) && !sv_ack_cm_event(ev));
	CHECK(!sv_destroy_id(id) && !sv_destroy_id(listener));
	sv_destroy_event_channel(ch);
	sv_destroy_event_channel(other);
}

static void test_ends(void **state)
{
	(void)state;
	kit_run(held_event, orphan);
}

/* ---- private data ---- */

/* What a datagram id can say is less than what its message has room for. */
static void datagrams(int sock)
{
	struct rdma_event_channel *ch = sv_create_event_channel(), *other = sv_create_event_channel();
	union addr addr = address("127.0.0.1", 0);
	struct rdma_cm_id *listener = new_id(ch, RDMA_PS_UDP), *id;
	struct rdma_conn_param param = { .qp_num = 5 };
	static const char data[256] = "data";
	struct rdma_cm_event *ev;

	(void)sock;
	param.private_data = data;
	CHECK(!sv_bind_addr(listener, &addr.sa) && !sv_listen(listener, 4));
	id = resolved(other, RDMA_PS_UDP, "127.0.0.1", sv_get_src_port(listener));
	param.private_data_len = 181;
	fails(sv_connect(id, &param), EINVAL);
	param.private_data_len = 180;
	CHECK(!sv_connect(id, &param));
	ev = next_event(ch);
	CHECK(ev->event == RDMA_CM_EVENT_CONNECT_REQUEST && ev->param.ud.private_data_len == 180);
	param.private_data_len = 137;
	fails(sv_accept(ev->id, &param), EINVAL);
	param.private_data_len = 136;
	CHECK(!sv_accept(ev->id, &param));
	CHECK(!sv_destroy_id(ev->id) && !sv_ack_cm_event(ev));
	ev = next_event(other);
	CHECK(ev->event == RDMA_CM_EVENT_ESTABLISHED && ev->param.ud.private_data_len == 136);
	CHECK(ev->param.ud.qp_num == 5 && !strcmp(ev->param.ud.private_data, data));
	CHECK(!sv_ack_cm_event(ev) && !sv_destroy_id(id) && !sv_destroy_id(listener));
	sv_destroy_event_channel(ch);
	sv_destroy_event_channel(other);
}

static void test_data(void **state)
{
	(void)state;
	kit_run(datagrams, kit_nothing);
}

/* ---- names ---- */

static struct addrinfo asked; /* of the resolver; and what it answers */
static int answer, answer_errno, given, freed;
static struct sockaddr_in at = { .sin_family = AF_INET };
static struct addrinfo found = { .ai_family = AF_INET, .ai_addr = (struct sockaddr *)&at,
				 .ai_addrlen = sizeof(at) };

int getaddrinfo(const char *node, const char *service, const struct addrinfo *want, struct addrinfo **res)
{
	CHECK(!strcmp(node, "name") && !strcmp(service, "12"));
	asked = *want;
	errno = answer_errno;
	if (!answer) {
		given++;
		*res = &found;
	}
	return answer;
}

void freeaddrinfo(struct addrinfo *res)
{
	CHECK(res == &found);
	freed++;
}

static struct rdma_addrinfo *resolve(int flags, int family)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_family = family }, *res = NULL;

	CHECK(!sv_getaddrinfo("name", "12", &hints, &res) && res && given == freed);
	CHECK(asked.ai_socktype == SOCK_STREAM && res->ai_family == AF_INET);
	return res;
}

/* The resolver is asked as the hints say: whether the name is a number, of which family, for whom. */
static void test_asked(void **state)
{
	struct rdma_addrinfo *res;

	(void)state;
	answer = answer_errno = 0;
	at.sin_port = htons(12);
	res = resolve(0, AF_INET6);
	assert_true(!asked.ai_flags && !asked.ai_family && !res->ai_src_addr && !res->ai_src_len);
	assert_int_equal(res->ai_dst_len, sizeof(at));
	assert_memory_equal(res->ai_dst_addr, &at, sizeof(at));
	sv_freeaddrinfo(res);
	res = resolve(RAI_NUMERICHOST, AF_INET6);
	assert_true(asked.ai_flags == AI_NUMERICHOST && !asked.ai_family);
	sv_freeaddrinfo(res);
	res = resolve(RAI_FAMILY, AF_INET6);
	assert_true(!asked.ai_flags && asked.ai_family == AF_INET6);
	sv_freeaddrinfo(res);
	res = resolve(RAI_PASSIVE, 0);
	assert_true(asked.ai_flags == AI_PASSIVE && !asked.ai_family);
	assert_true(!res->ai_dst_addr && !res->ai_dst_len);
	assert_int_equal(res->ai_src_len, sizeof(at));
	assert_memory_equal(res->ai_src_addr, &at, sizeof(at));
	sv_freeaddrinfo(res);
}

/* What was found counts before the addresses of the hints; those count where nothing was looked up. */
static void test_found_or_hinted(void **state)
{
	struct sockaddr_in hinted = at;
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_src_addr = (struct sockaddr *)&hinted,
				       .ai_src_len = sizeof(hinted) }, *res;

	(void)state;
	answer = 0;
	at.sin_port = htons(12);
	hinted.sin_port = htons(13);
	assert_int_equal(sv_getaddrinfo("name", "12", &hints, &res), 0);
	assert_memory_equal(res->ai_src_addr, &at, sizeof(at));
	sv_freeaddrinfo(res);
	hints.ai_family = AF_INET6;
	assert_int_equal(sv_getaddrinfo(NULL, NULL, &hints, &res), 0);
	assert_memory_equal(res->ai_src_addr, &hinted, sizeof(hinted));
	assert_int_equal(res->ai_family, AF_INET6); /* as the hints say */
	sv_freeaddrinfo(res);
}

/* Why a name was not found: what may be tried again, and what the system says, is told apart. */
static void test_not_found(void **state)
{
	static const struct {
		int answer, system, error;
	} all[] = { { EAI_NONAME, 0, ENODATA }, { EAI_FAIL, EACCES, ENODATA }, { EAI_AGAIN, 0, EAGAIN },
		    { EAI_MEMORY, 0, ENOMEM }, { EAI_SYSTEM, EMFILE, EMFILE } };
	struct rdma_addrinfo *res = NULL;

	(void)state;
	given = freed = 0;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		answer = all[i].answer;
		answer_errno = all[i].system;
		assert_int_equal(sv_getaddrinfo("name", "12", NULL, &res), -1);
		assert_int_equal(errno, all[i].error);
		assert_true(!res && !freed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses), cmocka_unit_test(test_states),
		cmocka_unit_test(test_ends),	  cmocka_unit_test(test_data),
		cmocka_unit_test(test_asked),	  cmocka_unit_test(test_found_or_hinted),
		cmocka_unit_test(test_not_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

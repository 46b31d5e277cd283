/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/host/listener.h: addresses of two devices that the test makes up: which there are, what is
 * bound, why one can't be, and which an id came by.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/host/host.h"
#include "server/host/listener.h"
#include "server/host/rails.h"
#include "server/worker/context.h"

static struct ibv_device device[2] = { { .name = "hca0" }, { .name = "hca1" } };
static struct ibv_context context[2] = { { .device = &device[0] }, { .device = &device[1] } };
static struct rdma_event_channel channel;
static struct rdma_cm_id ids[LISTENERS_MAX];
static unsigned ids_made, ids_deleted, listening, checks_of_first;
/* What fails, with which error. */
static enum { NOTHING, CHANNEL, ID, PREPARE, BIND, CHECK, LISTEN, NO_DEVICE } what;
static int error;
static struct verbs made_up;
static struct server server;
static struct host host;
static struct err err;

/* --------------------------------------------------------------------- devices */

static bool fails(int at)
{
	errno = error;
	return (int)what == at;
}

static struct rdma_event_channel *create_event_channel(void)
{
	return fails(CHANNEL) ? NULL : &channel;
}

static int create_id(struct rdma_event_channel *c, struct rdma_cm_id **id, void *ctx,
		     enum rdma_port_space ps)
{
	assert_ptr_equal(c, &channel);
	assert_ptr_equal(ctx, &host);
	assert_int_equal(ps, RDMA_PS_TCP);
	if (fails(ID))
		return -1;
	*id = &ids[ids_made++];
	**id = (struct rdma_cm_id){ .port_num = 2 };
	return 0;
}

static int destroy_id(struct rdma_cm_id *id)
{
	assert_non_null(id);
	ids_deleted++;
	return 0;
}

/* Ports tell the device: even ones are of the first. */
static int bind_addr(struct rdma_cm_id *id, struct sockaddr *sa)
{
	unsigned port = ntohs(((struct sockaddr_in *)(void *)sa)->sin_port);

	if (fails(BIND))
		return -1;
	memcpy(&id->route.addr.src_storage, sa, sizeof(struct sockaddr_in));
	id->verbs = what == NO_DEVICE ? NULL : &context[port % 2];
	return 0;
}

static __be16 get_src_port(struct rdma_cm_id *id)
{
	in_port_t port = id->route.addr.src_sin.sin_port;

	return port ? port : htons(4000);
}

static int listen_id(struct rdma_cm_id *id, int backlog)
{
	(void)id;
	assert_true(backlog > 1);
	listening++;
	return fails(LISTEN) ? -1 : 0;
}

int __wrap_device_prepare(const struct device *d, struct rdma_cm_id *id);
int __wrap_device_check(struct device *d, const struct rdma_cm_id *id, const struct addr *addr,
			struct err *to);
const char *__wrap_device_list(char *buf, size_t buf_bytes);

int __wrap_device_prepare(const struct device *d, struct rdma_cm_id *id)
{
	assert_ptr_equal(d, &server.device);
	assert_ptr_equal(id, &ids[ids_made - 1]);
	return fails(PREPARE) ? -1 : 0;
}

int __wrap_device_check(struct device *d, const struct rdma_cm_id *id, const struct addr *addr,
			struct err *to)
{
	(void)id;
	(void)addr;
	checks_of_first += d == &server.device;
	return fails(CHECK) ? err_set(to, -1, "it is another device") : 0;
}

const char *__wrap_device_list(char *buf, size_t buf_bytes)
{
	snprintf(buf, buf_bytes, "hca0, hca1");
	return buf;
}

/* ----------------------------------------------------------------------- lists */

static void test_list(void **state)
{
	char list[32 * LISTENERS_MAX] = "", buf[256], longest[1025];

	(void)state;
	assert_int_equal(listeners_parse(&host, "192.0.2.1:7480,[2001:db8::1]:7481,127.0.0.1:1", &err), 0);
	assert_int_equal(host.listener_count, 3);
	assert_string_equal(server.addr.text, "192.0.2.1:7480");
	assert_string_equal(listeners_text(&host, buf, sizeof buf),
			    "192.0.2.1:7480, [2001:db8::1]:7481, 127.0.0.1:1");
	assert_string_equal(listeners_text(&host, buf, 10), "192.0.2.1");
	for (unsigned i = 0; i < LISTENERS_MAX; i++)
		sprintf(list + strlen(list), "%s127.0.0.1:%u", i ? "," : "", i + 1);
	assert_int_equal(listeners_check(list, &err), 0);
	assert_int_equal(listeners_parse(&host, list, &err), 0);
	assert_int_equal(host.listener_count, LISTENERS_MAX);
	strcat(list, ",127.0.0.1:99");
	assert_int_equal(listeners_check(list, &err), -1);
	assert_string_equal(err.text, "more than 16 addresses");
	assert_int_equal(listeners_parse(&host, list, &err), -1);
	assert_int_equal(listeners_check("", &err), -1);
	assert_non_null(strstr(err.text, "'' is not an address"));
	assert_int_equal(listeners_check(",", &err), -1);
	assert_int_equal(listeners_check("127.0.0.1:1,nonsense:x:y", &err), -1);
	memset(longest, ',', sizeof longest);
	memcpy(longest, "127.0.0.1:1", 11);
	longest[1024] = '\0';
	assert_int_equal(listeners_check(longest, &err), -1);
	assert_string_equal(err.text, "the list of addresses is too long");
	longest[1023] = '\0';
	assert_int_equal(listeners_check(longest, &err), 0);
}

static void test_widest(void **state)
{
	(void)state;
	listeners_parse(&host, "127.0.0.1:1,127.0.0.2:2", &err);
	assert_ptr_equal(listeners_widest(&host), &host.listeners[0].addr);
	listeners_parse(&host, "127.0.0.1:1,192.0.2.1:2,192.0.2.2:3", &err);
	assert_ptr_equal(listeners_widest(&host), &host.listeners[1].addr);
}

/* ------------------------------------------------------------------------ open */

static int open_list(const char *list)
{
	assert_int_equal(listeners_parse(&host, list, &err), 0);
	return listeners_open(&host, &err);
}

static void test_open(void **state)
{
	(void)state;
	assert_int_equal(open_list("127.0.0.1:0,127.0.0.1:3,127.0.0.2:2"), 0);
	assert_ptr_equal(host.channel, &channel);
	assert_true(fcntl(channel.fd, F_GETFL) & O_NONBLOCK);
	assert_string_equal(host.listeners[0].addr.text, "127.0.0.1:4000");
	assert_string_equal(server.addr.text, "127.0.0.1:4000");
	assert_int_equal(checks_of_first, 1);
	assert_int_equal(server.rail_count, 2);
	assert_int_equal(host.listeners[0].rail, 0);
	assert_int_equal(host.listeners[1].rail, 1);
	assert_int_equal(host.listeners[2].rail, 0);
	assert_ptr_equal(server.rails[1].ctx, &context[1]);
	assert_int_equal(server.rails[1].port, 2);
	assert_int_equal(listeners_listen(&host, &err), 0);
	assert_int_equal(listening, 3);

	/* By its address; by TCP, where that is another one, by its device. */
	struct rdma_cm_id id = ids[1];
	assert_int_equal(listeners_find(&host, &id), 1);
	id = ids[2];
	assert_int_equal(listeners_find(&host, &id), 2);
	id.route.addr.src_sin.sin_port = htons(77);
	assert_int_equal(listeners_find(&host, &id), 0);
	id.verbs = &context[1];
	assert_int_equal(listeners_find(&host, &id), 1);
	id.verbs = NULL;
	assert_int_equal(listeners_find(&host, &id), 0);

	listeners_close_lost(&host);
	assert_int_equal(ids_deleted, 0);
	server.rails[0].is_lost = true;
	for (unsigned i = 0; i < 2; i++) {
		listeners_close_lost(&host);
		assert_int_equal(ids_deleted, 2);
		assert_null(host.listeners[0].id);
		assert_non_null(host.listeners[1].id);
		assert_null(host.listeners[2].id);
	}
	for (unsigned i = 0; i < 2; i++) {
		listeners_close(&host);
		assert_int_equal(ids_deleted, 3);
	}
}

static void expect_failure(int at, int errno_value, const char *text)
{
	server.rail_count = 0;
	what = at;
	error = errno_value;
	assert_int_equal(open_list("192.0.2.1:2"), -1);
	what = NOTHING;
	listeners_close(&host);
	assert_int_equal(ids_made, ids_deleted);
	if (strncmp(err.text, text, strlen(text)))
		fail_msg("%s", err.text);
}

static void test_not_open(void **state)
{
	int fd = channel.fd;

	(void)state;
	expect_failure(CHANNEL, EACCES, "can't open an RDMA event channel (is the module rdma_ucm loaded?)");
	expect_failure(ID, EACCES, "can't create an RDMA id: Permission denied");
	expect_failure(PREPARE, EACCES, "can't prepare an RDMA id: Permission denied");
	expect_failure(CHECK, 0, "it is another device");
	expect_failure(NO_DEVICE, 0, "192.0.2.1:2 is on no single device");
	channel.fd = -1;
	expect_failure(NOTHING, 0, "can't set up event descriptors: Bad file descriptor");
	channel.fd = fd;
}

static void test_bind(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		server.device.bootstrap = i;
		expect_failure(BIND, EADDRINUSE, "192.0.2.1:2 is in use: another kvd serves it");
		expect_failure(BIND, EACCES, "can't bind to 192.0.2.1:2: Permission denied");
	}
	strcpy(server.device.name, "hca7");
	expect_failure(BIND, ENETDOWN, "the port of hca7 is down");
	expect_failure(BIND, ENODEV, "can't bind to 192.0.2.1:2: No such device");
	expect_failure(BIND, EADDRNOTAVAIL, "can't bind to 192.0.2.1:2: ");
	server.device.bootstrap = false;
	expect_failure(BIND, ENETDOWN, "can't bind to 192.0.2.1:2: ");
	expect_failure(BIND, ENODEV, "no RDMA device serves the address 192.0.2.1:2 (devices: hca0, hca1)");
	expect_failure(BIND, EADDRNOTAVAIL, "no RDMA device serves the address 192.0.2.1:2 (");
}

static void test_listen(void **state)
{
	(void)state;
	assert_int_equal(open_list("192.0.2.1:2,192.0.2.1:4"), 0);
	what = LISTEN;
	error = EADDRINUSE;
	assert_int_equal(listeners_listen(&host, &err), -1);
	assert_non_null(strstr(err.text, "192.0.2.1:2 is in use: another kvd serves it"));
	error = EPERM;
	assert_int_equal(listeners_listen(&host, &err), -1);
	assert_string_equal(err.text, "can't listen on 192.0.2.1:2: Operation not permitted");
}

static int setup(void **state)
{
	int ends[2];

	(void)state;
	made_up = (struct verbs){ .create_event_channel = create_event_channel, .create_id = create_id,
				  .destroy_id = destroy_id, .bind_addr = bind_addr,
				  .get_src_port = get_src_port, .listen = listen_id };
	server = (struct server){ .host = &host, .verbs = &made_up };
	host = (struct host){ .servers = &server, .server_count = 1 };
	what = NOTHING;
	ids_made = ids_deleted = listening = checks_of_first = 0;
	assert_int_equal(pipe(ends), 0);
	channel.fd = ends[0];
	return close(ends[1]);
}

static int teardown(void **state)
{
	(void)state;
	return close(channel.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		CASE(test_list),
		CASE(test_widest),
		CASE(test_open),
		CASE(test_not_open),
		CASE(test_bind),
		CASE(test_listen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common/bootstrap/bootstrap.h: descriptor 0 is one like others, in a program that was started without a
 * standard input.
 */
#include "tests/unit/common/bootstrap_kit.h"

static int stdin_kept;

static int with_stdin(void **state)
{
	stdin_kept = fcntl(0, F_DUPFD_CLOEXEC, 512);
	return stdin_kept < 0 || set_up(state);
}

static void occupy_0(void)
{
	assert_int_equal(dup2(stdin_kept, 0), 0);
}

static void is_free_again(void)
{
	assert_int_equal(fcntl(0, F_GETFD), -1);
}

/* 0 was given back by whoever had it. */
static int with_stdin_again(void **state)
{
	is_free_again();
	occupy_0();
	tear_down(state);
	close(stdin_kept);
	return 0;
}

static int fd_of(struct rdma_cm_id *id)
{
	return ((struct id *)id)->fd;
}

static void part(struct rdma_cm_id *by, struct rdma_cm_id *id, struct rdma_cm_id *served)
{
	assert_int_equal(v->establish(id), 0);
	assert_ptr_equal(next_is(kvd, RDMA_CM_EVENT_ESTABLISHED, 0), served);
	assert_int_equal(v->disconnect(by), 0);
	assert_ptr_equal(next_is(kvd, RDMA_CM_EVENT_DISCONNECTED, 0), served);
	v->destroy_id(id);
	v->destroy_id(served);
}

static void test_client(void **state)
{
	struct rdma_cm_id *id, *served;

	(void)state;
	close(0);
	id = ask();
	assert_int_equal(fd_of(id), 0);
	served = accept_next();
	assert_ptr_equal(next_is(clients, RDMA_CM_EVENT_CONNECT_RESPONSE, 0), id);
	part(id, id, served);
}

static void test_peer(void **state)
{
	struct rdma_cm_id *id = ask(), *served;

	(void)state;
	close(0);
	served = accept_next();
	assert_int_equal(fd_of(served), 0);
	assert_ptr_equal(next_is(clients, RDMA_CM_EVENT_CONNECT_RESPONSE, 0), id);
	part(served, id, served);
}

/* What failed before is not taken for an arrival's failure. */
static void test_arrivals(void **state)
{
	static const int errors[] = { EMFILE, EINVAL };
	int fd[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		fd[0] = plain_client();
		fd[1] = plain_client();
		close(0);
		errno = errors[i];
		bootstrap_server_arrived((struct id *)listener);
		assert_int_equal(half_open(), 2);
		assert_true(is_open(fd[0]));
		assert_true(is_open(fd[1]));
		close(fd[0]);
		close(fd[1]);
		while (half_open())
			does_its_part(kvd);
		is_free_again();
		occupy_0();
	}
	close(0);
}

static void test_listener(void **state)
{
	struct rdma_cm_id *id, *served;

	(void)state;
	v->destroy_id(listener);
	close(0);
	listen_at_to();
	assert_int_equal(fd_of(listener), 0);
	id = ask();
	served = accept_next();
	assert_ptr_equal(next_is(clients, RDMA_CM_EVENT_CONNECT_RESPONSE, 0), id);
	part(id, id, served);
	v->destroy_id(listener);
	is_free_again();
	occupy_0();
	to.in.sin_port = 0;
	listen_at_to();
	close(0);
}

/* Who comes as there is no other is sent away by means of it. */
static void test_spare(void **state)
{
	struct rdma_cm_id *other = id_new(kvd), *was = listener;
	int fd;

	(void)state;
	to.in.sin_port = 0;
	assert_int_equal(v->bind_addr(other, &to.sa), 0);
	to.in.sin_port = v->get_src_port(other);
	close(0);
	assert_int_equal(v->listen(other, 1), 0);
	assert_int_equal(((struct id *)other)->spare_fd, 0);
	fd = plain_client();
	accept_error = EMFILE;
	bootstrap_server_arrived((struct id *)other);
	ends(fd);
	assert_int_equal(((struct id *)other)->spare_fd, 0);
	v->destroy_id(other);
	listener = was;
}

#define ZERO(name) cmocka_unit_test_setup_teardown(name, with_stdin, with_stdin_again)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ZERO(test_client), ZERO(test_peer), ZERO(test_arrivals), ZERO(test_listener), ZERO(test_spare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* client/session/device: the devices of a client, their sessions and the user's buffers. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "client/session/client.h"
#include "client/session/device.h"
#include "client/session/session.h"
#include "client/session/session_impl.h"

#define DEVICES 6u

/* ------------------------------------------------------------------ devices */

static struct ibv_device devices[DEVICES];
static struct ibv_context contexts[DEVICES + 1]; /* the last is of devices[0], which came back */
static bool is_gone[DEVICES + 1], is_full[DEVICES + 1]; /* it registers nothing */
static unsigned mrs[DEVICES + 1], pds[DEVICES + 1], forgotten;
static uint32_t last_key;

static unsigned at(const struct ibv_context *ctx)
{
	return (unsigned)(ctx - contexts);
}

static int query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr){ .max_sge = 16, .max_qp_rd_atom = 16,
					  .max_qp_init_rd_atom = 16,
					  .atomic_cap = at(ctx) == 1 ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA };
	return is_gone[at(ctx)] ? EIO : 0;
}

static int query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr)
{
	(void)ctx, (void)port;
	attr->max_msg_sz = 1u << 30;
	return 0;
}

static struct ibv_pd *alloc_pd(struct ibv_context *ctx)
{
	struct ibv_pd *pd = calloc(1, sizeof *pd);

	assert_non_null(pd);
	pd->context = ctx;
	pds[at(ctx)]++;
	return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
	if (mrs[at(pd->context)])
		return EBUSY;
	pds[at(pd->context)]--;
	free(pd);
	return 0;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	struct ibv_mr *mr = calloc(1, sizeof *mr);

	assert_non_null(mr);
	(void)access;
	if (is_full[at(pd->context)]) {
		free(mr);
		errno = ENOMEM;
		return NULL;
	}
	last_key++;
	*mr = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = addr, .length = bytes,
			       .lkey = last_key, .rkey = last_key + 1000 };
	mrs[at(pd->context)]++;
	return mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
	mrs[at(mr->context)]--;
	free(mr);
	return 0;
}

/* What rdma_cm would close under somebody's feet. */
static bool is_closed_in_use;

static void forget_devices(void)
{
	for (unsigned i = 0; i <= DEVICES; i++)
		is_closed_in_use |= is_gone[i] && pds[i];
	forgotten++;
}

static const struct verbs verbs_many = {
	.name = "many",
	.query_device = query_device,
	.query_port = query_port,
	.alloc_pd = alloc_pd,
	.dealloc_pd = dealloc_pd,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
	.forget_devices = forget_devices,
};

/* ------------------------------------------------------------------ clients */

static struct kvd_client client, other;
static struct kvd_session sessions[DEVICES];
static struct rdma_cm_id ids[DEVICES];
static char memory[4096];

static void begin_client(struct kvd_client *c)
{
	memset(c, 0, sizeof *c);
	pthread_mutex_init(&c->lock, NULL);
	c->verbs = &verbs_many;
	c->buffers = buffers_new();
	assert_non_null(c->buffers);
}

static int set_up(void **state)
{
	(void)state;
	memset(sessions, 0, sizeof sessions);
	memset(is_gone, 0, sizeof is_gone);
	memset(is_full, 0, sizeof is_full);
	forgotten = 0;
	for (unsigned i = 0; i < DEVICES; i++)
		snprintf(devices[i].name, sizeof devices[i].name, "device%u", i);
	for (unsigned i = 0; i <= DEVICES; i++)
		contexts[i].device = &devices[i % DEVICES];
	begin_client(&client);
	begin_client(&other);
	for (unsigned i = 0; i < DEVICES; i++) {
		sessions[i].client = &client;
		sessions[i].id = &ids[i];
		sessions[i].engine.registrar = (struct registrar){ .verbs = &verbs_many,
								   .buffers = client.buffers };
	}
	return 0;
}

static void end_client(struct kvd_client *c)
{
	client_leave_devices(c);
	buffers_delete(c->buffers);
	pthread_mutex_destroy(&c->lock);
}

static int tear_down(void **state)
{
	(void)state;
	for (unsigned i = 0; i < DEVICES; i++)
		session_leave_device(&sessions[i]);
	end_client(&client);
	end_client(&other);
	for (unsigned i = 0; i <= DEVICES; i++) {
		assert_int_equal(mrs[i], 0);
		assert_int_equal(pds[i], 0);
	}
	return 0;
}

static int join(unsigned session, unsigned context)
{
	sessions[session].id->verbs = &contexts[context];
	return session_join_device(&sessions[session]);
}

static void leave(unsigned session, bool as_lost)
{
	sessions[session].engine.health.device_lost = as_lost;
	session_leave_device(&sessions[session]);
	assert_null(sessions[session].engine.registrar.pd);
	assert_null(sessions[session].engine.health.ctx);
	assert_null(sessions[session].device);
}

static void expect_on(unsigned session, unsigned context)
{
	const struct engine *e = &sessions[session].engine;

	assert_ptr_equal(e->health.ctx, &contexts[context]);
	assert_ptr_equal(e->registrar.pd->context, &contexts[context]);
}

static struct buffer_keys keys_of(unsigned session)
{
	struct registrar *r = &sessions[session].engine.registrar;
	struct buffer_keys keys;

	assert_true(buffers_find(r->buffers, r->device, memory + 100, 10, &keys));
	return keys;
}

/* -------------------------------------------------------------------- tests */

static void test_each_has_its_own(void **state)
{
	(void)state;
	assert_false(client_has_device(&client));
	assert_int_equal(join(0, 0), 0);
	assert_int_equal(join(1, 1), 0);
	assert_int_equal(join(2, 0), 0);
	expect_on(0, 0);
	expect_on(1, 1);
	expect_on(2, 0);
	assert_int_equal(pds[0], 1); /* two sessions share it */
	assert_true(session_has_atomics(&sessions[0]));
	assert_false(session_has_atomics(&sessions[1]));
	/* It is kept without a session, as its buffers are. */
	leave(1, false);
	assert_int_equal(pds[1], 1);
	assert_true(client_has_device(&client));
}

/* A buffer is known at each device by its own keys: those that were there before it, and
 * those that come. */
static void test_buffers(void **state)
{
	(void)state;
	assert_int_equal(join(0, 0), 0);
	assert_int_equal(join(1, 1), 0);
	assert_int_equal(buffers_add(client.buffers, &verbs_many, (uintptr_t)memory, sizeof memory), 0);
	assert_int_equal(join(2, 2), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(mrs[i], 1);
		for (unsigned k = 0; k < i; k++)
			assert_int_not_equal(keys_of(i).lkey, keys_of(k).lkey);
		assert_int_equal(keys_of(i).rkey, keys_of(i).lkey + 1000);
	}
	buffers_remove(client.buffers, &verbs_many, (uintptr_t)memory);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(mrs[i], 0);
}

/* One that does not take a buffer: nobody has a half of it. */
static void test_full(void **state)
{
	(void)state;
	assert_int_equal(join(0, 0), 0);
	assert_int_equal(join(1, 1), 0);
	is_full[1] = true;
	assert_int_equal(buffers_add(client.buffers, &verbs_many, (uintptr_t)memory, sizeof memory),
			 ENOMEM);
	assert_int_equal(mrs[0], 0);
	is_full[1] = false;
	assert_int_equal(buffers_add(client.buffers, &verbs_many, (uintptr_t)memory, sizeof memory), 0);
	is_full[2] = true;
	assert_int_equal(join(2, 2), KVD_EDEVICE);
	assert_non_null(strstr(sessions[2].engine.health.err.text, "device2"));
	assert_int_equal(pds[2], 0);
	is_full[2] = false;
	assert_int_equal(join(2, 2), 0);
	assert_int_equal(mrs[2], 1);
	buffers_remove(client.buffers, &verbs_many, (uintptr_t)memory);
}

/* What a session registered is of the device that it was on. */
static void test_moves(void **state)
{
	struct engine *e = &sessions[0].engine;

	(void)state;
	assert_int_equal(join(0, 0), 0);
	e->memory_mr = reg_mr(e->registrar.pd, memory, 1, 0);
	sessions[0].held_mr = reg_mr(e->registrar.pd, memory, 1, 0);
	assert_int_equal(join(0, 0), 0);
	assert_int_equal(mrs[0], 2);
	assert_int_equal(join(0, 1), 0);
	expect_on(0, 1);
	assert_null(e->memory_mr);
	assert_null(sessions[0].held_mr);
	assert_int_equal(mrs[0], 0);
	assert_int_equal(forgotten, 0);
}

/* Its last session lets go of a device that is lost, with the buffers; the other stays. */
static void test_lost(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(join(i, i / 2), 0);
	assert_int_equal(buffers_add(client.buffers, &verbs_many, (uintptr_t)memory, sizeof memory), 0);
	/* It answers as yet. */
	leave(0, true);
	assert_true(sessions[0].engine.health.was_lost);
	assert_int_equal(pds[0], 1);
	assert_int_equal(mrs[0], 1);
	leave(1, true);
	assert_int_equal(pds[0], 0);
	assert_int_equal(mrs[0], 0);
	assert_int_equal(mrs[1], 1);
	assert_int_equal(forgotten, 1);
	/* It came back, with another context. */
	assert_int_equal(join(0, DEVICES), 0);
	expect_on(0, DEVICES);
	assert_int_not_equal(keys_of(0).lkey, keys_of(2).lkey);
	assert_int_equal(join(1, 1), 0); /* and whom another device failed does not lose this one */
	leave(1, false);
	assert_int_equal(pds[1], 1);
	buffers_remove(client.buffers, &verbs_many, (uintptr_t)memory);
}

/* Who was idle finds that its device is another one by now. */
static void test_came_back(void **state)
{
	(void)state;
	assert_int_equal(join(0, 0), 0);
	assert_int_equal(join(1, 0), 0);
	assert_int_equal(join(0, DEVICES), 0);
	assert_int_equal(pds[0], 1); /* one session is there still */
	assert_int_equal(join(1, DEVICES), 0);
	assert_int_equal(pds[0], 0);
	assert_int_equal(pds[DEVICES], 1);
}

/* rdma_cm closes nothing that another client has, which did not notice yet. */
static void test_another_client(void **state)
{
	struct kvd_session *s = &sessions[5];

	(void)state;
	s->client = &other;
	s->engine.registrar.buffers = other.buffers;
	assert_int_equal(join(5, 2), 0);
	assert_int_equal(join(0, 0), 0);
	is_gone[0] = is_gone[2] = true;
	leave(0, true);
	assert_int_equal(pds[0], 0);
	assert_int_equal(forgotten, 0);
	assert_false(is_closed_in_use);
	leave(5, true);
	assert_int_equal(forgotten, 1);
}

static void test_bounded(void **state)
{
	(void)state;
	for (unsigned i = 0; i < CLIENT_DEVICES_MAX; i++)
		assert_int_equal(join(i, i), 0);
	assert_int_equal(join(4, 4), KVD_EDEVICE);
	assert_non_null(strstr(sessions[4].engine.health.err.text, "on 4 other devices already"));
	assert_null(sessions[4].device);
	/* One without a session gives up its place. */
	leave(2, false);
	assert_int_equal(join(4, 4), 0);
	assert_int_equal(pds[2], 0);
	expect_on(4, 4);
	expect_on(3, 3);
}

/* Nobody is told of what goes away while no session is there. */
static void test_idle_and_gone(void **state)
{
	(void)state;
	assert_int_equal(join(0, 0), 0);
	assert_int_equal(join(1, 1), 0);
	leave(1, false);
	is_gone[1] = true;
	assert_int_equal(join(2, 0), 0);
	assert_int_equal(pds[1], 0);
	assert_int_equal(forgotten, 1);
}

/* Nor does that keep a buffer from being registered with the others. */
static void test_buffer_beside_one_that_is_gone(void **state)
{
	kvd_buffer *buffer;

	(void)state;
	assert_int_equal(join(0, 0), 0);
	assert_int_equal(join(1, 1), 0);
	leave(1, false);
	is_gone[1] = is_full[1] = true;
	assert_int_equal(kvd_buffer_new(&client, memory, sizeof memory, &buffer), KVD_OK);
	assert_int_equal(pds[1], 0);
	kvd_buffer_delete(&buffer);
}

/* One that does not answer as a session comes back to it stays that session's: it finds out. */
static void test_idle_and_mute(void **state)
{
	(void)state;
	assert_int_equal(join(0, 0), 0);
	leave(0, false);
	is_gone[0] = true;
	assert_int_equal(join(0, 0), 0);
	assert_non_null(sessions[0].engine.registrar.pd);
	expect_on(0, 0);
	assert_int_equal(pds[0], 1);
	leave(0, false);
	assert_int_equal(pds[0], 0);
	assert_int_equal(forgotten, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_each_has_its_own),
		TEST(test_buffers),
		TEST(test_full),
		TEST(test_moves),
		TEST(test_lost),
		TEST(test_came_back),
		TEST(test_another_client),
		TEST(test_bounded),
		TEST(test_idle_and_gone),
		TEST(test_buffer_beside_one_that_is_gone),
		TEST(test_idle_and_mute),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

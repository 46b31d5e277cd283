/* SPDX-License-Identifier: BSD-2-Clause */
/* client/op/error.c: the sentence of a connection's failure. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "client/kvd.h"
#include "client/op/error.h"
#include "common/wire.h"
#include "tests/unit/client/set_clock.h"

#define DOWN "; port 3 of the RDMA device here is down (cable, switch, 'ip link')"

static struct ibv_context context;
static enum ibv_port_state port_state;
static int query_error;
static unsigned port_asked;

static int query_port(struct ibv_context *of, uint8_t port, struct ibv_port_attr *attr)
{
	assert_ptr_equal(of, &context);
	port_asked = port;
	if (!query_error)
		attr->state = port_state;
	return query_error;
}

static const struct verbs verbs = { .query_port = query_port };
static struct health h;

static int set_up(void **state)
{
	(void)state;
	set_clock();
	set_look_ns = 0;
	h = (struct health){ .connected = true, .peer = "there", .user = "eve", .role = "read",
			     .verbs = &verbs, .ctx = &context, .port = 3 };
	port_state = IBV_PORT_ACTIVE;
	query_error = 0;
	port_asked = 0;
	return 0;
}

static void test_port(void **state)
{
	(void)state;
	assert_false(health_port_is_down(&h));
	assert_int_equal(port_asked, 3);
	for (unsigned i = IBV_PORT_NOP; i <= IBV_PORT_ACTIVE_DEFER; i++) {
		port_state = i;
		assert_int_equal(health_port_is_down(&h), i != IBV_PORT_ACTIVE);
	}
	query_error = EIO; /* it is not known */
	assert_false(health_port_is_down(&h));
	query_error = 0;
	port_state = IBV_PORT_DOWN;
	h.device_lost = true;
	assert_false(health_port_is_down(&h));
	h.device_lost = false;
	h.port = 0;
	assert_false(health_port_is_down(&h));
	h.port = 3;
	h.ctx = NULL;
	assert_false(health_port_is_down(&h));
}

/* The first reason is the one; how a connection ended is kept. */
static void test_first_reason(void **state)
{
	(void)state;
	assert_int_equal(health_fail(&h, KVD_EPROTOCOL, "%s and %d", "nonsense", 7), KVD_EPROTOCOL);
	assert_int_equal(health_fail(&h, KVD_ECONNECT, "another"), KVD_EPROTOCOL);
	assert_true(h.broken);
	assert_int_equal(h.broken_code, KVD_EPROTOCOL);
	assert_string_equal(h.err.text, "nonsense and 7");
	assert_string_equal(h.lost.text, "nonsense and 7");
	set_up(state);
	h.connected = false;
	health_fail(&h, KVD_ECONNECT, "never was");
	assert_string_equal(h.err.text, "never was");
	assert_string_equal(h.lost.text, "");
}

/* Who could not reach kvd, or waited for it, hears what is known of the reason. */
static void test_reasons(void **state)
{
	static const int codes[] = { KVD_ECONNECT, KVD_ETIMEDOUT, KVD_EPROTOCOL, KVD_EDEVICE };

	for (unsigned i = 0; i < 4; i++) {
		set_up(state);
		port_state = IBV_PORT_DOWN;
		health_fail(&h, codes[i], "gone");
		assert_string_equal(h.err.text, i < 2 ? "gone" DOWN : "gone");
		assert_string_equal(h.lost.text, "gone");
	}
}

static void test_notices(void **state)
{
	static const struct {
		unsigned notice;
		const char *text;
	} cases[] = {
		{ 0, "gone" },
		{ WIRE_NOTICE_PORT_DOWN, "gone; kvd had told 1.5 s before that its port went down" },
		{ WIRE_NOTICE_PORT_UP,
		  "gone; kvd had told 1.5 s before that its port, which had been down, was up again" },
		{ WIRE_NOTICE_DEVICE,
		  "gone; kvd had told 1.5 s before that its device failed and it ends" },
		{ WIRE_NOTICE_DEVICE + 1, "gone" },
		{ UINT32_MAX, "gone" },
	};

	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		set_up(state);
		health_noticed(&h, cases[i].notice);
		set_ns += 1500 * SET_MS;
		health_fail(&h, KVD_ECONNECT, "gone");
		assert_string_equal(h.err.text, cases[i].text);
	}
	/* The last one counts, and one of a later kvd is none. */
	set_up(state);
	health_noticed(&h, WIRE_NOTICE_DEVICE);
	set_ns += 500 * SET_MS;
	health_noticed(&h, WIRE_NOTICE_PORT_UP);
	health_noticed(&h, 77);
	set_ns += 200 * SET_MS;
	port_state = IBV_PORT_DOWN;
	health_fail(&h, KVD_ECONNECT, "gone");
	assert_string_equal(h.err.text, "gone" DOWN "; kvd had told 0.2 s before that its port, which had "
					"been down, was up again");
}

static void test_recalls(void **state)
{
	(void)state;
	strcpy(h.err.text, "nobody is there");
	health_recall(&h);
	assert_string_equal(h.err.text, "nobody is there");
	strcpy(h.lost.text, "nobody is there");
	health_recall(&h); /* nothing new */
	assert_string_equal(h.err.text, "nobody is there");
	strcpy(h.lost.text, "it broke");
	health_recall(&h);
	assert_string_equal(h.err.text, "nobody is there; how the last connection ended: it broke");
}

/* A sentence that is too long is cut. */
static void test_too_long(void **state)
{
	(void)state;
	memset(h.err.text, 'x', sizeof h.err.text - 5);
	strcpy(h.lost.text, "it broke");
	port_state = IBV_PORT_DOWN;
	health_noticed(&h, WIRE_NOTICE_PORT_UP);
	health_explain(&h);
	health_recall(&h);
	assert_int_equal(strlen(h.err.text), sizeof h.err.text - 1);
	assert_string_equal(h.err.text + sizeof h.err.text - 5, "; po");
}

static void test_denied(void **state)
{
	(void)state;
	assert_int_equal(health_denied(&h), KVD_EDENIED);
	assert_string_equal(h.err.text, "kvd at there does not let eve do that: their role is read");
}

static void test_usable(void **state)
{
	(void)state;
	assert_true(health_is_good(&h) && health_is_usable(&h));
	h.moved = true;
	assert_true(health_is_good(&h) && !health_is_usable(&h));
	h.moved = false;
	h.broken = true;
	assert_false(health_is_good(&h) || health_is_usable(&h));
	h.broken = h.connected = false;
	assert_false(health_is_good(&h) || health_is_usable(&h));
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_port),
		TEST(test_first_reason),
		TEST(test_reasons),
		TEST(test_notices),
		TEST(test_recalls),
		TEST(test_too_long),
		TEST(test_denied),
		TEST(test_usable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

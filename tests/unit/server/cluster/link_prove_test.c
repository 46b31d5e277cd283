/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server/cluster/link/prove.h and greet.h: which hello is one, of whom, on which connection; what is done
 * before the other end has proved itself, and what if that fails.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/cluster/link/greet.h"
#include "server/cluster/link/impl.h"
#include "server/cluster/link/prove.h"

static struct link_key key;
static struct link_exchange x;
static struct link_hello hello;

/* --------------------------------------------------------------------------- proofs */

static void begin(const char *name)
{
	const struct link_versions versions = { 1, 3 };
	const struct link_lane lane = { .shard = 3, .number = 5 };

	link_knock_fill(&x.asks, &lane, &versions);
	link_knock_fill(&x.answers, &lane, &versions);
	x.asks_qpn = 7;
	x.answers_qpn = 8;
	memset(&hello, 0, sizeof hello);
	memcpy(hello.name, name, strnlen(name, sizeof hello.name));
	link_prove_hello(&x, &key, &hello);
}

/* Whoever has the key: a name is there, and ends within its bytes. */
static void test_names(void **state)
{
	struct link_hello answer = { .name = "" };
	char longest[LINK_NAME_BYTES + 1];

	(void)state;
	begin("");
	assert_false(link_check_hello(&x, &key, &hello));
	memset(longest, 'n', sizeof longest);
	longest[LINK_NAME_BYTES] = '\0';
	begin(longest);
	assert_false(link_check_hello(&x, &key, &hello));
	longest[LINK_NAME_BYTES - 1] = '\0';
	begin(longest);
	assert_true(link_check_hello(&x, &key, &hello));
	link_prove_answer(&x, &key, &hello, &answer);
	assert_false(link_check_answer(&x, &key, &hello, &answer));
	memset(answer.name, 'n', sizeof answer.name);
	link_prove_answer(&x, &key, &hello, &answer);
	assert_false(link_check_answer(&x, &key, &hello, &answer));
	strcpy(answer.name, "bert");
	link_prove_answer(&x, &key, &hello, &answer);
	assert_true(link_check_answer(&x, &key, &hello, &answer));
	strcpy(answer.name, "carl"); /* what was proved is of that name only */
	assert_false(link_check_answer(&x, &key, &hello, &answer));
}

/* A hello is good on its connection only, and for what was asked for there. */
static void test_another_connection(void **state)
{
	struct link_exchange good;

	(void)state;
	begin("anna");
	good = x;
	assert_true(link_check_hello(&x, &key, &hello));
#define BUT(change) \
	do { \
		x = good; \
		change; \
		assert_false(link_check_hello(&x, &key, &hello)); \
	} while (0)
	BUT(x.asks.lane.shard++);
	BUT(x.asks.lane.number++);
	BUT(x.asks.nonce[0]++);
	BUT(x.answers.nonce[0]++);
	BUT(x.asks_qpn++);
	BUT(x.answers_qpn++);
	BUT(x.asks.version--);
	BUT(x.answers.version--);
	x = good;
	hello.name[0]++;
	assert_false(link_check_hello(&x, &key, &hello));
}

/* The latest that both speak, if it is old enough for neither. */
static void test_version(void **state)
{
	static const struct { uint32_t a[2], b[2], is; } all[] = {
		{ { 1, 3 }, { 2, 4 }, 3 }, { { 2, 4 }, { 1, 3 }, 3 }, { { 2, 2 }, { 1, 2 }, 2 },
		{ { 3, 4 }, { 1, 2 }, 0 }, { { 1, 2 }, { 3, 4 }, 0 }, { { 2, 3 }, { 3, 3 }, 3 },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
		struct link_knock a = { .oldest = all[i].a[0], .version = all[i].a[1] };
		struct link_knock b = { .oldest = all[i].b[0], .version = all[i].b[1] };
		assert_int_equal(link_version(&a, &b), all[i].is);
	}
}

/* --------------------------------------------------------------------------- hellos */

static unsigned ups, sends, rights;
static int send_error, right_error;
static char why[256];
static uint8_t memory[LINK_BUFFERS * LINK_BYTES_MAX] __attribute__((aligned(8)));
static struct link_port port;
static struct link_peer peer;
static struct ibv_mr mr;
static struct ibv_qp qp;

static int post_send(struct ibv_qp *of, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	assert_ptr_equal(of, &qp);
	*bad = wr;
	sends += !send_error;
	return send_error;
}

static struct ibv_context context = { .ops = { .post_send = post_send } };

static int modify_qp(struct ibv_qp *of, struct ibv_qp_attr *attr, int mask)
{
	assert_ptr_equal(of, &qp);
	if (!(mask & IBV_QP_ACCESS_FLAGS))
		return 0;
	assert_int_equal(attr->qp_access_flags, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(sends, 0); /* before it is answered */
	rights += !right_error;
	return right_error;
}

static const struct verbs verbs = { .modify_qp = modify_qp };

static void is_up(void *arg, struct link_peer *p)
{
	assert_true(arg == &port && p == &peer && p->state == LINK_UP);
	ups++;
}

static void is_down(void *arg, struct link_peer *p, const char *text)
{
	assert_true(arg == &port && p == &peer);
	snprintf(why, sizeof why, "%s", text);
}

/* So many hellos in one message, to who was asked. */
static void say(unsigned count, bool is_read)
{
	static _Alignas(8) uint8_t message[LINK_BYTES_MAX];
	const char *wrong;
	struct link_writer w;
	struct link_reader r;

	begin("anna");
	ups = sends = rights = 0;
	why[0] = '\0';
	port = (struct link_port){ .options = { .verbs = &verbs, .key = &key, .name = "bert",
			.is_read = is_read, .events = { .up = is_up, .down = is_down, .arg = &port } } };
	qp = (struct ibv_qp){ .context = &context };
	peer = (struct link_peer){ .port = &port, .state = LINK_PROVING, .qp = &qp, .mr = &mr,
				   .memory = memory, .exchange = x };
	strcpy(peer.addr.text, "192.0.2.1:7");
	link_begin(&w, message, LINK_HELLO, 0, 0, 0, 0);
	for (unsigned i = 0; i < count; i++)
		link_put_hello(&w, &hello);
	assert_int_equal(link_open(&r, message, link_length(&w), &wrong), 0);
	link_greeted(&peer, &r);
}

#define ENDED "the connection with member (not known yet) (192.0.2.1:7) ended: "

static void test_asked(void **state)
{
	(void)state;
	say(1, true);
	assert_string_equal(why, "");
	assert_true(ups == 1 && sends == 1 && rights == 1);
	assert_string_equal(peer.name, "anna");
	say(1, false); /* nobody is to READ here */
	assert_true(ups == 1 && sends == 1 && rights == 0);
	for (unsigned i = 0; i <= 2; i += 2) {
		say(i, true);
		assert_string_equal(why, ENDED "it sent another message before it had proved who it is");
		assert_true(!ups && !sends && !rights);
	}
}

static void test_not_up(void **state)
{
	(void)state;
	right_error = EPERM;
	say(1, true);
	right_error = 0;
	assert_string_equal(why, ENDED "it could not be given the right to READ: Operation not permitted");
	assert_true(!ups && !sends);
	send_error = ENOMEM;
	say(1, true);
	send_error = 0;
	assert_string_equal(why, ENDED "a message could not be posted: Cannot allocate memory");
	assert_int_equal(ups, 0); /* it ended as it was answered */
	assert_int_equal(peer.state, LINK_ENDING);
}

static int make_key(void **state)
{
	(void)state;
	if (auth_init())
		return -1;
	auth_new(&key.secret, &key.key);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_another_connection),
		cmocka_unit_test(test_version),
		cmocka_unit_test(test_asked),
		cmocka_unit_test(test_not_up),
	};

	return cmocka_run_group_tests(tests, make_key, NULL);
}

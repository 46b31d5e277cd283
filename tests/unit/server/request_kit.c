/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/server/request_kit.h"

#include "server/host/host.h"
#include "server/worker/news.h"
#include "server/worker/reply.h"

#define BUFFERS 128u

struct fixture fixture;
struct worker worker;
struct server server;
struct host host;
struct conn conn;
bool is_answered;
struct wire_reply reply;
uint8_t payload[WIRE_MESSAGE_BYTES_MAX];
size_t payload_bytes;

static uint8_t *buffers;

/* Takes what was answered from the connection's chain. */
static void take_answer(void)
{
	struct sendq *q = &conn.sendq;
	struct txbuf *b = q->chain;

	is_answered = b != NULL;
	worker.tx.dirty = NULL;
	q->chain = NULL;
	q->chain_end = &q->chain;
	q->is_dirty = false;
	q->used = 0;
	q->unsignaled = 0;
	if (!b)
		return;
	assert_null(b->next);
	reply = *reply_head(b);
	payload_bytes = b->sge.length - sizeof reply;
	memcpy(payload, reply_payload(b), payload_bytes);
	tx_release(&worker.tx, b);
}

enum request_fate request(const struct wire_request *head, const void *key, const void *value)
{
	static _Alignas(8) uint8_t message[WIRE_MESSAGE_BYTES_MAX];
	size_t bytes = sizeof *head;

	memcpy(message, head, sizeof *head);
	if (key)
		memcpy(message + bytes, key, head->key_bytes);
	bytes += head->key_bytes;
	if (value)
		memcpy(message + bytes, value, head->value_bytes);
	bytes += value ? head->value_bytes : 0;
	conn.sendq.outstanding = 1;
	enum request_fate fate = request_handle(&worker, &conn, message, (uint32_t)bytes, NULL);
	take_answer();
	return fate;
}

int status_of(const struct wire_request *head, const void *key, const void *value)
{
	assert_int_equal(request(head, key, value), REQUEST_DONE);
	assert_true(is_answered);
	assert_int_equal(reply.request_id, head->request_id);
	assert_int_equal(reply.op, head->op);
	return reply.status;
}

static void make_conn(void)
{
	conn = (struct conn){ .server = &server, .state = CONN_READY, .commands = &worker.commands,
			      .number = 5, .credits = CREDITS };
	conn.handshake.user.role = ROLE_ADMIN;
	conn.sendq = (struct sendq){ .conn = &conn, .slots = CREDITS, .has_inline = true, .peer = "192.0.2.9:5000",
				     .connection_id = CONNECTION, .chain_end = &conn.sendq.chain,
				     .fate = fate_ring_new(SECRET, CREDITS) };
	assert_non_null(conn.sendq.fate);
}

int request_kit_make(void **state)
{
	(void)state;
	fixture_new(&fixture, 16 << 20, 1);
	host = (struct host){ .servers = &server, .server_count = 1 };
	server = (struct server){ .host = &host, .table = fixture.table, .store = fixture.store,
				  .rail_count = 1, .worker_count = 1, .fates = fates_new(),
				  .news = news_new() };
	worker = (struct worker){ .server = &server, .store = fixture.worker[0] };
	assert_int_equal(commands_init(&worker.commands), 0);
	server.commands = (struct commands_all){ .of = { &worker.commands }, .count = 1 };
	buffers = malloc((size_t)BUFFERS * WIRE_MESSAGE_BYTES_MAX);
	assert_int_equal(tx_init(&worker.tx, BUFFERS, buffers, WIRE_MESSAGE_BYTES_MAX), 0);
	worker.deferred.is_trying = true; /* it is the turn of slow ones */
	worker.tx.store = fixture.store;
	worker.tx.news = server.news;
	worker.tx.stats = &worker.stats;
	make_conn();
	return 0;
}

int request_kit_unmake(void **state)
{
	(void)state;
	assert_int_equal(worker.tx.free_count, BUFFERS); /* none is lost */
	assert_int_equal(conn.sendq.held, 0);
	fate_ring_delete(&conn.sendq.fate);
	commands_fini(&worker.commands);
	tx_fini(&worker.tx);
	free(buffers);
	fates_delete(&server.fates);
	news_delete(&server.news);
	fixture.worker[0] = worker.store;
	fixture_delete(&fixture);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* one_peer.h -- a kvd for all tests of a program, and a peer of it for each; one program. */
#ifndef TESTS_UNIT_SERVER_ONE_PEER_H
#define TESTS_UNIT_SERVER_ONE_PEER_H

#include <string.h>

#include "tests/lib/group.h"
#include "tests/lib/peer.h"

static struct kvd kvd;
static struct peer peer;

/* The teardown of the group: kvd has to end well. */
static int end(void **state)
{
	(void)state;
	kvd_stop(&kvd);
	return 0;
}

/* The setup of each test. */
static int enter(void **state)
{
	(void)state;
	peer_enter(&peer, &kvd);
	return 0;
}

/* The teardown of one whose keys the next is not to find. */
static inline int leave_empty(void **state)
{
	struct wire_request q = { .op = WIRE_FLUSH };

	(void)state;
	if (!peer.c.gone) {
		do {
			q.version = peer.reply.op == WIRE_FLUSH ? peer.reply.version : 0;
			if (peer_ask(&peer, &q, NULL, NULL) != WIRE_OK)
				return -1;
		} while (peer.reply.version);
	}
	peer_leave(&peer);
	return 0;
}

/* The reply's status to a request of this name, with strings; value may be NULL. */
#define ask(name, key, value, ...) \
	peer_ask_text(&peer, (struct wire_request){ .op = WIRE_##name, __VA_ARGS__ }, key, value)

static inline void expect_text(const char *key, const char *value)
{
	assert_int_equal(ask(GET, key, NULL, 0), WIRE_OK);
	assert_int_equal(peer.reply.value_bytes, strlen(value));
	assert_memory_equal(peer.payload, value, strlen(value));
}

#endif

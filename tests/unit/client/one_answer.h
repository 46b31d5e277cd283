/* SPDX-License-Identifier: BSD-2-Clause */
/* one_answer.h -- a session for each test, of which kvd answers each message the same; one program. */
#ifndef TESTS_UNIT_CLIENT_ONE_ANSWER_H
#define TESTS_UNIT_CLIENT_ONE_ANSWER_H

#include <string.h>

#include "client/kvd.h"
#include "client/op/operation.h"
#include "tests/lib/end.h"

#define KEY "key", 3
#define COUNT(of) (sizeof(of) / sizeof(of)[0])

static struct end *end;
static struct engine *e;
static struct kvd_session *s;

/* What kvd answers, again and again. */
static struct wire_reply answer;
static uint8_t page[512];
static size_t page_bytes;

static void give(struct end *to, const struct wire_request *request)
{
	(void)request;
	end_reply(to, answer, page, page_bytes);
}

static int set_up(void **state)
{
	(void)state;
	end = end_new();
	e = end->engine;
	s = &end->session;
	end->answer = give;
	end->client.devices[0].limits.atomics = true;
	end->session.device = &end->client.devices[0];
	e->table.welcome.role = ROLE_ADMIN;
	e->table.welcome.lock_rkey = 1;
	answer = (struct wire_reply){ .bucket = ~0ull };
	page_bytes = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	end_delete(end);
	return 0;
}

static void must_say(const char *what)
{
	const char *said = kvd_session_error(s);

	if (!strstr(said, what))
		fail_msg("'%s' instead of '%s'", said, what);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif

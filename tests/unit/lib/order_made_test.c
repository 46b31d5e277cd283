/* SPDX-License-Identifier: BSD-2-Clause */
/* Stores that are made up: the checker of episodes explains what they answered, and finds a
 * read of what is not there any more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/lib/group.h"
#include "tests/lib/order.h"

#define TICK 100000ull /* ns */
#define TICKS_A_MS 10
#define KEYS 3
#define OPS 60
#define CLIENTS 5
#define STATES_MAX 200000

static struct order *history;

static int begin(void **state)
{
	(void)state;
	history = order_new();
	return 0;
}

static int end(void **state)
{
	(void)state;
	order_delete(&history);
	return 0;
}

static uint32_t text(const char *s)
{
	return order_text(history, s, strlen(s));
}

struct maker {
	uint64_t random, now, versions;
	uint64_t free[CLIENTS]; /* when the client's last operation ended */
	struct {
		char value[200]; /* "" is absent */
		uint64_t version, end;
	} key[KEYS];
};

static uint64_t roll(struct maker *m, uint64_t n)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return m->random % n;
}

static void do_get(struct maker *m, struct order_part *p)
{
	bool is_there = m->key[p->key].value[0];

	p->kind = ORDER_GET;
	p->result = is_there ? ORDER_OK : ORDER_NOT_FOUND;
	p->value = is_there ? text(m->key[p->key].value) : 0;
	p->tells = is_there && roll(m, 2);
	p->version = p->tells ? m->key[p->key].version : 0;
}

static void do_put(struct maker *m, struct order_part *p)
{
	snprintf(m->key[p->key].value, 200, "v%d", (int)++m->versions);
	m->key[p->key].version = m->versions;
	p->kind = ORDER_PUT;
	p->value = text(m->key[p->key].value);
	p->tells = roll(m, 2);
	p->version = m->versions;
	p->ttl_ms = roll(m, 3) ? 0 : 2 + roll(m, 10);
	m->key[p->key].end = p->ttl_ms ? m->now + TICKS_A_MS * p->ttl_ms : ORDER_OPEN;
}

static void do_del(struct maker *m, struct order_part *p)
{
	bool is_there = m->key[p->key].value[0];

	p->kind = ORDER_DEL;
	p->result = roll(m, 3) == 0 ? ORDER_ANY : is_there ? ORDER_OK : ORDER_NOT_FOUND;
	m->key[p->key].value[0] = '\0';
}

static void do_append(struct maker *m, struct order_part *p)
{
	char *value = m->key[p->key].value;
	char more[] = { '+', (char)('a' + roll(m, 26)), '\0' };

	p->kind = ORDER_APPEND;
	p->value = text(more);
	if (!value[0])
		m->key[p->key].end = ORDER_OPEN;
	strncat(value, more, 190 - strlen(value));
	m->key[p->key].version = ++m->versions;
	p->bytes = strlen(value);
}

static void do_touch(struct maker *m, struct order_part *p)
{
	bool is_there = m->key[p->key].value[0];

	p->kind = ORDER_TOUCH;
	p->result = is_there ? ORDER_OK : ORDER_NOT_FOUND;
	p->ttl_ms = 1 + roll(m, 10);
	if (!is_there)
		return;
	m->key[p->key].end = m->now + TICKS_A_MS * p->ttl_ms;
	m->key[p->key].version = ++m->versions;
}

/* An operation that takes effect now, called some time before, returning later. */
static void make(struct maker *m)
{
	static void (*const kinds[])(struct maker *, struct order_part *) = {
		do_get, do_get, do_put, do_put, do_del, do_append, do_touch,
	};
	unsigned client = (unsigned)roll(m, CLIENTS), key = (unsigned)roll(m, KEYS);

	m->now += 1 + roll(m, 5);
	if (m->now <= m->free[client])
		m->now = m->free[client] + 1;
	for (unsigned k = 0; k < KEYS; k++)
		if (m->now >= m->key[k].end)
			m->key[k].value[0] = '\0';
	uint64_t longest = m->now - m->free[client] < 30 ? m->now - m->free[client] : 30;
	m->free[client] = m->now + roll(m, 30);
	struct order_op *o = order_add(history, client, (m->now - roll(m, longest)) * TICK,
				       m->free[client] * TICK);
	unsigned parts = roll(m, 4) ? 1 : 2;
	for (; o->count < parts; o->count++) {
		o->parts[o->count].key = (uint8_t)((key + o->count) % KEYS);
		kinds[roll(m, o->count ? 5 : 7)](m, &o->parts[o->count]);
	}
}

static void make_history(uint64_t seed)
{
	struct maker m = { .random = seed * 0x9e3779b97f4a7c15ull + 1, .now = 100 };

	for (unsigned k = 0; k < KEYS; k++)
		m.key[k].end = ORDER_OPEN;
	for (unsigned i = 0; i < OPS; i++)
		make(&m);
}

static void expect_explained(uint64_t seed)
{
	struct order_report report;

	if (order_check(history, STATES_MAX, &report) != ORDER_EXPLAINED) {
		order_print(history, &report, stderr);
		fail_msg("seed %d", (int)seed);
	}
	order_clear(history);
}

static void test_made_up_stores_are_right(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		make_history(seed);
		expect_explained(seed);
	}
}

/* At the end, of what was there first. */
static void add_stale_read(uint64_t key)
{
	struct order_op *o = order_add(history, 1, 10000 * TICK, 10001 * TICK);

	o->parts[o->count++] = (struct order_part){ .kind = ORDER_GET, .key = (uint8_t)key,
						    .value = text("v1"), .tells = true,
						    .version = 1 };
}

static void test_made_up_stores_that_are_wrong(void **state)
{
	unsigned broken = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct order_report report;
		make_history(seed);
		add_stale_read(seed % KEYS);
		broken += order_check(history, STATES_MAX, &report) == ORDER_BROKEN;
		order_clear(history);
	}
	assert_in_range(broken, 90, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_made_up_stores_are_right),
		cmocka_unit_test(test_made_up_stores_that_are_wrong),
	};

	return GROUP_RUN(tests, begin, end);
}

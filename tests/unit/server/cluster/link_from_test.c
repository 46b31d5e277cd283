/* SPDX-License-Identifier: BSD-2-Clause */
/* server/cluster/link: from where a member connects. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "tests/unit/server/cluster/link_kit.h"

static struct side a, b;

static bool are_up(void *arg)
{
	(void)arg;
	return a.peer && b.peer;
}

static bool are_down(void *arg)
{
	(void)arg;
	return a.downs && b.downs;
}

/* Anna at an address of her own asks bert. */
static void meet(bool she_listens, const char *address)
{
	struct link_key key;

	kit_key(&key);
	kit_address = address;
	kit_open(&a, "anna", &key, she_listens);
	kit_address = "127.0.0.1:0";
	kit_open(&b, "bert", &key, true);
	kit_connect(&a, link_door_addr(b.door), 2);
	kit_until(&a, &b, are_up, NULL, "two members are up");
	link_peer_close(a.peer, "it is over");
	kit_until(&a, &b, are_down, NULL, "both are down");
}

static int teardown(void **state)
{
	(void)state;
	kit_close(&a, &b);
	return 0;
}

static void must_come_from(const char *address)
{
	if (!strstr(b.why, address))
		fail_msg("'%s' says nothing of '%s'", b.why, address);
}

/* From where it listens: of two ports in one net the other one is not for members. */
static void test_own_address(void **state)
{
	(void)state;
	meet(true, "127.0.0.3:0");
	must_come_from("member anna (127.0.0.3:");
}

static void test_any_address(void **state)
{
	(void)state;
	meet(false, "127.0.0.3:0");
	must_come_from("member anna (127.0.0.1:");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_own_address, teardown),
		cmocka_unit_test_teardown(test_any_address, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

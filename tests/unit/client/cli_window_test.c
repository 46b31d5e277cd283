/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli's window of requests in flight, over fake_kvd.c: the order of the answers, and trouble. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/cli/session/session.h"
#include "client/cli/session/window.h"

struct told {
	char text[4096];
};

static void tell(void *arg, const struct cli_answer *answer)
{
	struct told *told = arg;
	size_t used = strlen(told->text);
	const char *value = answer->op == CLI_OP_GET && answer->result == 0 ? answer->value : "";

	snprintf(told->text + used, sizeof told->text - used, "%d:%.*s ", answer->result,
		 (int)(*value ? answer->value_bytes : 0), value);
}

static void put(struct cli_window *window, const char *key, const char *text)
{
	struct cli_value value;

	assert_int_equal(cli_value_copy(&value, text, strlen(text)), 0);
	cli_window_put(window, key, strlen(key), &value, NULL);
}

static void get(struct cli_window *window, const char *key)
{
	cli_window_get(window, key, strlen(key), NULL);
}

static void answers_come_in_order(void **state)
{
	struct cli cli = { .server = "fake" };
	struct told told = { "" };
	struct cli_window *window = cli_window_new(&cli, tell, &told);

	(void)state;
	put(window, "a", "1");
	put(window, "b", "2");
	get(window, "a");
	get(window, "c");
	put(window, "a", "3");
	get(window, "a");
	cli_window_del(window, "a", 1, NULL);
	get(window, "a");
	get(window, "b");
	put(window, "!grown", "long");
	get(window, "!grown");
	get(window, "");
	cli_window_drain(window);
	assert_string_equal(told.text, "0: 0: 0:1 1: 0: 0:3 0: 1: 0:2 0: 0:long -1: ");
	cli_window_delete(&window);
	cli_disconnect(&cli);
}

/* Everything in flight is answered, changes as unknown, GETs by asking again. */
static void a_broken_session_is_answered(void **state)
{
	struct cli cli = { .server = "fake" };
	struct told told = { "" };
	struct cli_window *window = cli_window_new(&cli, tell, &told);

	(void)state;
	put(window, "a", "1");
	get(window, "b");
	put(window, "!dead", "2");
	cli_window_drain(window);
	put(window, "c", "3");
	get(window, "c");
	cli_window_drain(window);
	assert_string_equal(told.text, "-4: 1: -4: 0: 0:3 ");
	cli_window_delete(&window);
	cli_disconnect(&cli);
}

static void no_server_is_answered(void **state)
{
	struct cli cli = { .server = "nobody" };
	struct told told = { "" };
	struct cli_window *window = cli_window_new(&cli, tell, &told);

	(void)state;
	get(window, "a");
	put(window, "a", "1");
	cli_window_drain(window);
	assert_string_equal(told.text, "-3: -3: ");
	cli_window_delete(&window);
	cli_disconnect(&cli);
}

/* Random operations on few keys against a plain array. */
static void the_window_keeps_the_order_of_a_key(void **state)
{
	struct cli cli = { .server = "fake" };
	struct told told = { "" }, expected = { "" };
	struct cli_window *window = cli_window_new(&cli, tell, &told);
	int values[4] = { 0 };
	uint64_t random = 1;

	(void)state;
	for (int i = 1; i <= 2000; i++) {
		char key[8], text[16];
		unsigned k, op;
		random = random * 6364136223846793005u + 1442695040888963407u;
		k = random >> 33 & 3;
		op = random >> 40 & 3;
		snprintf(key, sizeof key, "k%u", k);
		snprintf(text, sizeof text, "%d", i);
		if (op == 0)
			put(window, key, text);
		else if (op == 1)
			cli_window_del(window, key, 2, NULL);
		else
			get(window, key);
		snprintf(text, sizeof text, op > 1 && values[k] ? "0:%d " : "%d: ",
			 op == 0	? 0 :
			 op > 1 && values[k] ? values[k] :
					  values[k] == 0);
		strcat(expected.text, text);
		values[k] = op == 0 ? i : op == 1 ? 0 : values[k];
		if (i % 100 == 0) {
			cli_window_drain(window);
			assert_string_equal(told.text, expected.text);
			told.text[0] = expected.text[0] = '\0';
		}
	}
	cli_window_delete(&window);
	cli_disconnect(&cli);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_come_in_order),
		cmocka_unit_test(a_broken_session_is_answered),
		cmocka_unit_test(no_server_is_answered),
		cmocka_unit_test(the_window_keeps_the_order_of_a_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homes ADDR,ADDR END
 *
 * GETs of one key by two clients with a session each, at the first address, until the file END is there: one
 * waits for each, the other is never without one in flight. No GET fails, and none brings another
 * value.
 */
#include <pthread.h>

#include "tests/torture/kit.h"

#define KEY "of homes"
#define VALUE "never another one"
#define DEPTH 4

struct reader {
	pthread_t thread;
	kvd_client *client;
	kvd_session *session;
	_Atomic uint64_t gets;
	uint64_t refused; /* as what is in flight had to end first */
};

const char *server;
static _Atomic bool is_over;

static void check_value(const char *value, size_t bytes)
{
	check(bytes == strlen(VALUE) && !memcmp(value, VALUE, bytes), "another value");
}

static void *wait_for_each(void *arg)
{
	struct reader *r = arg;
	char value[64];
	size_t bytes;

	for (; !is_over; r->gets++) {
		expect_result(r->session, kvd_get(r->session, KEY, strlen(KEY), value, sizeof value, &bytes, NULL),
			      KVD_OK, "get");
		check_value(value, bytes);
	}
	return NULL;
}

/* Takes one completion. */
static void take(struct reader *r)
{
	struct kvd_completion done;
	int n = kvd_poll(r->session, &done, 1, -1);

	expect_result(r->session, n, 1, "poll");
	expect_result(r->session, done.result, KVD_OK, "submitted get");
	check_value(done.tag, done.value_bytes);
	r->gets++;
}

static void *never_idle(void *arg)
{
	static char value[DEPTH][64];
	struct reader *r = arg;
	unsigned in_flight = 0, next = 0;

	while (!is_over || in_flight) {
		int rc = is_over ? KVD_EBUSY :
			 kvd_submit_get(r->session, KEY, strlen(KEY), value[next % DEPTH], sizeof value[0],
					value[next % DEPTH]);
		if (rc == KVD_OK) {
			in_flight++;
			next++;
		} else if (rc != KVD_EBUSY) {
			expect_result(r->session, rc, KVD_OK, "submit");
		} else if (!is_over) {
			r->refused += in_flight < DEPTH;
		}
		if (rc == KVD_EBUSY || in_flight == DEPTH) {
			take(r);
			in_flight--;
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct reader readers[2] = { 0 };

	if (argc != 3) {
		fprintf(stderr, "usage: homes ADDR,ADDR END\n");
		return 2;
	}
	server = argv[1];
	for (unsigned i = 0; i < 2; i++) {
		kvd_session *s = readers[i].session = connect_with(&readers[i].client, 0, DEPTH);
		expect_result(s, kvd_put(s, KEY, strlen(KEY), VALUE, strlen(VALUE), NULL), KVD_OK, "put");
	}
	pthread_create(&readers[0].thread, NULL, wait_for_each, &readers[0]);
	pthread_create(&readers[1].thread, NULL, never_idle, &readers[1]);
	while (access(argv[2], F_OK))
		rest_ms(10);
	is_over = true;
	for (unsigned i = 0; i < 2; i++)
		pthread_join(readers[i].thread, NULL);
	printf("homes: %llu GETs that were waited for, %llu that were submitted; %llu refused for a while\n",
	       (unsigned long long)readers[0].gets, (unsigned long long)readers[1].gets,
	       (unsigned long long)readers[1].refused);
	reached("GETs that were waited for", readers[0].gets, 10000);
	reached("GETs that were submitted", readers[1].gets, 10000);
	reached("of them refused", readers[1].refused, 1);
	for (unsigned i = 0; i < 2; i++)
		hang_up(&readers[i].session, &readers[i].client);
	return 0;
}

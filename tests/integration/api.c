/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * api -- <kvd.h> against a kvd, one case at a time.
 *
 *	api ADDR:PORT CASE [SIZE [SHARED-FILE]]
 *
 * Exits with 0 if all is as <kvd.h> says, 1 with the line that is not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/api.h"

kvd_client *client;
kvd_session *session;
const char *kvd_address;
const char *shared_file;
uint64_t size = 1;

bool is_value(const char *key, const char *want)
{
	char value[256];
	size_t bytes;

	return kvd_get(KEY(key), value, sizeof value, &bytes, NULL) == KVD_OK &&
	       bytes == strlen(want) && !memcmp(value, want, bytes);
}

uint8_t *pattern(size_t bytes, unsigned seed)
{
	uint8_t *p = malloc(bytes + 1);
	uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;

	CHECK(p != NULL);
	for (size_t i = 0; i < bytes; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		p[i] = (uint8_t)x;
	}
	return p;
}

bool holds(const char *key, const uint8_t *want, size_t want_bytes)
{
	void *value;
	size_t bytes;

	if (kvd_get_alloc(KEY(key), &value, &bytes, NULL) != KVD_OK)
		return false;
	bool same = bytes == want_bytes && !memcmp(value, want, bytes);
	free(value);
	return same;
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "conditions", case_conditions }, { "counters", case_counters },
	{ "append", case_append },	   { "append_limit", case_append_limit },
	{ "expiry", case_expiry },	   { "touch", case_touch },
	{ "expire_many", case_expire_many }, { "bad_input", case_bad_input },
	{ "pieces", case_pieces },	   { "buffers", case_buffers },
	{ "buffers_made", case_buffers_made },
	{ "large", case_large },	   { "many", case_many },
	{ "many_exist", case_many_exist }, { "many_long", case_many_long },
	{ "one_doorbell", case_one_doorbell },
	{ "events", case_events },	   { "submits", case_submits },
	{ "reads", case_reads },	   { "latest", case_latest },
	{ "sessions", case_sessions },
	{ "attributes", case_attributes }, { "signs", case_signs },
	{ "get_touch", case_get_touch },
	{ "unix_time", case_unix_time },   { "prepend", case_prepend },
	{ "flush_at", case_flush_at },
	{ "unsigned", case_unsigned },	   { "submitted_attributes", case_submitted_attributes },
};

int main(int argc, char **argv)
{
	struct kvd_options options = { .size = sizeof options, .timeout_ms = 60000 };

	if (argc < 3)
		return 2;
	kvd_address = argv[1];
	if (argc > 3)
		size = strtoull(argv[3], NULL, 10);
	shared_file = argc > 4 ? argv[4] : argv[1];
	if (kvd_client_new(argv[1], &options, &client) < 0 ||
	    kvd_session_new(client, &session) < 0) {
		fprintf(stderr, "api: %s\n", kvd_client_error(client));
		return 2;
	}
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (strcmp(cases[i].name, argv[2]) != 0)
			continue;
		cases[i].run();
		kvd_session_delete(&session);
		kvd_client_delete(&client);
		return 0;
	}
	fprintf(stderr, "api: no case %s\n", argv[2]);
	return 2;
}

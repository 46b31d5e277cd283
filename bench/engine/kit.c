/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/engine/kit.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/format/jsonread.h"
#include "bench/measure/stopwatch.h"

#define TIMEOUT_MS 120000

void engine_connect(struct engine *e, size_t mirror_bytes, bool ahead)
{
	struct kvd_options options = { .size = sizeof options, .timeout_ms = TIMEOUT_MS,
				       .depth = e->depth ? e->depth : ENGINE_DEPTH, .mirror_bytes = mirror_bytes,
				       .mirror_ahead = ahead };

	engine_disconnect(e);
	ENGINE_CHECK(kvd_client_new(e->address, &options, &e->client) == KVD_OK &&
			     kvd_session_new(e->client, &e->session) == KVD_OK,
		     "%s", e->client ? kvd_client_error(e->client) : "out of memory");
}

void engine_disconnect(struct engine *e)
{
	kvd_session_delete(&e->session);
	kvd_client_delete(&e->client);
}

void engine_key(uint64_t n, char key[ENGINE_KEY_BYTES])
{
	static const char digit[16] = "0123456789abcdef";
	uint64_t x = random_mix(n + 1);

	for (unsigned i = 0; i < ENGINE_KEY_BYTES; i++, x >>= 4)
		key[i] = digit[x & 15];
}

static void reap(struct engine *e, uint64_t *in_flight)
{
	struct kvd_completion c[ENGINE_DEPTH];
	int n = kvd_poll(e->session, c, ENGINE_DEPTH, -1);

	ENGINE_CHECK(n > 0, "%s", kvd_session_error(e->session));
	for (int i = 0; i < n; i++)
		ENGINE_CHECK(c[i].result == KVD_OK, "%s (%s)", kvd_strerror(c[i].result),
			     kvd_session_error(e->session));
	*in_flight -= (uint64_t)n;
}

void engine_load(struct engine *e, uint64_t first, uint64_t count)
{
	char *value = calloc(1, e->value_bytes + 1), key[ENGINE_KEY_BYTES];
	uint64_t in_flight = 0;

	ENGINE_CHECK(value, "out of memory");
	for (uint64_t n = first; n < first + count; n++) {
		int rc;
		engine_key(n, key);
		while ((rc = kvd_submit_put(e->session, key, sizeof key, value, e->value_bytes,
					    NULL)) == KVD_EBUSY)
			reap(e, &in_flight);
		ENGINE_CHECK(rc == KVD_OK, "%s", kvd_session_error(e->session));
		in_flight++;
	}
	while (in_flight)
		reap(e, &in_flight);
	free(value);
}

uint64_t engine_time_get(struct engine *e, uint64_t n, void *value)
{
	char key[ENGINE_KEY_BYTES];
	size_t bytes;

	engine_key(n, key);
	uint64_t begin = stopwatch_ns();
	int rc = kvd_get(e->session, key, sizeof key, value, e->value_bytes, &bytes, NULL);
	uint64_t ns = stopwatch_ns() - begin;
	ENGINE_CHECK(rc == KVD_OK && bytes == e->value_bytes, "key %llu: %s",
		     (unsigned long long)n, kvd_strerror(rc));
	return ns;
}

void engine_gets(struct engine *e, uint64_t count, int depth, uint64_t (*next)(void *arg),
		 void *arg)
{
	char *values = malloc((e->value_bytes + 1) * ENGINE_DEPTH), key[ENGINE_KEY_BYTES];
	uint64_t in_flight = 0;

	ENGINE_CHECK(values, "out of memory");
	for (uint64_t i = 0; i < count; i++) {
		/* Several may share memory: nobody looks at it. */
		char *value = values + i % ENGINE_DEPTH * (e->value_bytes + 1);
		while (in_flight >= (uint64_t)depth)
			reap(e, &in_flight);
		engine_key(next(arg), key);
		int rc = kvd_submit_get(e->session, key, sizeof key, value, e->value_bytes, NULL);
		ENGINE_CHECK(rc == KVD_OK, "%s", kvd_session_error(e->session));
		in_flight++;
	}
	while (in_flight)
		reap(e, &in_flight);
	free(values);
}

uint64_t engine_in_turn(void *arg)
{
	return (*(uint64_t *)arg)++;
}

uint64_t engine_uniform(void *arg)
{
	struct engine *e = arg;

	return random_below(&e->random, e->keys);
}

struct kvd_counters engine_counters(const struct engine *e)
{
	struct kvd_counters c;

	kvd_session_counters(e->session, &c);
	return c;
}

double engine_stat(struct engine *e, const char *path)
{
	char *text;

	ENGINE_CHECK(kvd_stats(e->session, &text) == KVD_OK, "%s", kvd_session_error(e->session));
	struct jsonread *json = jsonread_new(text, NULL);
	free(text);
	ENGINE_CHECK(json, "kvd's statistics are no JSON");
	double value = jsonread_number(jsonread_path(json, path), -1);
	jsonread_delete(&json);
	return value;
}

uint64_t engine_server_kib(const char *field)
{
	const char *pid = getenv("KVD_PID");
	char path[64], line[128];
	unsigned long long kib = 0;

	ENGINE_CHECK(pid, "KVD_PID is not set: whose memory is it?");
	snprintf(path, sizeof path, "/proc/%s/status", pid);
	FILE *file = fopen(path, "r");
	ENGINE_CHECK(file, "can't read %s", path);
	while (fgets(line, sizeof line, file) != NULL)
		if (!strncmp(line, field, strlen(field)))
			sscanf(line + strlen(field), ": %llu", &kib);
	fclose(file);
	return kib;
}

void figure(const char *name, double value)
{
	printf("%s %.4f\n", name, value);
	fflush(stdout);
}

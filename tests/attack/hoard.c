/* SPDX-License-Identifier: BSD-2-Clause */
/* hoard.c -- many GETs by message of a long value, many appends to it, and what another user notices of that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/attack/attack.h"

#define FLIGHT 24 /* within the credits */
#define PUTS_MAX 1000000

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* A request for a key, with a value of that many bytes behind it. */
static void send_key(struct raw_conn *c, uint32_t id, enum wire_op op, const char *key,
		     uint32_t value_bytes)
{
	struct wire_request q = { .request_id = id, .op = (uint8_t)op, .value_bytes = value_bytes,
				  .key_bytes = (uint16_t)strlen(key) };
	uint8_t message[sizeof q + 300] = { 0 };

	if (q.key_bytes > 100 || value_bytes > 200)
		raw_die("a shorter key");
	memcpy(message, &q, sizeof q);
	memcpy(message + sizeof q, key, q.key_bytes);
	if (!raw_send(c, message, (uint32_t)sizeof q + q.key_bytes + value_bytes))
		raw_die("kvd hangs up");
}

/* One connection's part.  What is answered is left where it is until the file is there. */
static void hoard_part(const char *addr, long n, const struct credentials *who, const char *key,
		       const char *path)
{
	uint64_t begin = raw_now_ms();
	struct wire_reply reply;
	struct raw raw = { .random = 1 };
	struct raw_conn c;
	long sent = 0, refused = 0, long_ones = 0;

	raw_open(&raw, addr);
	raw_enter(&raw, &c, who);
	for (long got = 0; got < n; got++) {
		while (sent < n && sent - got < FLIGHT)
			send_key(&c, (uint32_t)++sent, WIRE_GET, key, 0);
		if (!raw_reply(&c, &reply, NULL, 0, 120000))
			raw_die("a GET by message has no answer");
		refused += reply.status != WIRE_OK;
		long_ones += reply.status == WIRE_OK && (reply.flags & WIRE_PINNED);
	}
	printf("hoards %ld of %ld in %llu ms, %ld were refused\n", long_ones, n,
	       (unsigned long long)(raw_now_ms() - begin), refused);
	fflush(stdout);
	for (uint64_t end = raw_now_ms() + 120000; access(path, F_OK) && raw_now_ms() < end;)
		usleep(10000);
	raw_hang_up(&c);
	_exit(long_ones == 0);
}

void attack_hoard(const char *addr, char **argv)
{
	long n = atol(argv[0]), processes = atol(argv[1]);
	struct credentials cred = attack_load(argv[2]);

	fflush(stdout);
	for (long p = 0; p < processes; p++)
		if (fork() == 0)
			hoard_part(addr, n / processes, &cred, argv[3], argv[4]);
	exit(attack_wait_all());
}

static void swell_part(const char *addr, long n, const struct credentials *who, const char *key)
{
	uint64_t begin = raw_now_ms();
	struct wire_reply reply;
	struct raw raw = { .random = 1 };
	struct raw_conn c;
	long sent = 0, done = 0;

	raw_open(&raw, addr);
	raw_enter(&raw, &c, who);
	for (long got = 0; got < 2 * n; got++) {
		for (; sent < 2 * n && sent - got < 4; sent++)
			send_key(&c, (uint32_t)sent + 1, sent % 2 ? WIRE_TOUCH : WIRE_APPEND, key,
				 sent % 2 ? 0 : 1);
		if (!raw_reply(&c, &reply, NULL, 0, 120000))
			raw_die("an append has no answer");
		if (reply.status != WIRE_OK && reply.status != WIRE_EBUSY)
			raw_die("an append fails");
		done += reply.status == WIRE_OK && reply.op == WIRE_APPEND;
	}
	printf("appended %ld of %ld in %llu ms\n", done, n,
	       (unsigned long long)(raw_now_ms() - begin));
	fflush(stdout);
	raw_hang_up(&c);
	_exit(done == 0);
}

void attack_swell(const char *addr, char **argv)
{
	long n = atol(argv[0]), processes = atol(argv[1]);
	struct credentials cred = attack_load(argv[2]);

	fflush(stdout);
	for (long p = 0; p < processes; p++)
		if (fork() == 0)
			swell_part(addr, n / processes, &cred, argv[3]);
	exit(attack_wait_all());
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

void attack_pace(struct raw *raw, const char *name, const char *key, const char *path)
{
	struct credentials who = attack_load(name);
	static uint32_t took_us[PUTS_MAX];
	struct wire_reply reply;
	struct raw_conn c;
	long n = 0, failed = 0;

	raw_enter(raw, &c, &who);
	while (n < PUTS_MAX && access(path, F_OK)) {
		uint64_t begin = now_us();
		send_key(&c, (uint32_t)n + 1, WIRE_PUT, key, 100);
		if (!raw_reply(&c, &reply, NULL, 0, 60000))
			raw_die("a PUT has no answer");
		failed += reply.status != WIRE_OK;
		took_us[n++] = (uint32_t)(now_us() - begin);
		usleep(500);
	}
	if (!n)
		raw_die("the file was there before");
	qsort(took_us, (size_t)n, sizeof took_us[0], compare);
	printf("puts %ld failed %ld p50_us %u p99_us %u max_us %u\n", n, failed, took_us[n / 2],
	       took_us[n - 1 - n / 100], took_us[n - 1]);
	raw_hang_up(&c);
}

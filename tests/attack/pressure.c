/* SPDX-License-Identifier: BSD-2-Clause */
/* pressure.c -- attacks by numbers: connections, messages, requests, and no replies taken. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/attack/attack.h"

/* -------------------------------------------------------------------- crowd */

#define CROWD_MAX 1000

static bool ping(struct raw_conn *c)
{
	struct wire_request q = { .request_id = 7, .op = WIRE_PING };
	struct wire_reply reply;

	return raw_send(c, &q, sizeof q) && raw_reply(c, &reply, NULL, 0, 20000) &&
	       reply.status == WIRE_OK;
}

/* One process's part: opens them, then waits, then sees whether those that finished their
 * handshake are served. */
static void crowd_part(const char *addr, long n, const struct credentials *who, const char *path)
{
	static struct raw_conn conns[CROWD_MAX];
	struct raw raw = { .random = 1 };
	long served = 0;

	raw_open(&raw, addr);
	raw.recvs = 4;
	raw.tolerant = !who; /* to make room, kvd may hang up before this end is ready */
	for (long i = 0; i < n; i++) {
		struct wire_connect connect = { .magic = WIRE_MAGIC, .version = WIRE_VERSION };
		if (!who) { /* all of them say nothing, and some may be refused */
			raw_connect(&raw, &conns[i], &connect);
			continue;
		}
		raw_connect_well(&raw, &conns[i]);
		if (i % 2)
			continue; /* it says nothing */
		raw_make_hello(&conns[i], who);
		if (raw_say_hello(&conns[i], who) != WIRE_OK)
			raw_die("kvd doesn't let one of many in");
	}
	printf("open %ld\n", n);
	fflush(stdout);
	for (uint64_t end = raw_now_ms() + 120000; access(path, F_OK) && raw_now_ms() < end;)
		usleep(10000);
	if (!who)
		_exit(0);
	for (long i = 0; i < n; i += 2)
		served += ping(&conns[i]);
	printf("served %ld of %ld\n", served, (n + 1) / 2);
	fflush(stdout);
	for (long i = 0; i < n; i++)
		raw_hang_up(&conns[i]);
	_exit(served != (n + 1) / 2);
}

void attack_crowd(const char *addr, char **argv)
{
	long n = atol(argv[0]), processes = atol(argv[1]);
	bool silent = !strcmp(argv[2], "-");
	struct credentials cred;

	if (!silent)
		cred = attack_load(argv[2]);
	if (n / processes > CROWD_MAX)
		raw_die("too many for a process");
	fflush(stdout);
	for (long p = 0; p < processes; p++)
		if (fork() == 0)
			crowd_part(addr, n / processes, silent ? NULL : &cred, argv[3]);
	exit(attack_wait_all());
}

/* ---------------------------------------------------------------- strangers */

/* One that says nothing, in the place of one that kvd has ended or did not let in. */
static void come_again(struct raw *raw, struct raw_conn *c, bool *open)
{
	struct wire_connect connect = { .magic = WIRE_MAGIC, .version = WIRE_VERSION };

	if (*open)
		raw_hang_up(c);
	auth_nonce(connect.nonce);
	*open = raw_connect(raw, c, &connect);
}

void attack_strangers(const char *addr, char **argv)
{
	static struct raw_conn conns[CROWD_MAX], users[CROWD_MAX];
	static bool open[CROWD_MAX];
	long n = atol(argv[0]), proved = atol(argv[1]), came = 0, served = 0;
	struct credentials who = attack_load(argv[2]);
	struct raw raw = { .random = 1 };

	if (n > CROWD_MAX || proved > CROWD_MAX)
		raw_die("too many");
	raw_open(&raw, addr);
	raw.recvs = 4;
	for (long i = 0; i < proved; i++)
		raw_enter(&raw, &users[i], &who);
	raw.tolerant = true;
	for (uint64_t end = raw_now_ms() + 120000; access(argv[3], F_OK) && raw_now_ms() < end; came++) {
		come_again(&raw, &conns[came % n], &open[came % n]);
		if (came == n) {
			printf("open %ld\n", n);
			fflush(stdout);
		}
		usleep(5000); /* 200 a second: within the handshakes of an address */
	}
	for (long i = 0; i < proved; i++)
		served += ping(&users[i]);
	printf("%ld strangers came; served %ld of %ld users\n", came, served, proved);
	fflush(stdout);
	_exit(served != proved);
}

/* -------------------------------------------------------------------- flood */

/* Something that no client sends. */
static uint32_t make_bad(struct raw *raw, uint8_t *message)
{
	static const uint64_t odd[] = { 1, 8193, 65535, 1ull << 30, 1ull << 32, 1ull << 63, ~0ull };
	struct wire_request q = { .request_id = (uint32_t)raw_random(raw) };
	uint64_t value = odd[raw_random(raw) % (sizeof odd / sizeof *odd)];
	uint32_t bytes = sizeof q + 105;

	memset(message, 'x', 200);
	q.op = (uint8_t)(2 + raw_random(raw) % (WIRE_OPS - 2));
	q.key_bytes = 5;
	q.value_bytes = 100;
	switch (raw_random(raw) % 7) {
	case 0: /* shorter than a header, or nothing at all */
		bytes = (uint32_t)(raw_random(raw) % sizeof q);
		break;
	case 1:
		q.op = (uint8_t)(WIRE_OPS + raw_random(raw) % (256 - WIRE_OPS));
		break;
	case 2:
		q.key_bytes = (uint16_t)(1025 + raw_random(raw) % 60000);
		break;
	case 3:
		q.op = WIRE_PUT;
		q.value_bytes = value == 100 ? 1 : value;
		break;
	case 4: /* somebody else's lock */
		q.token = value;
		break;
	case 5:
		q.ttl_ms = ~0ull;
		break;
	default: /* out of order: a second hello, or one where there must be none */
		q.op = WIRE_HELLO;
	}
	memcpy(message, &q, sizeof q);
	return bytes;
}

/* Half of the time with a hello, so that what follows comes before and behind it. */
static bool flood_connect(struct raw *raw, struct raw_conn *c, const struct credentials *who)
{
	struct wire_connect connect = { .magic = WIRE_MAGIC, .version = WIRE_VERSION };

	auth_nonce(connect.nonce);
	if (!raw_connect(raw, c, &connect)) {
		if (c->accept.refusal)
			raw_die(c->accept.refusal == WIRE_REFUSED_RATE ? "refused: too many handshakes"
								       : "refused");
		return false;
	}
	if (raw_random(raw) % 2 == 0)
		return true;
	raw_make_hello(c, who);
	int status = raw_say_hello(c, who);
	if (status == WIRE_OK)
		return true;
	if (status != -1)
		raw_die("kvd doesn't let a user in");
	raw_hang_up(c);
	return false;
}

static void flood_part(const char *addr, long n, uint64_t seed, const struct credentials *who)
{
	struct raw raw = { .random = seed };
	uint8_t message[512];
	struct wire_reply reply;
	long ended = 0;

	raw_open(&raw, addr);
	raw.recvs = 4;
	raw.tolerant = true;
	for (long i = 0; i < n; i++) {
		struct raw_conn c;
		if (!flood_connect(&raw, &c, who)) {
			i--;
			continue;
		}
		uint32_t bytes = make_bad(&raw, message);
		if (!raw_send(&c, message, bytes))
			ended++; /* before it came to that */
		else if (!raw_reply(&c, &reply, NULL, 0, 20000))
			ended++;
		else if (reply.status == WIRE_OK)
			raw_die("kvd takes a malformed message");
		raw_hang_up(&c);
	}
	printf("%ld messages, %ld connections ended for them\n", n, ended);
	fflush(stdout);
	_exit(0);
}

void attack_flood(const char *addr, char **argv)
{
	long n = atol(argv[0]), processes = atol(argv[2]);
	struct credentials cred = attack_load(argv[3]);

	fflush(stdout);
	for (long p = 0; p < processes; p++)
		if (fork() == 0)
			flood_part(addr, n / processes, strtoull(argv[1], NULL, 10) + (uint64_t)p * 7919,
				   &cred);
	exit(attack_wait_all());
}

/* ------------------------------------------------------------- greedy, mute */

/* False: kvd ended the connection. */
static bool send_through(struct raw_conn *c, const void *message, uint32_t bytes)
{
	struct ibv_wc wc;

	if (!raw_send(c, message, bytes))
		return false;
	while (raw_completion(c, &wc, 20000)) {
		if (wc.status != IBV_WC_SUCCESS)
			return false;
		if (wc.opcode == IBV_WC_SEND)
			return true;
	}
	return false;
}

void attack_greedy(struct raw *raw, const char *name, const char *key)
{
	struct wire_request q = { .op = WIRE_PUT, .key_bytes = (uint16_t)strlen(key), .value_bytes = 5 };
	struct credentials who = attack_load(name);
	uint8_t message[sizeof q + 100 + 5] = { 0 };
	struct raw_conn c;
	unsigned n = 0;

	if (strlen(key) > 100)
		raw_die("a shorter key");
	raw_enter(raw, &c, &who);
	memcpy(message + sizeof q, key, q.key_bytes);
	for (; n < 300 && !c.gone; n++) {
		q.request_id = n + 2;
		memcpy(message, &q, sizeof q);
		if (!send_through(&c, message, (uint32_t)sizeof q + q.key_bytes + 5))
			break;
	}
	/* What it has received it may not have looked at yet. */
	for (uint64_t end = raw_now_ms() + 20000; !c.gone && raw_now_ms() < end; usleep(1000))
		raw_look(&c);
	if (!c.gone)
		raw_die("kvd keeps as many requests as one sends");
	printf("ended within %u requests, with %u credits\n", n, c.welcome.credits);
	raw_hang_up(&c);
}

void attack_mute(struct raw *raw, const char *name)
{
	struct wire_request q = { .op = WIRE_PING };
	struct credentials who = attack_load(name);
	uint64_t begin = raw_now_ms();
	struct raw_conn c;

	raw->recvs = 1;
	raw_enter(raw, &c, &who);
	for (unsigned n = 0; n < 60 && !c.gone; n++) {
		q.request_id = n + 2;
		if (!send_through(&c, &q, sizeof q))
			break;
	}
	while (!c.gone && raw_now_ms() - begin < 60000) {
		raw_look(&c);
		usleep(10000);
	}
	if (!c.gone)
		raw_die("kvd keeps a peer that takes no replies");
	printf("ended after %.1f s\n", (double)(raw_now_ms() - begin) / 1000);
	raw_hang_up(&c);
}

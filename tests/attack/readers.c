/* SPDX-License-Identifier: BSD-2-Clause */
/* readers.c -- attacks by who may only read: replies that nobody takes, and no end of lists. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/attack/attack.h"

#define READERS_MAX 200
#define PATIENCE_MS 120000

static struct raw_conn conns[READERS_MAX];

/* False: kvd ended the connection. */
static bool ask(struct raw_conn *c, unsigned op, uint32_t id, uint64_t cursor, const char *prefix)
{
	struct wire_request q = { .request_id = id, .op = (uint8_t)op, .version = cursor,
				  .key_bytes = (uint16_t)strlen(prefix) };
	uint8_t message[sizeof q + 16];
	struct ibv_wc wc;

	memcpy(message, &q, sizeof q);
	memcpy(message + sizeof q, prefix, q.key_bytes);
	if (c->gone || !raw_send(c, message, (uint32_t)sizeof q + q.key_bytes))
		return false;
	while (raw_completion(c, &wc, PATIENCE_MS)) {
		if (wc.status != IBV_WC_SUCCESS)
			return false;
		if (wc.opcode == IBV_WC_SEND)
			return true;
	}
	return false;
}

/* N connections with M requests each, and a receive for one reply. */
void attack_mutes(struct raw *raw, char **argv)
{
	long n = atol(argv[0]), m = atol(argv[1]), asked = 0;
	unsigned op = !strcmp(argv[2], "ping") ? WIRE_PING : WIRE_KEYS;
	struct credentials who = attack_load(argv[3]);

	if (n > READERS_MAX)
		raw_die("too many connections");
	raw->recvs = 1;
	raw->depth = 129;
	for (long i = 0; i < n; i++)
		raw_enter(raw, &conns[i], &who);
	for (long k = 0; k < m; k++)
		for (long i = 0; i < n; i++)
			if (ask(&conns[i], op, (uint32_t)(k + 2), 0, ""))
				asked++;
			else
				conns[i].gone = true;
	printf("asked %ld\n", asked);
	fflush(stdout);
	for (uint64_t end = raw_now_ms() + PATIENCE_MS; access(argv[4], F_OK) && raw_now_ms() < end;)
		usleep(1000);
	_exit(0); /* all at once: each is flushed */
}

/* A page of the whole walk, which is long, for a short reply. */
static void begin_page(struct raw_conn *c)
{
	if (!ask(c, WIRE_KEYS, 2, 0, "none"))
		raw_die("kvd hung up on a reader");
}

/* Takes the page that has come, and asks for the next at once. */
static unsigned long turn_page(struct raw_conn *c)
{
	struct wire_reply reply;

	if (!raw_reply(c, &reply, NULL, 0, 0))
		return 0;
	if (reply.status != WIRE_OK)
		raw_die("a page is refused");
	begin_page(c);
	return 1;
}

/* N connections, each of which always waits for two pages of the keys. */
void attack_listers(struct raw *raw, char **argv)
{
	struct credentials who = attack_load(argv[1]);
	long n = atol(argv[0]);
	unsigned long pages = 0;

	if (n > READERS_MAX)
		raw_die("too many connections");
	raw->recvs = 8; /* their memory is shared; nobody looks at what comes */
	for (long i = 0; i < n; i++) {
		raw_enter(raw, &conns[i], &who);
		begin_page(&conns[i]);
		begin_page(&conns[i]);
	}
	printf("listing\n");
	fflush(stdout);
	while (access(argv[2], F_OK))
		for (unsigned k = 0; k < 100; k++)
			for (long i = 0; i < n; i++)
				pages += turn_page(&conns[i]);
	printf("%lu pages\n", pages);
	fflush(stdout);
	_exit(0);
}

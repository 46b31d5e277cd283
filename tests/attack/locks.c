/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * locks.c -- attacks on the lock words: a writer's names in all of them; and strangers who
 * come and go, as each connection's end once cost a look at all words.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/layout.h"
#include "tests/attack/attack.h"

#define CHAIN 32u
#define PATIENCE_MS 300000

static void wait_for_file(const char *path)
{
	for (uint64_t end = raw_now_ms() + PATIENCE_MS; access(path, F_OK) && raw_now_ms() < end;)
		usleep(10000);
}

/* Compare-and-swaps of `count` words from 0 to the token, with one doorbell. */
static void write_some(struct raw_conn *c, uint64_t first, unsigned count, uint64_t token)
{
	struct ibv_sge sge = { (uintptr_t)c->raw->reach, 8, c->raw->mr->lkey };
	struct ibv_send_wr wr[CHAIN] = { 0 }, *bad;
	struct ibv_wc wc;

	for (unsigned i = 0; i < count; i++) {
		wr[i] = (struct ibv_send_wr){
			.next = i + 1 < count ? &wr[i + 1] : NULL,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
			.send_flags = i + 1 < count ? 0 : IBV_SEND_SIGNALED,
			.wr.atomic = { .remote_addr = c->welcome.lock_addr + 8 * (first + i),
				       .rkey = c->welcome.lock_rkey, .swap = token },
		};
	}
	if (ibv_post_send(c->qp, wr, &bad) || !raw_completion(c, &wc, 20000) ||
	    wc.status != IBV_WC_SUCCESS)
		raw_die("a writer can't write lock words");
}

void attack_words(struct raw *raw, const char *name, const char *whose, const char *path)
{
	bool has_name = strcmp(name, "-") != 0; /* where there are users */
	struct credentials who;
	struct raw_conn c;

	if (has_name)
		who = attack_load(name);
	raw_enter(raw, &c, has_name ? &who : NULL);
	uint64_t stripes = c.welcome.stripes;
	uint64_t token = layout_token(strcmp(whose, "own") ? LAYOUT_LOCK_CONNECTION_MASK
							   : c.welcome.connection_id, 1);
	for (uint64_t i = 0; i < stripes; i += CHAIN)
		write_some(&c, i, stripes - i < CHAIN ? (unsigned)(stripes - i) : CHAIN, token);
	printf("%llu words\n", (unsigned long long)stripes);
	fflush(stdout);
	wait_for_file(path);
	raw_hang_up(&c);
}

void attack_passers(struct raw *raw, const char *path)
{
	struct wire_connect connect = { .magic = WIRE_MAGIC, .version = WIRE_VERSION };
	uint64_t begin = raw_now_ms(), end = begin + PATIENCE_MS;
	unsigned long n = 0;
	struct raw_conn c;

	raw->tolerant = true;
	raw->recvs = 1;
	for (; access(path, F_OK) && raw_now_ms() < end; n++)
		if (raw_connect(raw, &c, &connect))
			raw_hang_up(&c);
	printf("%lu came and went, %lu a second\n", n, n * 1000 / (raw_now_ms() - begin + 1));
}

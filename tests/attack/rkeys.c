/* SPDX-License-Identifier: BSD-2-Clause */
/* rkeys.c -- attacks by READ, WRITE and atomics on memory that is somebody else's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/layout.h"
#include "tests/attack/attack.h"
#include "tests/attack/holdings.h"

/* ----------------------------------------------------------------- snapshot */

static void read_region(struct raw_conn *c, FILE *f, uint64_t addr, uint64_t bytes, uint32_t rkey)
{
	while (bytes) {
		uint32_t n = bytes < RAW_REACH ? (uint32_t)bytes : RAW_REACH;
		if (raw_reach(c, IBV_WR_RDMA_READ, addr, rkey, n) != IBV_WC_SUCCESS)
			raw_die("a right that is given fails");
		if (fwrite(c->raw->reach, 1, n, f) != n)
			raw_die("can't write the snapshot");
		addr += n;
		bytes -= n;
	}
}

void attack_snapshot(struct raw *raw, const char *who, const char *path)
{
	struct credentials cred = attack_load(who);
	struct raw_conn c;
	FILE *f = fopen(path, "w");

	if (!f)
		raw_die("can't write the snapshot");
	raw_enter(raw, &c, &cred);
	read_region(&c, f, c.welcome.table_addr, c.welcome.table_bytes, c.welcome.table_rkey);
	read_region(&c, f, c.welcome.lock_addr, c.welcome.stripes * 8, c.welcome.lock_rkey);
	fclose(f);
	raw_hang_up(&c);
}

/* ------------------------------------------------------------------- matrix */

/* What the attacker knows of a victim. */
struct known {
	struct wire_welcome welcome;
	struct credentials victim;
	struct credentials reader;
};

enum phase { BEFORE, DENIED, IN_ONE, READER, WRITER, PHASES };
static const char *const phase_names[] = {
	"before the hello", "after a hello that proves nothing", "in one doorbell with a hello",
	"as a reader", "as a writer",
};

/* A hello of somebody who does not have the secret. */
static void bad_hello(struct raw_conn *c, const struct known *k)
{
	raw_make_hello(c, &k->victim);
	c->hello[c->hello_bytes - 1] ^= 1;
	if (!raw_send(c, c->hello, c->hello_bytes))
		raw_die("can't send");
}

static void enter_phase(struct raw *raw, struct raw_conn *c, const struct known *k,
			enum phase phase)
{
	struct ibv_wc wc;

	if (phase == READER || phase == WRITER) {
		raw_enter(raw, c, phase == READER ? &k->reader : &k->victim);
		return;
	}
	raw_connect_well(raw, c);
	if (phase == BEFORE)
		return;
	bad_hello(c, k);
	/* Its SEND is complete: kvd has it, and takes a second to answer. */
	if (phase == DENIED)
		raw_completion(c, &wc, 5000);
}

/* What a role gives: no attack. */
static bool is_given(enum phase phase, unsigned op, bool lock, bool real)
{
	if (!real)
		return false;
	if (attack_opcodes[op] == IBV_WR_RDMA_READ)
		return phase == READER || phase == WRITER;
	return phase == WRITER && lock && attack_opcodes[op] != IBV_WR_RDMA_WRITE;
}

static void try_rkey(struct raw *raw, const struct known *k, enum phase phase, unsigned op,
		     bool lock, uint64_t offset, uint32_t rkey)
{
	struct raw_conn c;

	enter_phase(raw, &c, k, phase);
	attack_must_fail(&c, op, (lock ? k->welcome.lock_addr : k->welcome.table_addr) + offset, rkey,
		  phase_names[phase]);
	raw_hang_up(&c);
}

static void try_phase(struct raw *raw, const struct known *k, enum phase phase)
{
	/* rkeys are an index and a few random bits: next to one there may be another. */
	static const int near[] = { 0, 1, -1, 2, -2, 256, -256, 512, -512 };
	unsigned nears = phase == BEFORE ? sizeof near / sizeof *near : 3;

	for (unsigned lock = 0; lock < 2; lock++) {
		uint32_t rkey = lock ? k->welcome.lock_rkey : k->welcome.table_rkey;
		for (unsigned op = 0; op < ATTACK_OPCODES; op++)
			for (unsigned i = 0; i < nears; i++) {
				if (is_given(phase, op, lock, i == 0))
					continue;
				try_rkey(raw, k, phase, op, lock, 64 * 8, rkey + (uint32_t)near[i]);
			}
	}
	/* The other region's rkey, and over the ends of both. */
	for (unsigned op = 0; op < ATTACK_OPCODES; op++) {
		try_rkey(raw, k, phase, op, false, 0, k->welcome.lock_rkey);
		try_rkey(raw, k, phase, op, true, 0, k->welcome.table_rkey);
		try_rkey(raw, k, phase, op, false, k->welcome.table_bytes, k->welcome.table_rkey);
		try_rkey(raw, k, phase, op, true, (uint64_t)-8, k->welcome.lock_rkey);
	}
}

static void learn(struct raw *raw, struct known *k)
{
	struct raw_conn c;

	raw_enter(raw, &c, &k->victim);
	k->welcome = c.welcome;
	raw_hang_up(&c);
	raw_enter(raw, &c, &k->reader);
	if (c.welcome.lock_rkey)
		raw_die("a reader gets the rkey of the locks");
	raw_hang_up(&c);
}

void attack_matrix(struct raw *raw, const char *victim, const char *reader)
{
	struct known k = { .victim = attack_load(victim), .reader = attack_load(reader) };

	learn(raw, &k);
	for (int phase = 0; phase < PHASES; phase++)
		try_phase(raw, &k, (enum phase)phase);
	printf("%u requests\n", attack_tries);
}

/* ----------------------------------------------------------------- holdings */

void attack_holdings(const char *addr, const char *victim, const char *reader)
{
	struct credentials writer = attack_load(victim), who = attack_load(reader);
	struct raw raw = { .random = 1 };
	struct wire_welcome known;

	attack_learn(addr, &writer, &known);
	raw_open(&raw, addr);
	holdings_try(&raw, &who, &writer, &known);
	raw_close(&raw);
}

/* -------------------------------------------------------------------- guess */

/* Anything, or what a neighbour of the real one in the device's list may have: half of
 * the bits, then, are the real one's. */
static uint32_t guess_rkey(struct raw *raw, uint32_t real)
{
	uint32_t rkey = (uint32_t)raw_random(raw);
	static const uint32_t kept[] = { 0, 0, 0xffff, 0xffff0000 };
	uint32_t keep = kept[raw_random(raw) % (sizeof kept / sizeof *kept)];

	rkey = (rkey & ~keep) | (real & keep);
	return rkey == real ? rkey + 1 : rkey;
}

/* Requests with guessed rkeys, at the addresses that are the real ones: each costs the
 * connection. */
static unsigned guess_some(struct raw *raw, long n, const struct credentials *who,
			   const struct wire_welcome *known)
{
	unsigned refused = 0;

	for (long i = 0; i < n; i++) {
		struct wire_connect connect = { .magic = WIRE_MAGIC, .version = WIRE_VERSION };
		struct raw_conn c;
		if (!raw_connect(raw, &c, &connect)) {
			refused++;
			continue;
		}
		if (who) {
			raw_make_hello(&c, who);
			if (raw_say_hello(&c, who) != WIRE_OK)
				raw_die("kvd doesn't let a user in");
		}
		bool lock = raw_random(raw) % 2;
		uint64_t at = lock ? known->lock_addr + 8 * (raw_random(raw) % known->stripes)
				   : known->table_addr + 8 * (raw_random(raw) % (known->table_bytes / 8));
		attack_must_fail(&c, (unsigned)(raw_random(raw) % ATTACK_OPCODES), at,
			  guess_rkey(raw, lock ? known->lock_rkey : known->table_rkey), "by guessing");
		raw_hang_up(&c);
	}
	return refused;
}

void attack_guess(const char *addr, int argc, char **argv)
{
	long n = atol(argv[0]), processes = argc > 2 ? atol(argv[2]) : 1;
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	/* Somewhere, where nothing is known. */
	struct wire_welcome known = { .table_addr = 0x700000000000, .table_bytes = 1 << 20,
				      .lock_addr = 0x710000000000, .stripes = 1 << 10 };
	struct credentials cred, *who = NULL;

	if (argc > 3) {
		cred = attack_load(argv[3]);
		attack_learn(addr, &cred, &known);
	}
	if (argc > 4) {
		cred = attack_load(argv[4]);
		who = &cred;
	}
	fflush(stdout);
	for (long p = 0; p < processes; p++) {
		if (fork() != 0)
			continue;
		struct raw raw = { .random = seed + (uint64_t)p * 1000003 };
		raw_open(&raw, addr);
		raw.recvs = who ? 2 : 0;
		raw.tolerant = true; /* such are counted as refused */
		unsigned refused = guess_some(&raw, n / processes, who, &known);
		printf("%u guesses, %u refused\n", attack_tries, refused);
		fflush(stdout);
		_exit(0);
	}
	exit(attack_wait_all());
}

/* ------------------------------------------------------------------ revoked */

void attack_revoked(struct raw *raw, const char *victim, const char *other)
{
	struct credentials cred = attack_load(victim), also = attack_load(other);
	struct wire_welcome known;
	struct raw_conn c, next;

	raw_enter(raw, &c, &cred);
	known = c.welcome;
	if (raw_reach(&c, IBV_WR_RDMA_READ, known.table_addr, known.table_rkey, 8))
		raw_die("a right that is given fails");
	printf("ready\n");
	fflush(stdout);
	/* READs go on until they don't; the script removes the user meanwhile and says when. */
	uint64_t end = raw_now_ms() + 60000;
	struct timespec last, t;
	clock_gettime(CLOCK_REALTIME, &last);
	while (!raw_reach(&c, IBV_WR_RDMA_READ, known.table_addr, known.table_rkey, 8)) {
		clock_gettime(CLOCK_REALTIME, &last);
		if (raw_now_ms() > end)
			raw_die("a removed user goes on reading");
		usleep(100);
	}
	/* A device that gets no answer asks again for half a second before it says so. */
	clock_gettime(CLOCK_REALTIME, &t);
	printf("read last at %lld.%09ld, cut off at %lld.%09ld\n", (long long)last.tv_sec,
	       last.tv_nsec, (long long)t.tv_sec, t.tv_nsec);
	/* On the user's queue pair, on one that proved nothing, on that of somebody else. */
	for (unsigned op = 0; op < ATTACK_OPCODES; op++) {
		attack_must_fail(&c, op, known.table_addr, known.table_rkey, "on a queue pair cut off");
		raw_connect_well(raw, &next);
		attack_must_fail(&next, op, known.lock_addr, known.lock_rkey, "after revocation");
		raw_hang_up(&next);
		for (unsigned lock = 0; lock < 2; lock++) {
			raw_enter(raw, &next, &also);
			attack_must_fail(&next, op, lock ? known.lock_addr : known.table_addr,
				  lock ? known.lock_rkey : known.table_rkey,
				  "with a removed user's rkey on another's queue pair");
			raw_hang_up(&next);
		}
	}
	raw_hang_up(&c);
	raw_connect_well(raw, &next);
	raw_make_hello(&next, &cred);
	attack_must_be_denied(&next, &known, "a removed user");
	printf("%u requests\n", attack_tries);
}

/* ------------------------------------------------------------------- across */

/* Two namespaces of one kvd: what is learnt in one is worth nothing in the other. */
void attack_across(struct raw *raw, const char *there, const char *own, const char *victim)
{
	static const int near[] = { 0, 1, -1, 256, -256 };
	struct credentials a = attack_load(own), b = attack_load(victim);
	struct wire_welcome mine, known;
	struct raw other = { .random = 1 };
	struct raw_conn c, theirs;

	raw_open(&other, there);
	raw_enter(&other, &theirs, &b);
	known = theirs.welcome;
	raw_enter(raw, &c, &a);
	mine = c.welcome;
	if (mine.table_rkey == known.table_rkey || mine.lock_rkey == known.lock_rkey)
		raw_die("two namespaces have the same rkeys");
	raw_hang_up(&c);
	for (unsigned op = 0; op < ATTACK_OPCODES; op++)
		for (unsigned lock = 0; lock < 2; lock++)
			for (unsigned i = 0; i < sizeof near / sizeof *near; i++) {
				raw_enter(raw, &c, &a);
				attack_must_fail(&c, op, lock ? known.lock_addr : known.table_addr,
					  (lock ? known.lock_rkey : known.table_rkey) + (uint32_t)near[i],
					  "from another namespace");
				raw_hang_up(&c);
			}
	/* With one's own rkey at the other's addresses. */
	for (unsigned op = 0; op < ATTACK_OPCODES; op++) {
		raw_enter(raw, &c, &a);
		attack_must_fail(&c, op, known.table_addr, mine.table_rkey, "with the rkey of its own table");
		raw_hang_up(&c);
	}
	/* At the other's door: as itself; there with a proof that is good, but for here, as if
	 * the connection's namespace had been swapped on the way. */
	raw_connect_well(&other, &c);
	raw_make_hello(&c, &a);
	attack_must_be_denied(&c, &known, "a user of another namespace");
	raw_connect_well(&other, &c);
	c.connect.space = raw->space;
	raw_make_hello(&c, &b);
	attack_must_be_denied(&c, &known, "a proof for another namespace");
	raw_connect_well(raw, &c);
	c.connect.space = other.space;
	raw_make_hello(&c, &b);
	attack_must_be_denied(&c, &known, "another namespace's user, and a proof for there");
	raw_hang_up(&theirs);
	raw_close(&other);
	printf("%u tries\n", attack_tries);
}

/* -------------------------------------------------------------------- rails */

/* That of its own device is right, and is READ. */
static void enter_rail(struct raw *raw, struct raw_conn *c)
{
	const struct wire_welcome *w = &c->welcome;

	raw_enter(raw, c, NULL);
	if (raw_reach(c, IBV_WR_RDMA_READ, w->table_addr, w->table_rkey, 8) != IBV_WC_SUCCESS)
		raw_die("a right that is given fails");
}

static void try_foreign(struct raw *raw, uint64_t addr, uint32_t rkey)
{
	struct raw_conn c;

	for (unsigned op = 0; op < ATTACK_OPCODES; op++) {
		enter_rail(raw, &c);
		attack_must_fail(&c, op, addr, rkey, "with a key of the other device");
		raw_hang_up(&c);
	}
}

/* What is learnt by one device is worth nothing by the other, and the lock words are the first's. */
void attack_rails(struct raw *raw, const char *there)
{
	struct raw other = { .random = 1 };
	struct raw_conn a, b;
	struct wire_welcome first, second;

	raw_open(&other, there);
	enter_rail(raw, &a);
	enter_rail(&other, &b);
	first = a.welcome;
	second = b.welcome;
	if (raw->ctx->device == other.ctx->device)
		raw_die("both addresses are on one device: it proves nothing");
	if (first.table_rkey == second.table_rkey || first.table_addr != second.table_addr)
		raw_die("the two devices have one key, or two tables");
	if (!first.lock_rkey || second.lock_rkey)
		raw_die("the key of the locks is the first device's to give, and no other's");
	raw_hang_up(&a);
	raw_hang_up(&b);
	try_foreign(raw, second.table_addr, second.table_rkey);
	try_foreign(&other, first.table_addr, first.table_rkey);
	try_foreign(&other, first.lock_addr, first.lock_rkey);
	try_foreign(&other, first.lock_addr, second.table_rkey);
	raw_close(&other);
	printf("%u tries\n", attack_tries);
}

void attack_unlock(struct raw *raw, const char *name, const char *key)
{
	bool open = !strcmp(name, "-");
	struct credentials who;
	struct raw_conn c;
	uint64_t word;

	if (!open)
		who = attack_load(name);
	raw_enter(raw, &c, open ? NULL : &who);
	uint64_t stripe = layout_stripe(hash_key(c.welcome.hash_seed, key, strlen(key)).b,
					c.welcome.stripes);
	uint64_t addr = c.welcome.lock_addr + 8 * stripe;
	if (raw_reach(&c, IBV_WR_RDMA_READ, addr, c.welcome.lock_rkey, 8) != IBV_WC_SUCCESS)
		raw_die("can't READ the lock word");
	memcpy(&word, raw->reach, sizeof word);
	if (!word)
		raw_die("nobody holds the lock");
	struct ibv_sge sge = { (uintptr_t)raw->reach, 8, raw->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
				  .opcode = IBV_WR_ATOMIC_CMP_AND_SWP }, *bad;
	struct ibv_wc wc;
	wr.wr.atomic.remote_addr = addr;
	wr.wr.atomic.rkey = c.welcome.lock_rkey;
	wr.wr.atomic.compare_add = word;
	wr.wr.atomic.swap = 0;
	if (ibv_post_send(c.qp, &wr, &bad) || !raw_completion(&c, &wc, 20000) ||
	    wc.status != IBV_WC_SUCCESS || memcmp(raw->reach, &word, sizeof word))
		raw_die("the lock word can't be changed");
	printf("the lock was taken away\n");
	raw_hang_up(&c);
}

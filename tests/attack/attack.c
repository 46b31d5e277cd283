/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * attack -- tries to get at kvd's memory on bare verbs.
 *
 *	attack ADDR:PORT snapshot CREDENTIALS FILE	table and locks, by one who may READ
 *	attack ADDR:PORT matrix VICTIM READER		every request, region, phase and rkey
 *	attack ADDR:PORT holdings VICTIM READER		what the software device hands over
 *	attack ADDR:PORT replay VICTIM			recorded and borrowed handshakes
 *	attack ADDR:PORT guess N SEED PROCESSES [VICTIM [WHO]]
 *							rkeys out of the air, at the victim's
 *							addresses, as nobody or as WHO
 *	attack ADDR:PORT revoked VICTIM OTHER		until VICTIM is removed, and after
 *	attack ADDR:PORT/A across ADDR:PORT/B A B	a user of A: with B's rkeys on A's queue
 *							pairs, and at B's door
 *	attack ADDR:PORT crowd N PROCESSES WHO FILE	N connections, every other one silent,
 *							until FILE is there; WHO -: all silent
 *	attack ADDR:PORT greedy WHO KEY			more changes of a locked key than credits
 *	attack ADDR:PORT mute WHO			many requests, no room for the replies
 *	attack ADDR:PORT flood N SEED PROCESSES WHO [RATE]
 *							messages that are malformed, or come
 *							when they must not; RATE: so many a
 *							second at the most
 *
 * VICTIM, READER, OTHER are files of credentials: the attacker has a victim's rkeys (by
 * asking kvd in his name) but not, where it matters, his secret.  Exits with 0 if
 * nothing worked that must not; 1 with a sentence otherwise.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/attack/holdings.h"
#include "tests/attack/raw_peer.h"

#define PATTERN 0xa5

static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE,
					      IBV_WR_ATOMIC_CMP_AND_SWP,
					      IBV_WR_ATOMIC_FETCH_AND_ADD };
static const char *const opcode_names[] = { "READ", "WRITE", "CAS", "FADD" };
#define OPCODES 4u

static unsigned tries;

static struct credentials load(const char *path)
{
	struct credentials c;
	struct err err;

	if (credentials_load(path, &c, &err))
		raw_die(err.text);
	return c;
}

/*
 * One request that must fail, without a byte changed here.  (That none changed there is
 * for the snapshots to say.)
 */
static void must_fail(struct raw_conn *c, unsigned op, uint64_t addr, uint32_t rkey,
		      const char *when)
{
	uint8_t *reach = c->raw->reach;

	memset(reach, PATTERN, 8);
	enum ibv_wc_status status = raw_reach(c, opcodes[op], addr, rkey, 8);
	tries++;
	if (status == IBV_WC_SUCCESS) {
		fprintf(stderr, "attack: %s at 0x%llx with rkey 0x%x succeeds %s\n",
			opcode_names[op], (unsigned long long)addr, rkey, when);
		exit(1);
	}
	for (unsigned i = 0; i < 8; i++)
		if (reach[i] != PATTERN) {
			fprintf(stderr, "attack: a failed %s brought bytes %s\n", opcode_names[op],
				when);
			exit(1);
		}
}

/* The processes that this one made: 0 if all went well. */
static int wait_all(void)
{
	int status, bad = 0;

	while (wait(&status) > 0)
		bad |= status != 0;
	return bad;
}

/* ------------------------------------------------------------------ snapshot */

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

static void snapshot(struct raw *raw, const char *who, const char *path)
{
	struct credentials cred = load(who);
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

/* -------------------------------------------------------------------- matrix */

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
	if (opcodes[op] == IBV_WR_RDMA_READ)
		return phase == READER || phase == WRITER;
	return phase == WRITER && lock && opcodes[op] != IBV_WR_RDMA_WRITE;
}

static void try_rkey(struct raw *raw, const struct known *k, enum phase phase, unsigned op,
		     bool lock, uint64_t offset, uint32_t rkey)
{
	struct raw_conn c;

	enter_phase(raw, &c, k, phase);
	must_fail(&c, op, (lock ? k->welcome.lock_addr : k->welcome.table_addr) + offset, rkey,
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
		for (unsigned op = 0; op < OPCODES; op++)
			for (unsigned i = 0; i < nears; i++) {
				if (is_given(phase, op, lock, i == 0))
					continue;
				try_rkey(raw, k, phase, op, lock, 64 * 8, rkey + (uint32_t)near[i]);
			}
	}
	/* The other region's rkey, and over the ends of both. */
	for (unsigned op = 0; op < OPCODES; op++) {
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

static void matrix(struct raw *raw, const char *victim, const char *reader)
{
	struct known k = { .victim = load(victim), .reader = load(reader) };

	learn(raw, &k);
	for (int phase = 0; phase < PHASES; phase++)
		try_phase(raw, &k, (enum phase)phase);
	printf("%u requests\n", tries);
}

/* ------------------------------------------------------------------ holdings */

/* What another process learns, so that this one holds nothing of it. */
static void learn_elsewhere(const char *addr, const struct credentials *who,
			    struct wire_welcome *known)
{
	int ends[2];

	fflush(stdout);
	if (pipe(ends))
		raw_die("no pipe");
	if (fork() == 0) {
		struct raw raw = { .random = 1 };
		struct raw_conn c;
		raw_open(&raw, addr);
		raw_enter(&raw, &c, who);
		_exit(write(ends[1], &c.welcome, sizeof c.welcome) != sizeof c.welcome);
	}
	close(ends[1]);
	if (read(ends[0], known, sizeof *known) != sizeof *known || wait_all())
		raw_die("nothing is learnt");
	close(ends[0]);
}

static void holdings(const char *addr, const char *victim, const char *reader)
{
	struct credentials writer = load(victim), who = load(reader);
	struct raw raw = { .random = 1 };
	struct wire_welcome known;

	learn_elsewhere(addr, &writer, &known);
	raw_open(&raw, addr);
	holdings_try(&raw, &who, &writer, &known);
	raw_close(&raw);
}

/* -------------------------------------------------------------------- replay */

static void must_be_denied(struct raw_conn *c, const struct wire_welcome *known, const char *what)
{
	int status = raw_say_hello(c, NULL);

	if (status == WIRE_OK) {
		fprintf(stderr, "attack: %s lets in\n", what);
		exit(1);
	}
	if (status != WIRE_EDENIED && status != -1)
		raw_die("a hello is answered by something odd");
	must_fail(c, 0, known->table_addr, known->table_rkey, what);
	raw_hang_up(c);
	tries++;
}

static void borrow_hello(struct raw_conn *to, const struct raw_conn *from)
{
	memcpy(to->hello, from->hello, sizeof to->hello);
	to->hello_bytes = from->hello_bytes;
}

static void replay(struct raw *raw, const char *victim)
{
	struct credentials cred = load(victim), wrong = cred;
	struct raw_conn good, c;

	/* What somebody on the wire recorded: the private data and the hello. */
	raw_enter(raw, &good, &cred);
	if (!raw_connect(raw, &c, &good.connect))
		raw_die("kvd doesn't accept");
	borrow_hello(&c, &good);
	must_be_denied(&c, &good.welcome, "a replayed handshake");

	/* A proof that the victim gave on another connection, the nonces being passed on
	 * between: its queue pairs are not these. */
	raw_connect_well(raw, &c);
	uint32_t own = c.server_qpn;
	c.server_qpn = own + 1;
	raw_make_hello(&c, &cred);
	c.server_qpn = own;
	must_be_denied(&c, &good.welcome, "a proof for another queue pair");

	/* A proof that was given to another server. */
	raw_connect_well(raw, &c);
	wrong.server.bytes[0] ^= 1;
	raw_make_hello(&c, &wrong);
	must_be_denied(&c, &good.welcome, "a proof for another server");

	/* Another's name, no name, a name that is too long, half a proof. */
	raw_connect_well(raw, &c);
	raw_make_hello(&c, &cred);
	c.hello[sizeof(struct wire_request)] ^= 1;
	must_be_denied(&c, &good.welcome, "another name");
	raw_connect_well(raw, &c);
	raw_make_hello(&c, NULL);
	must_be_denied(&c, &good.welcome, "a hello of nobody");
	raw_connect_well(raw, &c);
	raw_make_hello(&c, &cred);
	((struct wire_request *)(void *)c.hello)->value_bytes -= 32;
	c.hello_bytes -= 32;
	must_be_denied(&c, &good.welcome, "half a proof");

	/* A second hello, though a good one. */
	if (raw_say_hello(&good, NULL) != -1)
		raw_die("a second hello is answered");
	raw_hang_up(&good);
	printf("%u handshakes\n", tries);
}

/* --------------------------------------------------------------------- guess */

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
		must_fail(&c, (unsigned)(raw_random(raw) % OPCODES), at,
			  guess_rkey(raw, lock ? known->lock_rkey : known->table_rkey), "by guessing");
		raw_hang_up(&c);
	}
	return refused;
}

static void guess(const char *addr, int argc, char **argv)
{
	long n = atol(argv[0]), processes = argc > 2 ? atol(argv[2]) : 1;
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	/* Somewhere, where nothing is known. */
	struct wire_welcome known = { .table_addr = 0x700000000000, .table_bytes = 1 << 20,
				      .lock_addr = 0x710000000000, .stripes = 1 << 10 };
	struct credentials cred, *who = NULL;

	if (argc > 3) {
		cred = load(argv[3]);
		learn_elsewhere(addr, &cred, &known);
	}
	if (argc > 4) {
		cred = load(argv[4]);
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
		printf("%u guesses, %u refused\n", tries, refused);
		fflush(stdout);
		_exit(0);
	}
	exit(wait_all());
}

/* ------------------------------------------------------------------- revoked */

static void revoked(struct raw *raw, const char *victim, const char *other)
{
	struct credentials cred = load(victim), also = load(other);
	struct wire_welcome known;
	struct raw_conn c, next;

	raw_enter(raw, &c, &cred);
	known = c.welcome;
	if (raw_reach(&c, IBV_WR_RDMA_READ, known.table_addr, known.table_rkey, 8))
		raw_die("a right that is given fails");
	printf("ready\n");
	fflush(stdout);
	/* READs go on until they don't; the script removes him meanwhile and says when. */
	uint64_t end = raw_now_ms() + 60000;
	while (!raw_reach(&c, IBV_WR_RDMA_READ, known.table_addr, known.table_rkey, 8)) {
		if (raw_now_ms() > end)
			raw_die("a removed user goes on reading");
		usleep(100);
	}
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	printf("cut off at %lld.%09ld\n", (long long)t.tv_sec, t.tv_nsec);
	/* On his queue pair, on one that proved nothing, on that of somebody else. */
	for (unsigned op = 0; op < OPCODES; op++) {
		must_fail(&c, op, known.table_addr, known.table_rkey, "on a queue pair cut off");
		raw_connect_well(raw, &next);
		must_fail(&next, op, known.lock_addr, known.lock_rkey, "after revocation");
		raw_hang_up(&next);
		for (unsigned lock = 0; lock < 2; lock++) {
			raw_enter(raw, &next, &also);
			must_fail(&next, op, lock ? known.lock_addr : known.table_addr,
				  lock ? known.lock_rkey : known.table_rkey,
				  "with a removed user's rkey on another's queue pair");
			raw_hang_up(&next);
		}
	}
	raw_hang_up(&c);
	raw_connect_well(raw, &next);
	raw_make_hello(&next, &cred);
	must_be_denied(&next, &known, "a removed user");
	printf("%u requests\n", tries);
}

/* -------------------------------------------------------------------- across */

/* Two namespaces of one kvd: what is learnt in one is worth nothing in the other. */
static void across(struct raw *raw, const char *there, const char *own, const char *victim)
{
	static const int near[] = { 0, 1, -1, 256, -256 };
	struct credentials a = load(own), b = load(victim);
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
	for (unsigned op = 0; op < OPCODES; op++)
		for (unsigned lock = 0; lock < 2; lock++)
			for (unsigned i = 0; i < sizeof near / sizeof *near; i++) {
				raw_enter(raw, &c, &a);
				must_fail(&c, op, lock ? known.lock_addr : known.table_addr,
					  (lock ? known.lock_rkey : known.table_rkey) + (uint32_t)near[i],
					  "from another namespace");
				raw_hang_up(&c);
			}
	/* With one's own rkey at the other's addresses. */
	for (unsigned op = 0; op < OPCODES; op++) {
		raw_enter(raw, &c, &a);
		must_fail(&c, op, known.table_addr, mine.table_rkey, "with the rkey of its own table");
		raw_hang_up(&c);
	}
	/* At the other's door: as himself; there with a proof that is good, but for here, as if
	 * the connection's namespace had been swapped on the way. */
	raw_connect_well(&other, &c);
	raw_make_hello(&c, &a);
	must_be_denied(&c, &known, "a user of another namespace");
	raw_connect_well(&other, &c);
	c.connect.space = raw->space;
	raw_make_hello(&c, &b);
	must_be_denied(&c, &known, "a proof for another namespace");
	raw_connect_well(raw, &c);
	c.connect.space = other.space;
	raw_make_hello(&c, &b);
	must_be_denied(&c, &known, "another namespace's user, and a proof for there");
	raw_hang_up(&theirs);
	raw_close(&other);
	printf("%u tries\n", tries);
}

/* --------------------------------------------------------------------- crowd */

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

static void crowd(const char *addr, char **argv)
{
	long n = atol(argv[0]), processes = atol(argv[1]);
	bool silent = !strcmp(argv[2], "-");
	struct credentials cred;

	if (!silent)
		cred = load(argv[2]);
	if (n / processes > CROWD_MAX)
		raw_die("too many for a process");
	fflush(stdout);
	for (long p = 0; p < processes; p++)
		if (fork() == 0)
			crowd_part(addr, n / processes, silent ? NULL : &cred, argv[3]);
	exit(wait_all());
}

/* --------------------------------------------------------------------- flood */

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

static void flood_part(const char *addr, long n, uint64_t seed, const struct credentials *who,
		       long pause_us)
{
	struct timespec pause = { pause_us / 1000000, pause_us % 1000000 * 1000 };
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
		if (pause_us)
			nanosleep(&pause, NULL);
	}
	printf("%ld messages, %ld connections ended for them\n", n, ended);
	fflush(stdout);
	_exit(0);
}

static void flood(const char *addr, char **argv)
{
	long n = atol(argv[0]), processes = atol(argv[2]), rate = argv[4] ? atol(argv[4]) : 0;
	struct credentials cred = load(argv[3]);

	fflush(stdout);
	for (long p = 0; p < processes; p++)
		if (fork() == 0)
			flood_part(addr, n / processes, strtoull(argv[1], NULL, 10) + (uint64_t)p * 7919,
				   &cred, rate > 0 ? 1000000 * processes / rate : 0);
	exit(wait_all());
}

/* -------------------------------------------------------------- greedy, mute */

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

static void greedy(struct raw *raw, const char *name, const char *key)
{
	struct wire_request q = { .op = WIRE_PUT, .key_bytes = (uint16_t)strlen(key), .value_bytes = 5 };
	struct credentials who = load(name);
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

static void mute(struct raw *raw, const char *name)
{
	struct wire_request q = { .op = WIRE_PING };
	struct credentials who = load(name);
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

int main(int argc, char **argv)
{
	struct raw raw = { .random = 1 };

	if (argc < 4)
		return 2;
	alarm(14400);
	if (!strcmp(argv[2], "guess"))
		guess(argv[1], argc - 3, argv + 3);
	if (!strcmp(argv[2], "crowd") && argc == 7)
		crowd(argv[1], argv + 3);
	if (!strcmp(argv[2], "flood") && (argc == 7 || argc == 8))
		flood(argv[1], argv + 3);
	if (!strcmp(argv[2], "holdings") && argc == 5) {
		holdings(argv[1], argv[3], argv[4]);
		return 0;
	}
	raw_open(&raw, argv[1]);
	if (!strcmp(argv[2], "snapshot") && argc == 5)
		snapshot(&raw, argv[3], argv[4]);
	else if (!strcmp(argv[2], "matrix") && argc == 5)
		matrix(&raw, argv[3], argv[4]);
	else if (!strcmp(argv[2], "replay") && argc == 4)
		replay(&raw, argv[3]);
	else if (!strcmp(argv[2], "greedy") && argc == 5)
		greedy(&raw, argv[3], argv[4]);
	else if (!strcmp(argv[2], "mute") && argc == 4)
		mute(&raw, argv[3]);
	else if (!strcmp(argv[2], "across") && argc == 6)
		across(&raw, argv[3], argv[4], argv[5]);
	else if (!strcmp(argv[2], "revoked") && argc == 5)
		revoked(&raw, argv[3], argv[4]);
	else
		return 2;
	raw_close(&raw);
	return 0;
}

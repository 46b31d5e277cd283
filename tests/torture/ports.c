/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ports ADDR,ADDR SESSIONS ROUNDS LIMIT_MS CUT HEAL
 *
 * Sessions of one client, a thread for each: long values from and to registered buffers, each
 * READ back whole, by others too and never an older one than before; a counter that all add to, and
 * one that they change under its lock.  ROUNDS times a port is cut under that by the shell's
 * command CUT, which gets the round's number, and later mended by HEAL.  No call fails, none takes
 * LIMIT_MS longer than the longest one before the cut (0: that is told, not judged), and in the end
 * the counters are exactly what was acknowledged.  A call fails after 20 s, or 10 limits if that is
 * longer: a machine so busy that it takes that long is found busy by what came before the cut.
 */
#include <pthread.h>

#include "tests/torture/kit.h"

#define SESSIONS_MAX 16u
#define WORDS (40000u) /* of a value: two parts of a GET */
#define PHASE_MS 1500u
#define CALL_MS_MIN 20000u
#define CALL_LIMITS 10u
#define BUSY_PART 5u /* of the limit: a machine where calls take as long without a cut is busy */
#define LOCK_EVERY 8u
#define OPS_MIN 2u /* of each session in a phase */

enum phase { BEFORE, CUT, PHASES };

struct hand {
	unsigned number;
	pthread_t thread;
	kvd_session *session;
	uint64_t *to, *from; /* in the client's buffer */
	uint64_t seen[SESSIONS_MAX]; /* of each one's value: its number */
	uint64_t added, locked, lost;
	_Atomic uint64_t ops, longest_ns[PHASES];
	const char *_Atomic longest[PHASES];
};

const char *server;
static unsigned hands_count;
static struct hand hands[SESSIONS_MAX];
static _Atomic unsigned phase;
static _Atomic bool is_over;

/* ------------------------------------------------------------------ operations */

static void ended(struct hand *h, const char *what, uint64_t begun_ns)
{
	uint64_t ns = now_ns() - begun_ns;
	unsigned now = phase;

	if (ns > h->longest_ns[now]) {
		h->longest_ns[now] = ns;
		h->longest[now] = what;
	}
	h->ops++;
}

static size_t name_key(char *key, size_t room, unsigned number)
{
	return (size_t)snprintf(key, room, "value %u", number);
}

static void put_value(struct hand *h)
{
	char key[32];
	size_t key_bytes = name_key(key, sizeof key, h->number);
	uint64_t begun = now_ns(), number = ++h->seen[h->number];

	for (unsigned i = 0; i < WORDS; i++)
		h->from[i] = number;
	expect_result(h->session, kvd_put(h->session, key, key_bytes, h->from, WORDS * 8, NULL),
		      KVD_OK, "put");
	ended(h, "PUT", begun);
}

static void get_value(struct hand *h, unsigned of)
{
	char key[32];
	size_t key_bytes = name_key(key, sizeof key, of), bytes;
	uint64_t begun = now_ns();
	int rc = kvd_get(h->session, key, key_bytes, h->to, WORDS * 8, &bytes, NULL);

	ended(h, "GET", begun);
	if (rc == KVD_NOT_FOUND && !h->seen[of])
		return;
	expect_result(h->session, rc, KVD_OK, "get");
	check(bytes == WORDS * 8, "a value of another length");
	for (unsigned i = 1; i < WORDS; i++)
		check(h->to[i] == h->to[0], "a value of two PUTs");
	check(h->to[0] >= h->seen[of] && (of != h->number || h->to[0] == h->seen[of]),
	      "an older value than before");
	h->seen[of] = h->to[0];
}

static void add(struct hand *h)
{
	static const int64_t none;
	uint64_t begun = now_ns();
	int rc = kvd_incr(h->session, "sum", 3, 1, &none, NULL, NULL);

	ended(h, "add", begun);
	expect_result(h->session, rc, KVD_OK, "incr");
	h->added++;
}

/* Who loses the connection loses the lock, and then changed nothing. */
static bool is_lost(int rc)
{
	return rc == KVD_ELOST || rc == KVD_ECONNECT || rc == KVD_ETIMEDOUT;
}

static void add_locked(struct hand *h)
{
	char text[32] = "";
	size_t bytes = 0;
	kvd_lock_t *lock;
	int rc = kvd_lock_get(h->session, "locked", 6, -1, text, sizeof text - 1, &bytes, NULL, &lock);

	if (is_lost(rc)) {
		h->lost++;
		return;
	}
	if (rc != KVD_NOT_FOUND)
		expect_result(h->session, rc, KVD_OK, "lock");
	text[rc == KVD_OK ? bytes : 0] = '\0';
	int n = snprintf(text, sizeof text, "%llu", strtoull(text, NULL, 10) + 1);
	rc = kvd_locked_put(lock, "locked", 6, text, (size_t)n, NULL);
	if (rc == KVD_OK)
		h->locked++;
	else if (rc == KVD_ELOST)
		h->lost++;
	else
		expect_result(h->session, rc, KVD_OK, "put under the lock");
	rc = kvd_unlock(&lock);
	if (!is_lost(rc))
		expect_result(h->session, rc, KVD_OK, "unlock");
}

static void *work(void *arg)
{
	struct hand *h = arg;

	for (unsigned round = 0; !is_over; round++) {
		put_value(h);
		get_value(h, h->number);
		get_value(h, (h->number + round) % hands_count);
		add(h);
		if (round % LOCK_EVERY == 0)
			add_locked(h);
	}
	return NULL;
}

/* ---------------------------------------------------------------------- rounds */

static void run_command(const char *command, unsigned round)
{
	char text[1024];

	check((size_t)snprintf(text, sizeof text, "set -- %u; %s", round, command) < sizeof text,
	      "a command is too long");
	if (system(text) != 0)
		die("a command failed", text);
}

/* Whose call took longest. */
static const struct hand *slowest(enum phase of)
{
	const struct hand *h = hands;

	for (unsigned i = 1; i < hands_count; i++)
		h = hands[i].longest_ns[of] > h->longest_ns[of] ? &hands[i] : h;
	return h;
}

/* So long, and until each has done something. */
static void let_run(enum phase next)
{
	uint64_t ops[SESSIONS_MAX];

	for (unsigned i = 0; i < hands_count; i++) {
		hands[i].longest_ns[next] = 0;
		ops[i] = hands[i].ops;
	}
	phase = next;
	rest_ms(PHASE_MS);
	for (unsigned i = 0; i < hands_count; i++)
		for (uint64_t end = now_ns() + PATIENCE_NS; hands[i].ops < ops[i] + OPS_MIN; rest_ms(1))
			check(now_ns() < end, "a session that does nothing any more");
}

enum verdict { GOOD, LATE, BUSY };

static enum verdict play_round(unsigned round, uint64_t limit_ms, const char *cut, const char *heal)
{
	uint64_t before, with;

	let_run(BEFORE);
	before = slowest(BEFORE)->longest_ns[BEFORE] / 1000000;
	run_command(cut, round);
	let_run(CUT);
	with = slowest(CUT)->longest_ns[CUT] / 1000000;
	run_command(heal, round);
	printf("ports: round %u: the longest call took %llu ms, and %llu ms with the port cut (%s of session "
	       "%u)\n", round, (unsigned long long)before, (unsigned long long)with,
	       slowest(CUT)->longest[CUT], slowest(CUT)->number);
	fflush(stdout);
	if (!limit_ms || with <= before + limit_ms)
		return GOOD;
	return before > limit_ms / BUSY_PART ? BUSY : LATE;
}

/* One that is late on a machine that was busy before says nothing, and is done again, so often. */
static bool play(unsigned rounds, uint64_t limit_ms, const char *cut, const char *heal)
{
	unsigned good = 0, again = rounds;
	bool is_good = true;

	for (unsigned round = 1; good < rounds; round++) {
		enum verdict v = play_round(round, limit_ms, cut, heal);
		if (v == BUSY && again--)
			continue;
		is_good &= v == GOOD;
		good++;
	}
	return is_good;
}

/* ------------------------------------------------------------------------ main */

static void begin(struct hand *h, unsigned number, kvd_client *client)
{
	void *memory;
	kvd_buffer *buffer;

	h->number = number;
	if (kvd_session_new(client, &h->session) < 0)
		die("connect", kvd_client_error(client));
	/* The first ones are registered before there is a session by the other port. */
	if (kvd_buffer_alloc(client, 2 * WORDS * 8, &memory, &buffer) < 0)
		die("buffer", kvd_client_error(client));
	h->to = memory;
	h->from = h->to + WORDS;
}

static uint64_t number_at(kvd_session *s, const char *key)
{
	char text[32];
	size_t bytes;

	expect_result(s, kvd_get(s, key, strlen(key), text, sizeof text - 1, &bytes, NULL), KVD_OK, key);
	text[bytes] = '\0';
	return strtoull(text, NULL, 10);
}

/* Sessions that were at a port that was cut. */
static unsigned finish(void)
{
	uint64_t added = 0, locked = 0, lost = 0, ops = 0;
	unsigned moved = 0;

	is_over = true;
	for (unsigned i = 0; i < hands_count; i++) {
		struct kvd_counters counters;

		pthread_join(hands[i].thread, NULL);
		kvd_session_counters(hands[i].session, &counters);
		moved += counters.reconnects != 0;
		added += hands[i].added;
		locked += hands[i].locked;
		lost += hands[i].lost;
		ops += hands[i].ops;
	}
	uint64_t sum = number_at(hands[0].session, "sum");
	uint64_t under_lock = number_at(hands[0].session, "locked");
	printf("ports: %llu operations; %llu added, and the sum is %llu; %llu under the lock, and that "
	       "is %llu; %llu locks lost; %u of %u sessions connected again\n", (unsigned long long)ops,
	       (unsigned long long)added, (unsigned long long)sum, (unsigned long long)locked,
	       (unsigned long long)under_lock, (unsigned long long)lost, moved, hands_count);
	check(sum == added, "the sum is not what was acknowledged");
	check(under_lock == locked, "the number under the lock is not what was acknowledged");
	return moved;
}

int main(int argc, char **argv)
{
	struct kvd_options options = { .size = sizeof options, .timeout_ms = CALL_MS_MIN };
	kvd_client *client;

	if (argc != 7) {
		fprintf(stderr, "usage: ports ADDR,ADDR SESSIONS ROUNDS LIMIT_MS CUT HEAL\n");
		return 2;
	}
	server = argv[1];
	hands_count = (unsigned)atoi(argv[2]);
	unsigned rounds = (unsigned)atoi(argv[3]), limit_ms = (unsigned)atoi(argv[4]);
	if (!hands_count || hands_count > SESSIONS_MAX || !rounds)
		die("arguments", "out of range");
	if (limit_ms > CALL_MS_MIN / CALL_LIMITS)
		options.timeout_ms = CALL_LIMITS * limit_ms;
	if (kvd_client_new(server, &options, &client) < 0)
		die("client", kvd_client_error(client));
	for (unsigned i = 0; i < hands_count; i++)
		begin(&hands[i], i, client);
	kvd_del(hands[0].session, "sum", 3); /* an earlier run's */
	kvd_del(hands[0].session, "locked", 6);
	for (unsigned i = 0; i < hands_count; i++)
		if (pthread_create(&hands[i].thread, NULL, work, &hands[i]))
			die("thread", "not started");
	bool is_good = play(rounds, limit_ms, argv[5], argv[6]);
	reached("sessions whose port was cut", finish(), 1);
	if (!is_good)
		die("a cut", "a call took too long");
	return 0;
}

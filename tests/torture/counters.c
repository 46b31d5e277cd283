/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * counters ADDR CLIENTS INCREMENTS COUNTERS KILLS [SEED [UNTIL]]
 *
 * Client processes add one to random counters under their locks, INCREMENTS in all;
 * KILLS times one of them is killed (SIGKILL) at a random moment and another takes
 * its place, which first asks for the fate of its predecessor's last change.  At the
 * end the sum of the counters must be exactly what was acknowledged.  Where the work is
 * done before all kills, or before there is a file UNTIL, there is more of it.  ADDR may be
 * several of one kvd's, with + between, to each of which a client goes in turn.
 */
#include "tests/torture/kit.h"

#define CLIENTS_MAX 64
#define STILL_SECONDS_MAX 60 /* without one increment: it hangs */

/* Shared with a client, and with its successor. */
struct slot {
	/* Increments acknowledged, times two; plus one while one is under way. */
	volatile uint64_t state;
	struct kvd_receipt receipt;
	volatile uint64_t want;
};

const char *server;
static struct slot *slots;
static volatile bool *over; /* all is done; until then there may be more to do */
static unsigned counters;
static const char *until; /* NULL: the work is what it is */

/* The nth address of those that there are, and round. */
static const char *address(unsigned nth)
{
	static char text[256];
	char *word = text;
	unsigned count = 1;

	snprintf(text, sizeof text, "%s", server);
	for (const char *at = text; *at; at++)
		count += *at == '+';
	for (nth %= count; nth; nth--)
		word = strchr(word, '+') + 1;
	word[strcspn(word, "+")] = '\0';
	return word;
}

/* With some patience: a device that fails may do so here. */
static kvd_session *connect_patiently(kvd_client **client, unsigned nth)
{
	struct kvd_options options = { .size = sizeof options, .timeout_ms = 20000 };
	kvd_session *session = NULL;
	int rc = kvd_client_new(address(nth), &options, client);

	for (int tries = 0; tries < 20 && !rc && !session; tries++)
		if (kvd_session_new(*client, &session) < 0)
			rest_ms(1);
	if (!session)
		die("connect", kvd_client_error(*client));
	return session;
}

/* What the predecessor may have left open. */
static void settle(kvd_session *session, struct slot *slot)
{
	struct kvd_receipt receipt = slot->receipt;
	int result = 0, rc;

	if (!(slot->state & 1))
		return;
	if (receipt.request) {
		rc = kvd_fate(session, &receipt, &result, NULL);
		if (rc < 0)
			die("fate", kvd_session_error(session));
		/* One store: this one may be killed, too. */
		slot->state += rc == KVD_OK && result == KVD_OK ? 1 : -1ull;
	} else {
		slot->state &= ~1ull;
	}
}

/* Trouble of a device that fails: the connection is lost, and what was locked. */
static bool is_lost(int rc)
{
	return rc == KVD_ECONNECT || rc == KVD_ETIMEDOUT || rc == KVD_ELOST;
}

static void increment(kvd_session *session, struct slot *slot)
{
	char key[32], text[32] = "";
	size_t bytes;
	kvd_lock_t *lock;
	int n = snprintf(key, sizeof key, "counter %u", (unsigned)rand() % counters);
	int rc = kvd_lock_get(session, key, (size_t)n, -1, text, sizeof text - 1, &bytes, NULL,
			      &lock);

	if (is_lost(rc))
		return;
	if (rc < 0)
		die("lock", kvd_session_error(session));
	if (rc == KVD_OK)
		text[bytes] = '\0';
	int m = snprintf(text, sizeof text, "%llu",
			 rc == KVD_OK ? strtoull(text, NULL, 10) + 1 : 1ull);
	slot->receipt.request = 0;
	slot->state |= 1;
	rc = kvd_locked_put(lock, key, (size_t)n, text, (size_t)m, NULL);
	if (rc == KVD_ELOST)
		slot->state &= ~1ull; /* it has no effect, and never will */
	else if (rc == KVD_OK)
		slot->state += 1; /* acknowledged, and nothing under way, in one store */
	else
		die("put", kvd_session_error(session));
	rc = kvd_unlock(&lock);
	if (rc != KVD_OK && !is_lost(rc))
		die("unlock", kvd_session_error(session));
}

static void client_main(struct slot *slot, unsigned seed)
{
	kvd_client *client;
	kvd_session *session = connect_patiently(&client, seed);

	srand(seed);
	settle(session, slot);
	kvd_session_receipt(session, &slot->receipt);
	while (!*over) {
		if (slot->state / 2 < slot->want)
			increment(session, slot);
		else
			rest_ms(1);
	}
	kvd_session_delete(&session);
	kvd_client_delete(&client);
	_exit(0);
}

static pid_t start_client(unsigned i, unsigned seed)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork", strerror(errno));
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		client_main(&slots[i], seed);
	}
	return pid;
}

static uint64_t sum_counters(void)
{
	kvd_client *client;
	kvd_session *session = connect_patiently(&client, 0);
	uint64_t sum = 0;

	for (unsigned i = 0; i < counters; i++) {
		char key[32], text[32];
		size_t bytes;
		int n = snprintf(key, sizeof key, "counter %u", i);
		int rc = kvd_get(session, key, (size_t)n, text, sizeof text - 1, &bytes, NULL);
		if (rc < 0)
			die("get", kvd_session_error(session));
		if (rc == KVD_OK) {
			text[bytes] = '\0';
			sum += strtoull(text, NULL, 10);
		}
	}
	kvd_session_delete(&session);
	kvd_client_delete(&client);
	return sum;
}

static uint64_t acknowledged(unsigned clients)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < clients; i++)
		n += slots[i].state / 2;
	return n;
}

/* However slow the machine is, it goes on; what does not go on hangs. */
static void check_progress(unsigned clients)
{
	static uint64_t last;
	static time_t since;
	uint64_t done = acknowledged(clients);

	if (done != last || !since) {
		last = done;
		since = time(NULL);
	}
	if (time(NULL) - since <= STILL_SECONDS_MAX)
		return;
	fprintf(stderr, "counters: %llu acknowledged, and no more for %d s\n",
		(unsigned long long)done, STILL_SECONDS_MAX);
	exit(1); /* the clients end with this process */
}

/* The client's end; its status is added to *failed. */
static void reap(pid_t *pid, int options, int *failed)
{
	int status;

	if (*pid > 0 && waitpid(*pid, &status, options) == *pid) {
		*pid = 0;
		*failed |= status;
	}
}

/* More to do for each; returns how much in all. */
static uint64_t add_work(unsigned clients, uint64_t total)
{
	uint64_t more = total / clients / 8 + 1;

	for (unsigned i = 0; i < clients; i++)
		slots[i].want += more;
	return more * clients;
}

static unsigned reap_all(pid_t *pid, unsigned clients, int options, int *failed)
{
	unsigned left = 0;

	for (unsigned i = 0; i < clients; i++) {
		reap(&pid[i], options, failed);
		left += pid[i] > 0;
	}
	return left;
}

/* Until all is done.  Kills some, spread over the work rather than over time; returns how
 * many.  Sets *total to what was to be done. */
static unsigned run(pid_t *pid, unsigned clients, uint64_t *total, unsigned kills, unsigned seed,
		    int *failed)
{
	uint64_t limit = 2 * *total; /* of work that is there for the kills */
	unsigned killed = 0;

	while (reap_all(pid, clients, WNOHANG, failed) == clients) {
		uint64_t done = acknowledged(clients);
		unsigned i = (unsigned)rand() % clients;
		if (done >= *total) {
			if (until ? !access(until, F_OK) : killed == kills || done >= limit)
				break;
			*total += add_work(clients, *total);
		} else if (killed < kills && done >= *total / (kills + 1) * (killed + 1)) {
			kill_process(pid[i]);
			pid[i] = start_client(i, seed * 1000 + 100 + killed++);
		}
		check_progress(clients);
		rest_ms(1);
	}
	*over = true;
	reap_all(pid, clients, 0, failed);
	return killed;
}

int main(int argc, char **argv)
{
	pid_t pid[CLIENTS_MAX];
	int failed = 0;

	if (argc < 6 || argc > 8) {
		fprintf(stderr, "usage: counters ADDR CLIENTS INCREMENTS COUNTERS KILLS [SEED [UNTIL]]\n");
		return 2;
	}
	server = argv[1];
	unsigned clients = (unsigned)atoi(argv[2]), kills = (unsigned)atoi(argv[5]);
	uint64_t total = strtoull(argv[3], NULL, 10);
	unsigned seed = argc > 6 ? (unsigned)atoi(argv[6]) : 1;
	counters = (unsigned)atoi(argv[4]);
	until = argc > 7 ? argv[7] : NULL;
	if (!clients || clients > CLIENTS_MAX || !counters || !total)
		die("arguments", "out of range");
	slots = shared_new(sizeof *slots * CLIENTS_MAX);
	over = shared_new(sizeof *over);
	srand(seed);
	for (unsigned i = 0; i < clients; i++) {
		slots[i].want = total / clients + (i < total % clients);
		pid[i] = start_client(i, seed * 1000 + i);
	}
	unsigned killed = run(pid, clients, &total, kills, seed, &failed);
	uint64_t sum = sum_counters(), acked = acknowledged(clients);
	bool exact = sum == acked && acked == total && !failed;
	printf("counters: %llu acknowledged, sum %llu, %u kills: %s\n", (unsigned long long)acked,
	       (unsigned long long)sum, killed, exact ? "exact" : "WRONG");
	if (!exact)
		return 1;
	reached("kills", killed, kills);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bank ADDR CLIENTS SECONDS ACCOUNTS KILLS [SEED [UNTIL]]
 *
 * Client processes transfer money between random accounts in transactions; KILLS
 * times one is killed (SIGKILL) and another takes its place.  Meanwhile an auditor
 * adds up all accounts in read-only transactions: the total never differs.  With
 * UNTIL, the name of a file that ends it, kvd may be killed and started again
 * meanwhile: calls fail then.
 *
 * It takes longer than SECONDS, by a minute at most, until there were enough transfers and
 * audits to prove anything; without them, or with fewer kills than KILLS, it fails.
 */
#include "tests/torture/kit.h"

#define CLIENTS_MAX 64
#define START 1000
#define VAIN_MAX 100 /* audits one after the other that found changes in between */
/* What proves something: of each client, of the auditor. */
#define TRANSFERS_MIN 20u
#define AUDITS_MIN 3u

struct shared {
	volatile bool stop;
	volatile uint64_t audits;
	volatile bool hush; /* transfers wait, for an audit that never gets through */
	volatile uint64_t transfers[CLIENTS_MAX];
	volatile uint64_t conflicts[CLIENTS_MAX];
};

const char *server;
static struct shared *shared;
static unsigned accounts;
static const char *until; /* kvd may die */

/* kvd is gone for a while: to be tried again. */
static bool is_gone(int rc)
{
	bool gone = until && (rc == KVD_ECONNECT || rc == KVD_EUNKNOWN || rc == KVD_ETIMEDOUT ||
				   rc == KVD_EDISK || rc == KVD_EBUSY);

	if (gone)
		nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
	return gone;
}

static int name(char *key, unsigned account)
{
	return sprintf(key, "account %u", account);
}

/* KVD_OK, KVD_CONDITION: anything else ends the process. */
static int read_account(kvd_session *session, kvd_txn_t *txn, unsigned account, long *money)
{
	char key[32], text[32];
	size_t bytes;
	int n = name(key, account);
	int rc = kvd_txn_get(txn, key, (size_t)n, text, sizeof text - 1, &bytes);

	if (rc == KVD_CONDITION || is_gone(rc))
		return KVD_CONDITION;
	if (rc != KVD_OK)
		die("read", rc == KVD_NOT_FOUND ? "an account is gone" : kvd_session_error(session));
	text[bytes] = '\0';
	*money = atol(text);
	return KVD_OK;
}

static void write_account(kvd_session *session, kvd_txn_t *txn, unsigned account, long money)
{
	char key[32], text[32];
	int n = name(key, account), m = sprintf(text, "%ld", money);

	if (kvd_txn_put(txn, key, (size_t)n, text, (size_t)m) != KVD_OK)
		die("write", kvd_session_error(session));
}

static int transfer(kvd_session *session)
{
	unsigned from = (unsigned)rand() % accounts, to = (unsigned)rand() % accounts;
	long amount = rand() % 10, a, b;
	kvd_txn_t *txn;

	if (from == to)
		return KVD_CONDITION;
	int rc = kvd_txn_new(session, &txn);
	if (is_gone(rc))
		return KVD_CONDITION;
	if (rc < 0)
		die("transaction", kvd_session_error(session));
	if (read_account(session, txn, from, &a) || read_account(session, txn, to, &b)) {
		kvd_txn_delete(&txn);
		return KVD_CONDITION;
	}
	write_account(session, txn, from, a - amount);
	write_account(session, txn, to, b + amount);
	rc = kvd_txn_commit(&txn, NULL);
	if (rc < 0 && rc != KVD_EBUSY && !is_gone(rc))
		die("commit", kvd_session_error(session));
	return rc;
}

static void client_main(unsigned i, unsigned seed)
{
	const struct timespec pause = { .tv_nsec = 2000000 };
	kvd_client *client;
	kvd_session *session = connect_to(&client);

	srand(seed);
	while (!shared->stop) {
		/* A burst, then room for an audit to get through. */
		for (int n = 0; n < 8; n++) {
			if (transfer(session) == KVD_OK)
				shared->transfers[i]++;
			else
				shared->conflicts[i]++;
		}
		do
			nanosleep(&pause, NULL);
		while (shared->hush && !shared->stop);
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
		client_main(i, seed);
	}
	return pid;
}

/* True if the audit got through; *total is what it found. */
static bool audit(kvd_session *session, long *total)
{
	kvd_txn_t *txn;
	bool through = true;

	*total = 0;
	int rc = kvd_txn_new(session, &txn);
	if (is_gone(rc))
		return false;
	if (rc < 0)
		die("audit", kvd_session_error(session));
	for (unsigned i = 0; i < accounts && through; i++) {
		long money = 0;
		through = read_account(session, txn, i, &money) == KVD_OK;
		*total += money;
	}
	if (!through) {
		kvd_txn_delete(&txn);
		return false;
	}
	rc = kvd_txn_commit(&txn, NULL);
	if (rc < 0 && !is_gone(rc))
		die("audit", kvd_session_error(session));
	return rc == KVD_OK;
}

static void open_accounts(kvd_session *session)
{
	for (unsigned i = 0; i < accounts; i++) {
		char key[32], text[32];
		int n = name(key, i), m = sprintf(text, "%d", START);
		if (kvd_put(session, key, (size_t)n, text, (size_t)m, NULL) != KVD_OK)
			die("open", kvd_session_error(session));
	}
}

static void replace(pid_t *pid, unsigned clients, unsigned seed)
{
	unsigned i = (unsigned)rand() % clients;

	kill_process(pid[i]);
	pid[i] = start_client(i, seed);
}

/* What the command line says. */
struct plan {
	unsigned clients, kills, seed;
	uint64_t seconds;
};

static void parse(struct plan *plan, int argc, char **argv)
{
	server = argv[1];
	until = argc > 7 ? argv[7] : NULL;
	accounts = (unsigned)atoi(argv[4]);
	*plan = (struct plan){ .clients = (unsigned)atoi(argv[2]), .kills = (unsigned)atoi(argv[5]),
			       .seed = argc > 6 ? (unsigned)atoi(argv[6]) : 1,
			       .seconds = strtoull(argv[3], NULL, 10) };
	if (!plan->clients || plan->clients > CLIENTS_MAX || accounts < 2 ||
	    accounts > KVD_TXN_READS_MAX)
		die("arguments", "out of range");
}

/* In a process of its own: the clients are forked before this one opens the device. */
static void open_first(void)
{
	kvd_client *client;
	int status;
	pid_t opener = fork();

	if (opener == 0) {
		open_accounts(connect_to(&client));
		_exit(0);
	}
	if (waitpid(opener, &status, 0) != opener || status)
		die("open", "failed");
}

static void auditor_main(void)
{
	unsigned tries = 0, wrong = 0, vain = 0;
	kvd_client *client;
	kvd_session *session = connect_to(&client);
	long total;

	while (!shared->stop) {
		tries++;
		if (!audit(session, &total)) {
			shared->hush = ++vain >= VAIN_MAX;
			continue;
		}
		vain = 0;
		shared->hush = false;
		shared->audits++;
		if (total != (long)accounts * START) {
			fprintf(stderr, "bank: total %ld\n", total);
			wrong++;
		}
	}
	printf("bank: %llu audits of %u tries, %u wrong\n", (unsigned long long)shared->audits, tries,
	       wrong);
	fflush(stdout);
	_exit(wrong != 0);
}

static pid_t start_auditor(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork", strerror(errno));
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		auditor_main();
	}
	return pid;
}

/* Kills clients evenly over the time; returns how many. */
static unsigned kill_some(const struct plan *plan, pid_t *pid)
{
	uint64_t all_ns = plan->seconds * 1000000000ull, start = now_ns(), since;
	unsigned killed = 0;

	while (((since = now_ns() - start) < all_ns || killed < plan->kills) &&
	       (!until || access(until, F_OK))) {
		rest_ms(10);
		if (killed < plan->kills && since >= all_ns / (plan->kills + 1) * (killed + 1))
			replace(pid, plan->clients, plan->seed * 1000 + 100 + killed++);
	}
	return killed;
}

int main(int argc, char **argv)
{
	struct plan plan;
	pid_t pid[CLIENTS_MAX];
	int status, failed = 0;
	uint64_t done = 0, lost = 0;

	if (argc < 6 || argc > 8) {
		fprintf(stderr, "usage: bank ADDR CLIENTS SECONDS ACCOUNTS KILLS [SEED [UNTIL]]\n");
		return 2;
	}
	parse(&plan, argc, argv);
	shared = shared_new(sizeof *shared);
	open_first();
	srand(plan.seed);
	for (unsigned i = 0; i < plan.clients; i++)
		pid[i] = start_client(i, plan.seed * 1000 + i);
	pid_t auditor = start_auditor();
	rest_until_done(0, shared->transfers, plan.clients, 1);
	rest_until_done(0, &shared->audits, 1, 1);
	for (unsigned i = 0; i < plan.clients; i++)
		reached("transfers of a client", shared->transfers[i], 1);
	unsigned killed = kill_some(&plan, pid);
	rest_until_done(0, shared->transfers, plan.clients, TRANSFERS_MIN);
	rest_until_done(0, &shared->audits, 1, AUDITS_MIN);
	shared->stop = true;
	for (unsigned i = 0; i < plan.clients; i++) {
		if (waitpid(pid[i], &status, 0) == pid[i])
			failed |= status;
		done += shared->transfers[i];
		lost += shared->conflicts[i];
	}
	waitpid(auditor, &status, 0);
	failed |= status;
	printf("bank: %llu transfers, %llu conflicts, %u kills: %s\n", (unsigned long long)done,
	       (unsigned long long)lost, killed, failed ? "FAILED" : "the total never differed");
	if (failed)
		return 1;
	for (unsigned i = 0; i < plan.clients; i++)
		reached("transfers of a client", shared->transfers[i], TRANSFERS_MIN);
	reached("audits", shared->audits, AUDITS_MIN);
	reached("kills", killed, plan.kills);
	return 0;
}

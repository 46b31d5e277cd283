/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kvbench bank: transfers between accounts, each a transaction over two keys, while an
 * auditor adds up all accounts, again and again, in read-only transactions.  The total
 * must never differ.
 *
 * An account is a key "bank:N" with its balance as decimal text.  Accounts that are not
 * there are opened with BALANCE each; those of an earlier run are used as they are.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/command/bank.h"
#include "bench/command/command.h"
#include "bench/format/json.h"
#include "bench/format/outfile.h"
#include "bench/measure/histogram.h"
#include "bench/measure/stopwatch.h"
#include "bench/run/options.h"
#include "bench/workload/random.h"
#include "client/kvd.h"
#include "common/addr.h"
#include "common/opt.h"

#define BALANCE 1000
#define AMOUNT_MAX 100u
#define THREADS_MAX 256
#define OPEN_BATCH 8u

static struct {
	const char *server;
	const char *device;
	const char *credentials;
	int threads;
	int accounts;
	double seconds;
	int seed;
	const char *json_path;
	bool help;
} o;

static const struct opt table[] = {
	{ "server", 's', OPT_STRING, &o.server, 0, 0, NULL, "ADDR[:PORT]", 
	  "kvd ($KVD_SERVER, 127.0.0.1:7480)" },
	{ "device", 0, OPT_STRING, &o.device, 0, 0, NULL, "NAME",
	  "RDMA device; soft: the software device" },
	{ "credentials", 0, OPT_STRING, &o.credentials, 0, 0, NULL, "FILE",
	  "who you are, for kvd ($KVD_CREDENTIALS_FILE)" },
	{ "threads", 't', OPT_INT, &o.threads, 1, THREADS_MAX, NULL, "N",
	  "threads that transfer, with a connection each (2)" },
	{ "accounts", 'n', OPT_INT, &o.accounts, 2, KVD_TXN_READS_MAX, NULL, "N",
	  "accounts (1000)" },
	{ "duration", 0, OPT_TIME, &o.seconds, 0, OPTIONS_SECONDS_MAX, NULL, "S",
	  "seconds to run, or 2m, 1h (10)" },
	{ "seed", 0, OPT_INT, &o.seed, 0, INT32_MAX, NULL, "N", "another sequence of transfers (1)" },
	{ "json", 0, OPT_STRING, &o.json_path, 0, 0, NULL, "FILE", "the figures, as JSON" },
	{ "help", 'h', OPT_FLAG, &o.help, 0, 0, NULL, NULL, "this list" },
	{ .name = NULL },
};

struct teller {
	pthread_t thread;
	struct bank *bank;
	kvd_session *session;
	struct random random;
	struct histogram latency; /* of a transfer, with its repetitions */
	uint64_t repeated;        /* attempts that others' transfers made void */
	uint64_t refused;         /* the account had too little */
	struct err err;
	int result; /* KVD_OK, or what ended it */
};

struct bank {
	kvd_client *client;
	int64_t total;
	_Atomic bool stop;
	struct teller teller[THREADS_MAX];
	struct teller auditor;
	uint64_t wrong; /* totals */
	double took_seconds;
};

/* ----------------------------------------------------------------- one account */

static size_t make_key(unsigned account, char *key)
{
	return (size_t)sprintf(key, "bank:%u", account);
}

static int read_account(kvd_txn_t *txn, unsigned account, int64_t *balance)
{
	char key[32], text[32];
	size_t key_bytes = make_key(account, key), bytes;
	int result = kvd_txn_get(txn, key, key_bytes, text, sizeof text - 1, &bytes);

	if (result != KVD_OK)
		return result;
	text[bytes] = '\0';
	*balance = strtoll(text, NULL, 10);
	return KVD_OK;
}

static int write_account(kvd_txn_t *txn, unsigned account, int64_t balance)
{
	char key[32], text[32];
	size_t key_bytes = make_key(account, key);
	int bytes = sprintf(text, "%" PRId64, balance);

	return kvd_txn_put(txn, key, key_bytes, text, (size_t)bytes);
}

/* -------------------------------------------------------------------- transfers */

/* What the steps of a transaction do; KVD_OK to commit. */
typedef int steps(struct teller *t, kvd_txn_t *txn, const void *arg);

/* Until it is through, fails, or the run is over. */
static int transact(struct teller *t, steps *run, const void *arg)
{
	kvd_txn_t *txn;
	int result;

	do {
		result = kvd_txn_new(t->session, &txn);
		if (result < 0)
			return result;
		result = run(t, txn, arg);
		if (result == KVD_OK)
			result = kvd_txn_commit(&txn, NULL);
		else
			kvd_txn_delete(&txn);
		t->repeated += result == KVD_CONDITION;
	} while ((result == KVD_CONDITION || result == KVD_EBUSY) && !atomic_load(&t->bank->stop));
	return result;
}

struct transfer {
	unsigned from, to;
	int64_t amount;
};

static int transfer_steps(struct teller *t, kvd_txn_t *txn, const void *arg)
{
	const struct transfer *x = arg;
	int64_t from, to;
	int result = read_account(txn, x->from, &from);

	if (result == KVD_OK)
		result = read_account(txn, x->to, &to);
	if (result != KVD_OK)
		return result;
	if (from < x->amount) {
		t->refused++;
		return KVD_OK; /* and so it was: the commit checks it */
	}
	result = write_account(txn, x->from, from - x->amount);
	if (result == KVD_OK)
		result = write_account(txn, x->to, to + x->amount);
	return result;
}

static void give_up(struct teller *t, int result)
{
	const char *sentence = kvd_session_error(t->session);

	t->result = result < 0 ? result : KVD_NOT_FOUND;
	err_set(&t->err, -1, "%s", result == KVD_NOT_FOUND ? "an account is gone"
			       : *sentence ? sentence : kvd_strerror(result));
	atomic_store(&t->bank->stop, true);
}

static void *work(void *arg)
{
	struct teller *t = arg;

	while (!atomic_load_explicit(&t->bank->stop, memory_order_relaxed)) {
		struct transfer x = { .amount = 1 + (int64_t)(random_next(&t->random) % AMOUNT_MAX) };
		x.from = (unsigned)(random_next(&t->random) % (unsigned)o.accounts);
		x.to = (x.from + 1 + (unsigned)(random_next(&t->random) % (unsigned)(o.accounts - 1))) %
		       (unsigned)o.accounts;
		uint64_t begin = stopwatch_ns();
		int result = transact(t, transfer_steps, &x);
		if (result == KVD_OK)
			histogram_record(&t->latency, stopwatch_ns() - begin);
		else if (result != KVD_CONDITION && result != KVD_EBUSY)
			give_up(t, result);
	}
	return NULL;
}

/* ------------------------------------------------------------------------ audit */

static int audit_steps(struct teller *t, kvd_txn_t *txn, const void *arg)
{
	int64_t *total = *(int64_t *const *)arg, balance;
	int result = KVD_OK;

	(void)t;
	*total = 0;
	for (unsigned i = 0; i < (unsigned)o.accounts && result == KVD_OK; i++) {
		result = read_account(txn, i, &balance);
		if (result == KVD_OK)
			*total += balance;
	}
	return result;
}

static int audit(struct teller *t, int64_t *total)
{
	return transact(t, audit_steps, &total);
}

static void *work_audit(void *arg)
{
	struct teller *t = arg;

	while (!atomic_load_explicit(&t->bank->stop, memory_order_relaxed)) {
		uint64_t begin = stopwatch_ns();
		int64_t total;
		int result = audit(t, &total);
		if (result == KVD_OK) {
			histogram_record(&t->latency, stopwatch_ns() - begin);
			t->bank->wrong += total != t->bank->total;
		} else if (result != KVD_CONDITION && result != KVD_EBUSY) {
			give_up(t, result);
		}
	}
	return NULL;
}

/* ---------------------------------------------------------------------- the run */

static int new_teller(struct bank *b, struct teller *t, uint64_t number, struct err *err)
{
	t->bank = b;
	t->random = random_stream(random_base((uint64_t)o.seed), number);
	histogram_clear(&t->latency);
	if (kvd_session_new(b->client, &t->session) < 0)
		return err_set(err, -1, "%s", kvd_client_error(b->client));
	return 0;
}

static int open_steps(struct teller *t, kvd_txn_t *txn, const void *arg)
{
	unsigned first = *(const unsigned *)arg;
	int result = KVD_OK;
	int64_t balance;

	(void)t;
	for (unsigned i = first; i < first + OPEN_BATCH && i < (unsigned)o.accounts; i++) {
		result = read_account(txn, i, &balance);
		if (result == KVD_NOT_FOUND)
			result = write_account(txn, i, BALANCE);
		if (result != KVD_OK)
			return result;
	}
	return result;
}

static int open_accounts(struct bank *b, struct err *err)
{
	int result = KVD_OK;

	for (unsigned i = 0; i < (unsigned)o.accounts && result == KVD_OK; i += OPEN_BATCH)
		result = transact(&b->auditor, open_steps, &i);
	if (result == KVD_OK)
		result = audit(&b->auditor, &b->total);
	if (result != KVD_OK)
		return err_set(err, -1, "opening the accounts: %s",
			       result < 0 ? kvd_session_error(b->auditor.session)
					  : kvd_strerror(result));
	b->auditor.repeated = 0;
	return 0;
}

static int start_threads(struct bank *b, int *started, struct err *err)
{
	int rc = pthread_create(&b->auditor.thread, NULL, work_audit, &b->auditor);

	for (*started = 0; rc == 0 && *started < o.threads; ++*started) {
		struct teller *t = &b->teller[*started];
		rc = pthread_create(&t->thread, NULL, work, t);
		if (rc != 0)
			break;
	}
	return rc ? err_set_errno(err, -1, rc, "can't start a thread") : 0;
}

static int run_threads(struct bank *b, struct err *err)
{
	uint64_t begin = stopwatch_ns(), end = begin + (uint64_t)(o.seconds * 1e9);
	int started = 0, rc = start_threads(b, &started, err);

	while (rc == 0 && stopwatch_ns() < end && !atomic_load(&b->stop))
		nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
	atomic_store(&b->stop, true);
	for (int i = 0; i < started; i++)
		pthread_join(b->teller[i].thread, NULL);
	if (b->auditor.thread)
		pthread_join(b->auditor.thread, NULL);
	b->took_seconds = (double)(stopwatch_ns() - begin) / 1e9;
	return rc;
}

/* Once more when all is quiet. */
static void last_audit(struct bank *b)
{
	int64_t total;

	atomic_store(&b->stop, false);
	int result = audit(&b->auditor, &total);
	if (result != KVD_OK)
		give_up(&b->auditor, result);
	else
		b->wrong += total != b->total;
}

/* ----------------------------------------------------------------------- report */

static void add_up(const struct bank *b, struct teller *sum)
{
	histogram_clear(&sum->latency);
	for (int i = 0; i < o.threads; i++) {
		const struct teller *t = &b->teller[i];
		histogram_merge(&sum->latency, &t->latency);
		sum->repeated += t->repeated;
		sum->refused += t->refused;
		if (t->result != KVD_OK)
			*sum = (struct teller){ .latency = sum->latency, .repeated = sum->repeated,
						.refused = sum->refused, .err = t->err,
						.result = t->result };
	}
	if (b->auditor.result != KVD_OK) {
		sum->result = b->auditor.result;
		sum->err = b->auditor.err;
	}
}

static double us(const struct histogram *h, double percentile)
{
	return (double)histogram_percentile(h, percentile) / 1e3;
}

static void print(const struct bank *b, const struct teller *sum)
{
	printf("%s\n%d accounts, %d threads, %.1f s\n\n", kvd_client_device(b->client), o.accounts,
	       o.threads, b->took_seconds);
	printf("transfers %12" PRIu64 "  %.0f a second, p50 %.1f us, p99 %.1f us\n",
	       sum->latency.count, (double)sum->latency.count / b->took_seconds,
	       us(&sum->latency, 50), us(&sum->latency, 99));
	printf("repeated  %12" PRIu64 "  others changed an account meanwhile\n", sum->repeated);
	printf("refused   %12" PRIu64 "  an account had too little\n", sum->refused);
	printf("audits    %12" PRIu64 "  each of all accounts; %" PRIu64 " repeated\n",
	       b->auditor.latency.count, b->auditor.repeated);
	printf("total     %12" PRId64 "  %s\n", b->total,
	       b->wrong ? "AND OTHERS: some audits found another" : "in every audit");
}

static int write_json(const struct bank *b, const struct teller *sum, struct err *err)
{
	struct outfile out;
	struct json j = { 0 };

	if (o.json_path == NULL)
		return 0;
	if (outfile_open(&out, o.json_path, err) < 0)
		return -1;
	j.file = out.file;
	json_open(&j, NULL, '{');
	json_string(&j, "command", "bank");
	json_string(&j, "version", kvd_version());
	json_string(&j, "device", kvd_client_device(b->client));
	json_count(&j, "accounts", (uint64_t)o.accounts);
	json_count(&j, "threads", (uint64_t)o.threads);
	json_real(&j, "seconds", b->took_seconds, 3);
	json_count(&j, "transfers", sum->latency.count);
	json_real(&j, "p50_us", us(&sum->latency, 50), 3);
	json_real(&j, "p99_us", us(&sum->latency, 99), 3);
	json_count(&j, "repeated", sum->repeated);
	json_count(&j, "refused", sum->refused);
	json_count(&j, "audits", b->auditor.latency.count);
	json_count(&j, "wrong_totals", b->wrong);
	json_close(&j, '{');
	return outfile_close(&out, err);
}

static int report(struct bank *b, struct err *err)
{
	struct teller *sum = calloc(1, sizeof *sum);
	int status = EXIT_DONE;

	if (sum == NULL) {
		err_set(err, -1, "out of memory");
		return command_fail(EXIT_TROUBLE, err);
	}
	add_up(b, sum);
	print(b, sum);
	if (sum->result != KVD_OK)
		status = command_fail(EXIT_TROUBLE, &sum->err);
	else if (b->wrong)
		status = EXIT_WRONG;
	if (write_json(b, sum, err) < 0)
		status = command_fail(EXIT_USAGE, err);
	free(sum);
	return status;
}

static int run(struct bank *b)
{
	struct kvd_options options = { .size = sizeof options, .device = o.device,
				       .credentials = o.credentials };
	struct err err = { "" };

	if (kvd_client_new(o.server, &options, &b->client) < 0)
		err_set(&err, -1, "%s", b->client ? kvd_client_error(b->client) : "out of memory");
	else if (new_teller(b, &b->auditor, THREADS_MAX, &err) == 0 && open_accounts(b, &err) == 0)
		for (int i = 0; i < o.threads && !*err.text; i++)
			new_teller(b, &b->teller[i], (uint64_t)i, &err);
	if (!*err.text)
		run_threads(b, &err);
	if (*err.text)
		return command_fail(EXIT_TROUBLE, &err);
	last_audit(b);
	return report(b, &err);
}

/* ------------------------------------------------------------------ the command */

static int parse(int argc, char **argv, struct err *err)
{
	memset(&o, 0, sizeof o);
	o.server = addr_server_default();
	o.threads = 2;
	o.accounts = 1000;
	o.seconds = 10;
	o.seed = 1;
	int operand = opt_parse(table, argc, argv, err->text, sizeof err->text);
	if (operand < 0)
		return -1;
	if (operand < argc)
		return err_set(err, -1, "'%s' is not an option", argv[operand]);
	return 0;
}

int command_bank(int argc, char **argv)
{
	struct err err = { "" };
	struct bank *b;
	int status;

	if (parse(argc, argv, &err) < 0)
		return command_fail(EXIT_USAGE, &err);
	if (o.help) {
		printf("usage: kvbench bank [options]\n");
		opt_print_help(table);
		return EXIT_DONE;
	}
	b = calloc(1, sizeof *b);
	if (b == NULL) {
		err_set(&err, -1, "out of memory");
		return command_fail(EXIT_TROUBLE, &err);
	}
	status = run(b);
	for (int i = 0; i < THREADS_MAX; i++)
		kvd_session_delete(&b->teller[i].session);
	kvd_session_delete(&b->auditor.session);
	kvd_client_delete(&b->client);
	free(b);
	return status;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * absent ADDR TENTHS
 *
 * A key that comes and goes, in transactions with two that stay: a read-only
 * transaction never finds the three as they never were at once, in whatever order it
 * reads them.  TENTHS of a second.
 *
 * From "a and b have the same number, c is absent" to "b is one ahead, c is there", and
 * on to the former.
 */
#include "tests/torture/kit.h"

const char *server;

#define READERS 3
#define TURNS_MIN 20u     /* there and back */
#define READS_MIN 20u     /* of each reader, that were not in vain */
#define CONFLICTS_MIN 1u  /* of all readers: something changed between two READs */

static struct stage {
	volatile bool stop;
	volatile uint64_t turns;
	volatile uint64_t reads[READERS], conflicts[READERS];
} *stage;

static void put_number(kvd_session *s, kvd_txn_t *txn, const char *name, uint64_t n)
{
	expect_result(s, kvd_txn_put(txn, name, 1, &n, sizeof n), KVD_OK, "put");
}

static void commit(kvd_session *s, kvd_txn_t **txn)
{
	expect_result(s, kvd_txn_commit(txn, NULL), KVD_OK, "commit");
}

static kvd_txn_t *begin(kvd_session *s)
{
	kvd_txn_t *txn;

	expect_result(s, kvd_txn_new(s, &txn), KVD_OK, "transaction");
	return txn;
}

static void turns(unsigned i)
{
	kvd_client *client;
	kvd_session *s = connect_to(&client);
	kvd_txn_t *txn = begin(s);
	uint64_t n = 0;

	(void)i;
	put_number(s, txn, "a", n);
	put_number(s, txn, "b", n);
	commit(s, &txn);
	for (; !stage->stop; stage->turns = ++n) {
		nanosleep(&(struct timespec){ .tv_nsec = rand() % 20000000 }, NULL);
		txn = begin(s);
		put_number(s, txn, "b", n + 1);
		put_number(s, txn, "c", n);
		commit(s, &txn);
		nanosleep(&(struct timespec){ .tv_nsec = rand() % 20000000 }, NULL);
		txn = begin(s);
		put_number(s, txn, "a", n + 1);
		expect_result(s, kvd_txn_del(txn, "c", 1), KVD_OK, "delete");
		commit(s, &txn);
	}
	hang_up(&s, &client);
}

/* KVD_OK, or KVD_CONDITION: try again.  An absent key is UINT64_MAX. */
static int read_all(kvd_session *s, const char *order, uint64_t *number)
{
	kvd_txn_t *txn = begin(s);
	size_t bytes;

	for (; *order; order++) {
		uint64_t *n = &number[*order - 'a'];
		*n = UINT64_MAX;
		int rc = kvd_txn_get(txn, order, 1, n, sizeof *n, &bytes);
		if (rc != KVD_NOT_FOUND)
			expect_result(s, rc, KVD_OK, "get");
	}
	int rc = kvd_txn_commit(&txn, NULL);
	if (rc != KVD_CONDITION)
		expect_result(s, rc, KVD_OK, "commit of a read-only transaction");
	return rc;
}

static void reads(unsigned i)
{
	static const char *const orders[READERS] = { "acb", "cab", "abc" };
	/* Slow, so that much happens between two READs; a real device ignores it. */
	setenv("SOFTVERBS_FAULT", "delay_us=300", 1);
	kvd_client *client;
	kvd_session *s = connect_to(&client);
	uint64_t n[3];

	while (!stage->turns && !stage->stop)
		rest_ms(1);
	while (!stage->stop) {
		if (read_all(s, orders[i], n) != KVD_OK) {
			stage->conflicts[i]++;
			continue;
		}
		stage->reads[i]++;
		check(n[1] == (n[2] == UINT64_MAX ? n[0] : n[0] + 1),
		      "three keys as they never were at once");
	}
	hang_up(&s, &client);
}

int main(int argc, char **argv)
{
	pid_t pid[READERS + 1];
	bool ok = true;

	if (argc != 3) {
		fprintf(stderr, "usage: absent ADDR TENTHS\n");
		return 2;
	}
	server = argv[1];
	stage = shared_new(sizeof *stage);
	for (unsigned i = 0; i < READERS; i++)
		pid[i] = start_process(reads, i);
	pid[READERS] = start_process(turns, 0);
	rest_until_done(100 * (unsigned)atoi(argv[2]), &stage->turns, 1, TURNS_MIN);
	rest_until_done(0, stage->reads, READERS, READS_MIN);
	stage->stop = true;
	for (unsigned i = 0; i <= READERS; i++)
		ok &= ended_well(pid[i]);
	for (unsigned i = 0; i < READERS; i++)
		printf("absent: %llu turns, %llu reads, %llu conflicts\n",
		       (unsigned long long)stage->turns, (unsigned long long)stage->reads[i],
		       (unsigned long long)stage->conflicts[i]);
	if (!ok)
		return 1;
	reached("turns", stage->turns, TURNS_MIN);
	uint64_t conflicts = 0;
	for (unsigned i = 0; i < READERS; i++) {
		reached("reads of a reader", stage->reads[i], READS_MIN);
		conflicts += stage->conflicts[i];
	}
	reached("reads with a change in between", conflicts, CONFLICTS_MIN);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client of a world: one session, random deeds.  Gets, puts and deletes of a few keys
 * are logged, to be checked as a history; what is wrong by itself is told at once.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/client.h"
#include "tests/sim/world.h"
#include "tests/torture/value.h"

#define PLAIN_EVERY 4 /* so many values: one without flags */

struct client self;

static uint64_t now(void)
{
	sim_access(1); /* no two moments are the same */
	return sim->now_ns;
}

/* --------------------------------------------------------------------- log */

static struct linear_op *invoke(enum linear_kind kind, uint64_t key, uint64_t value)
{
	struct linear_op *op = &board->log[self.number][board->logged[self.number]];

	*op = (struct linear_op){ .key = key, .value = value, .return_ns = LINEAR_OPEN,
				  .client = (uint32_t)self.number, .kind = (uint8_t)kind,
				  .result = LINEAR_UNKNOWN };
	op->invoke_ns = now();
	if (++board->logged[self.number] == LOG_MAX)
		sim_judge(SIM_WRONG, "the log is full");
	return op;
}

static void returned(struct linear_op *op, enum linear_result result, uint64_t value,
		     uint64_t version)
{
	if (op->kind == LINEAR_GET)
		op->value = value;
	op->version = version;
	op->return_ns = now();
	op->result = (uint8_t)result;
}

/* An error that may be: none, where neither device nor kvd fail on purpose. */
static void failed(const char *what, int rc)
{
	board->errors++;
	if (!board->plan.is_faulty && rc != KVD_EBUSY && rc != KVD_EFULL)
		sim_judge(SIM_WRONG, "%s: %s: %s", what, kvd_strerror(rc),
			  kvd_session_error(self.session));
}

static void changed(struct linear_op *op, const char *what, int rc, uint64_t version)
{
	if (rc == KVD_OK)
		returned(op, LINEAR_DONE, 0, version);
	else if (rc == KVD_NOT_FOUND)
		returned(op, LINEAR_NOT_FOUND, 0, 0);
	else if (rc != KVD_EUNKNOWN)
		returned(op, LINEAR_NOTHING, 0, 0);
	if (rc < 0)
		failed(what, rc);
}

int name_of(char *text, uint64_t key)
{
	return sprintf(text, "key %" PRIu64, key);
}

/* A value's flags, which follow from its id: of every fourth all zero, as of one that is stored
 * under a lock, and of the others all 32 bits. */
static uint32_t flags_of(uint64_t id)
{
	return id % PLAIN_EVERY ? (uint32_t)value_word(id, 0) : 0;
}

static struct kvd_change with_flags(uint64_t id)
{
	return (struct kvd_change){ .size = sizeof(struct kvd_change), .flags = flags_of(id) };
}

static void check_flags(uint64_t key, uint64_t id, uint32_t flags)
{
	if (id && flags != flags_of(id))
		sim_judge(SIM_WRONG, "value %" PRIu64 " of key %" PRIu64 " came with flags %#x, and was "
			  "stored with %#x", id, key, flags, flags_of(id));
}

static void got(struct linear_op *op, const uint8_t *value, int rc, size_t bytes, uint64_t version)
{
	uint64_t key = op->key, id = rc == KVD_OK ? value_check(value, bytes, key) : 0;

	if (rc == KVD_OK && !id)
		sim_judge(SIM_WRONG, "bytes that nobody stored came from a GET of key %" PRIu64, key);
	if (rc == KVD_OK)
		returned(op, LINEAR_DONE, id, version);
	else
		returned(op, rc == KVD_NOT_FOUND ? LINEAR_NOT_FOUND : LINEAR_NOTHING, 0, 0);
	if (rc < 0)
		failed("GET", rc);
}

/* ------------------------------------------------------------------- deeds */

static uint64_t pick_key(void)
{
	return sim_roll((uint64_t)board->plan.keys);
}

static uint64_t pick_bytes(void)
{
	return VALUE_BYTES_MIN + sim_roll(board->plan.value_bytes_max - VALUE_BYTES_MIN + 1);
}

static uint64_t make_value(uint8_t *value, uint64_t key, uint64_t *bytes)
{
	uint64_t id = ++board->next_value;

	*bytes = pick_bytes();
	value_make(value, *bytes, key, id);
	return id;
}

static uint64_t make_plain_value(uint8_t *value, uint64_t key, uint64_t *bytes)
{
	board->next_value += PLAIN_EVERY - 1 - board->next_value % PLAIN_EVERY;
	return make_value(value, key, bytes);
}

void do_get(uint64_t key)
{
	char text[32];
	size_t n = (size_t)name_of(text, key);
	struct kvd_info info = { .size = sizeof info };
	struct linear_op *op = invoke(LINEAR_GET, key, 0);
	int rc = kvd_get_info(self.session, text, n, self.value, sizeof self.value, &info);

	got(op, self.value, rc, info.value_bytes, info.version);
	if (rc == KVD_OK)
		check_flags(key, op->value, info.flags);
}

void do_put(uint64_t key)
{
	char text[32];
	size_t n = (size_t)name_of(text, key);
	uint64_t bytes, version = 0, id = make_value(self.value, key, &bytes);
	const struct kvd_change with = with_flags(id);
	struct linear_op *op = invoke(LINEAR_PUT, key, id);
	int rc = kvd_put_with(self.session, text, n, self.value, bytes, &with, &version);

	changed(op, "PUT", rc, version);
}

void do_del(uint64_t key)
{
	char text[32];
	size_t n = (size_t)name_of(text, key);
	struct linear_op *op = invoke(LINEAR_DEL, key, 0);

	changed(op, "DEL", kvd_del(self.session, text, n), 0);
}

/* ----------------------------------------------------------- several at once */

struct batch {
	struct linear_op *op[BATCH];
	unsigned count;
};

static int submit(struct batch *b)
{
	uint64_t key = pick_key(), kind = sim_roll(10), bytes;
	uint8_t *value = self.batch[b->count];
	char text[32];
	size_t n = (size_t)name_of(text, key);
	struct linear_op **op = &b->op[b->count];

	if (kind < 5) {
		*op = invoke(LINEAR_GET, key, 0);
		return kvd_submit_get(self.session, text, n, value, VALUE_BYTES_LIMIT, *op);
	}
	if (kind < 8) {
		uint64_t id = make_value(value, key, &bytes);
		const struct kvd_change with = with_flags(id);
		*op = invoke(LINEAR_PUT, key, id);
		return kvd_submit_put_with(self.session, text, n, value, bytes, &with, *op);
	}
	*op = invoke(LINEAR_DEL, key, 0);
	return kvd_submit_del(self.session, text, n, *op);
}

static void completed(struct batch *b, const struct kvd_completion *c)
{
	unsigned i = 0;

	while (i < b->count && b->op[i] != c->tag)
		i++;
	if (i == b->count) {
		sim_judge(SIM_WRONG, "a completion that nobody waits for");
		return;
	}
	struct linear_op *op = b->op[i];
	b->op[i] = NULL;
	if (op->kind == LINEAR_GET) {
		got(op, self.batch[i], c->result, c->value_bytes, c->version);
		if (c->result == KVD_OK)
			check_flags(op->key, op->value, c->flags);
	} else {
		changed(op, op->kind == LINEAR_PUT ? "PUT" : "DEL", c->result,
			op->kind == LINEAR_PUT ? c->version : 0);
	}
}

/* GETs, PUTs and deletes that are in flight together, of the same keys, too. */
static void do_batch(void)
{
	struct batch b = { .count = 0 };
	struct kvd_completion c[BATCH];
	unsigned wanted = 2 + (unsigned)sim_roll(BATCH - 1);
	int rc = KVD_OK;

	while (b.count < wanted && rc == KVD_OK) {
		rc = submit(&b);
		if (rc == KVD_OK)
			b.count++;
		else
			changed(b.op[b.count], "a submit", rc, 0);
	}
	for (unsigned open = b.count; open;) {
		int n = kvd_poll(self.session, c, BATCH, -1);
		if (n <= 0 || (unsigned)n > open) {
			sim_judge(SIM_WRONG, "%d completions of %u", n, open);
			return;
		}
		for (int i = 0; i < n; i++)
			completed(&b, &c[i]);
		open -= (unsigned)n;
	}
}

/* At times longer than its lease. */
static void hang(void)
{
	if (board->plan.lease_ms < 1000 && sim_roll(4) == 0)
		poll(NULL, 0, (int)sim_roll(2 * (uint64_t)board->plan.lease_ms + 1));
}

/* Nobody else's change takes effect while the lock is held. */
static void do_lock(uint64_t key)
{
	char text[32];
	size_t n = (size_t)name_of(text, key), bytes = 0;
	uint64_t version = 0, read_version, put_bytes, id, put_version = 0;
	kvd_lock_t *lock;
	struct linear_op *op = invoke(LINEAR_GET, key, 0);
	int rc = kvd_lock_get(self.session, text, n, -1, self.value, sizeof self.value, &bytes,
			      &version, &lock);

	got(op, self.value, rc, bytes, version);
	if (rc < 0)
		return;
	read_version = rc == KVD_OK ? version : 0;
	id = make_plain_value(self.value, key, &put_bytes);
	hang();
	op = invoke(LINEAR_PUT, key, id);
	rc = kvd_locked_put(lock, text, n, self.value, put_bytes, &put_version);
	changed(op, "locked PUT", rc, put_version);
	if (rc == KVD_OK && read_version)
		board->section[board->sections++ % SECTIONS_MAX] =
			(struct section){ key, read_version, put_version };
	if (rc == KVD_OK) {
		hang();
		op = invoke(LINEAR_GET, key, 0);
		rc = kvd_locked_get(lock, text, n, self.value, sizeof self.value, &bytes, &version);
		/* Where the lease is over: its queue pair was destroyed before anybody else
		 * got the lock, so this can't have READ what came after. */
		if (rc == KVD_NOT_FOUND ||
		    (rc == KVD_OK && value_check(self.value, bytes, key) != id))
			sim_judge(SIM_WRONG, "somebody changed key %" PRIu64 " under a lock", key);
		got(op, self.value, rc, bytes, version);
	}
	kvd_unlock(&lock);
}

/* The counter is a number as kvd_incr() writes it. */
static int add_one(void *arg, void *value, size_t *bytes)
{
	char text[32] = "";

	(void)arg;
	memcpy(text, value, *bytes < sizeof text ? *bytes : sizeof text - 1);
	*bytes = (size_t)sprintf(value, "%lld", atoll(text) + 1);
	return 0;
}

static int add_in_txn(void)
{
	char text[32];
	size_t bytes = 0;
	kvd_txn_t *txn;
	int rc = kvd_txn_new(self.session, &txn);

	if (rc < 0)
		return KVD_CONDITION;
	rc = kvd_txn_get(txn, "counter", 7, text, sizeof text - 1, &bytes);
	if (rc == KVD_OK) {
		text[bytes] = '\0';
		bytes = (size_t)sprintf(text, "%lld", atoll(text) + 1);
		rc = kvd_txn_put(txn, "counter", 7, text, bytes);
	}
	if (rc == KVD_OK)
		return kvd_txn_commit(&txn, NULL);
	kvd_txn_delete(&txn);
	return rc < 0 && rc != KVD_EUNKNOWN ? rc : KVD_CONDITION;
}

/* Under a lock, by a message, or in a transaction: none takes effect within another.
 * Whoever is killed in it leaves maybe_counted. */
static void do_update(void)
{
	int rc;

	board->maybe_counted++;
	switch (sim_roll(3)) {
	case 0:
		rc = kvd_incr(self.session, "counter", 7, 1, NULL, NULL, NULL);
		break;
	case 1:
		rc = add_in_txn();
		break;
	default:
		rc = kvd_update(self.session, "counter", 7, add_one, NULL, 31, -1);
	}
	board->counted += rc == KVD_OK;
	if (rc != KVD_EUNKNOWN)
		board->maybe_counted--;
	if (rc < 0)
		failed("update of the counter", rc);
}

int account_name(char *text, unsigned account)
{
	return sprintf(text, "account %u", account);
}

static int read_account(kvd_txn_t *txn, unsigned account, int64_t *money)
{
	char text[32];
	size_t bytes = 0;
	int n = account_name(text, account);
	int rc = kvd_txn_get(txn, text, (size_t)n, money, sizeof *money, &bytes);

	if (rc == KVD_NOT_FOUND || (rc == KVD_OK && bytes != sizeof *money))
		sim_judge(SIM_WRONG, "account %u is gone", account);
	if (rc < 0)
		failed("read of an account", rc);
	return rc;
}

static void do_transfer(void)
{
	unsigned from = (unsigned)sim_roll(ACCOUNTS);
	unsigned to = (from + 1 + (unsigned)sim_roll(ACCOUNTS - 1)) % ACCOUNTS;
	int64_t a, b, amount = (int64_t)sim_roll(10);
	char text[32];
	kvd_txn_t *txn;

	if (kvd_txn_new(self.session, &txn) < 0)
		return;
	if (read_account(txn, from, &a) || read_account(txn, to, &b)) {
		kvd_txn_delete(&txn);
		return;
	}
	a -= amount;
	b += amount;
	int rc = kvd_txn_put(txn, text, (size_t)account_name(text, from), &a, sizeof a);
	if (rc == KVD_OK)
		rc = kvd_txn_put(txn, text, (size_t)account_name(text, to), &b, sizeof b);
	if (rc == KVD_OK)
		rc = kvd_txn_commit(&txn, NULL);
	else
		kvd_txn_delete(&txn);
	if (rc < 0)
		failed("transfer", rc);
}

static bool do_audit(void)
{
	int64_t money, sum = 0;
	kvd_txn_t *txn;

	if (kvd_txn_new(self.session, &txn) < 0)
		return false;
	for (unsigned i = 0; i < ACCOUNTS; i++) {
		if (read_account(txn, i, &money)) {
			kvd_txn_delete(&txn);
			return false;
		}
		sum += money;
	}
	int rc = kvd_txn_commit(&txn, NULL);
	if (rc < 0)
		failed("audit", rc);
	if (rc == KVD_OK && sum != ACCOUNTS * MONEY)
		sim_judge(SIM_WRONG, "the accounts have %" PRId64 " together", sum);
	return rc == KVD_OK;
}

/* Keys that come and stay. */
static void do_fill(void)
{
	char text[32];
	uint64_t i = board->filled;
	int n = sprintf(text, "filled %" PRIu64, i);
	const struct kvd_change with = with_flags(i);
	int rc = kvd_put_with(self.session, text, (size_t)n, &i, sizeof i, &with, NULL);

	if (rc == KVD_OK && board->filled <= i)
		board->filled = i + 1;
	if (rc < 0)
		failed("PUT of a new key", rc);
}

static void do_read_filled(void)
{
	char text[32];
	struct kvd_info info = { .size = sizeof info };
	uint64_t value, i;

	if (!board->filled)
		return;
	i = sim_roll(2) ? sim_roll(board->filled) : board->filled - 1;
	int n = sprintf(text, "filled %" PRIu64, i);
	int rc = kvd_get_info(self.session, text, (size_t)n, &value, sizeof value, &info);
	if (rc == KVD_NOT_FOUND || (rc == KVD_OK && (info.value_bytes != sizeof value || value != i ||
						     info.flags != flags_of(i))))
		sim_judge(SIM_WRONG, "'%s' was stored: %s", text,
			  rc == KVD_OK ? "wrong value or flags" : "not found");
	else if (rc < 0)
		failed("GET", rc);
}

void do_deed(enum deed deed)
{
	board->deeds++;
	switch (deed) {
	case DEED_GET:
		do_get(pick_key());
		break;
	case DEED_PUT:
		do_put(pick_key());
		break;
	case DEED_DEL:
		do_del(pick_key());
		break;
	case DEED_LOCK:
		do_lock(pick_key());
		break;
	case DEED_UPDATE:
		do_update();
		break;
	case DEED_TRANSFER:
		do_transfer();
		break;
	case DEED_AUDIT:
		do_audit();
		break;
	case DEED_FILL:
		do_fill();
		break;
	case DEED_READ_FILLED:
		do_read_filled();
		break;
	case DEEDS:
		break;
	}
}

static enum deed pick_deed(void)
{
	const uint32_t *weight = board->plan.weight;
	uint64_t sum = 0, at;
	unsigned d = 0;

	for (unsigned i = 0; i < DEEDS; i++)
		sum += weight[i];
	for (at = sim_roll(sum); at >= weight[d]; d++)
		at -= weight[d];
	return (enum deed)d;
}

/* --------------------------------------------------------------- processes */

void connect_to_kvd(int number, bool is_patient)
{
	struct kvd_options options = { .size = sizeof options, .timeout_ms = 3000,
				       .mirror_bytes = board->plan.no_mirror ? SIZE_MAX : 0 };

	self.number = number;
	if (kvd_client_new("127.0.0.1", &options, &self.client) < 0) {
		sim_judge(SIM_WRONG, "client %d: %s", number, kvd_client_error(self.client));
		_Exit(1);
	}
	/* kvd may not serve yet, or its device fail on purpose. */
	for (int tries = 0; kvd_session_new(self.client, &self.session) < 0; tries++) {
		if (!is_patient && !board->plan.is_faulty)
			sim_judge(SIM_WRONG, "client %d: %s", number, kvd_client_error(self.client));
		if (tries > 200)
			_Exit(1);
		poll(NULL, 0, 2);
	}
}

void hang_up(void)
{
	kvd_session_delete(&self.session);
	kvd_client_delete(&self.client);
}

void client_run(void *number)
{
	int i = (int)(intptr_t)number;

	setenv("SOFTVERBS_FAULT", board->plan.faults, 1);
	connect_to_kvd(i, false);
	while (board->done[i] < board->plan.operations) {
		board->done[i]++;
		if (board->plan.batches && sim_roll(2))
			do_batch();
		else
			do_deed(pick_deed());
	}
	hang_up();
}

void client_prepare(void *unused)
{
	int64_t money = MONEY;
	char text[32];

	(void)unused;
	unsetenv("SOFTVERBS_FAULT");
	connect_to_kvd(CLIENTS_MAX - 1, true);
	for (unsigned i = 0; i < ACCOUNTS; i++)
		if (kvd_put(self.session, text, (size_t)account_name(text, i), &money, sizeof money,
			    NULL) < 0)
			sim_judge(SIM_WRONG, "prepare: %s", kvd_session_error(self.session));
	if (kvd_put(self.session, "counter", 7, "0", 1, NULL) < 0)
		sim_judge(SIM_WRONG, "prepare: %s", kvd_session_error(self.session));
	hang_up();
}

void client_conclude(void *unused)
{
	char text[32] = "";
	size_t bytes;

	(void)unused;
	unsetenv("SOFTVERBS_FAULT");
	connect_to_kvd(CLIENTS_MAX - 1, true);
	for (int i = 0; i < board->plan.keys; i++)
		do_get((uint64_t)i);
	for (uint64_t n = board->filled; board->filled; board->filled--, n--)
		do_read_filled();
	for (int tries = 0; !do_audit(); tries++)
		if (tries == 10)
			sim_judge(SIM_WRONG, "an audit does not succeed when nobody else is there");
	int rc = kvd_get(self.session, "counter", 7, text, sizeof text - 1, &bytes, NULL);
	uint64_t sum = (uint64_t)atoll(text);
	if (rc != KVD_OK || sum < board->counted || sum > board->counted + board->maybe_counted)
		sim_judge(SIM_WRONG, "the counter is %" PRIu64 ", %" PRIu64
			  " increments were acknowledged, %" PRIu64 " may have been: %s", sum,
			  board->counted, board->maybe_counted, kvd_strerror(rc));
	hang_up();
}

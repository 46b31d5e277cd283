/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One request: checked against every limit before anything is looked at, then
 * executed, then answered.  A request that is malformed closes its connection.
 */
#include "server/worker/request/request.h"

#include <string.h>

#include "common/clock.h"
#include "server/durable/backup.h"
#include "server/lock/locker.h"
#include "server/store/change/rmw.h"
#include "server/store/item/heat.h"
#include "server/store/reclaim/clear.h"
#include "server/store/txn.h"
#include "server/table/index.h"
#include "server/worker/conn.h"
#include "server/worker/conn_impl.h"
#include "server/worker/context.h"
#include "server/worker/request/attributes.h"
#include "server/worker/request/impl.h"
#include "server/worker/request/told.h"
#include "server/worker/worker_impl.h"

static enum request_fate answer(struct request *r, enum wire_status status)
{
	reply_answer(&r->worker->tx, r->to, r->head, status);
	return REQUEST_DONE;
}

/* The user's role is too small for it. */
static enum request_fate forbid(struct request *r)
{
	atomic_fetch_add_explicit(&r->worker->server->forbidden, 1, memory_order_relaxed);
	return answer(r, WIRE_EDENIED);
}

static enum request_fate answer_result(struct request *r, enum wire_status status,
				       const struct store_result *result)
{
	reply_answer_result(&r->worker->tx, r->to, r->head, status, result);
	return REQUEST_DONE;
}

/* After a STORE_COMMIT: request_committed() answers when the change's record is on disk. */
static struct owed *owe(struct request *r)
{
	struct worker *w = r->worker;

	return owed_add(&w->owed, w->store.commit, r->to, r->head, r->key, timing_take(&w->timings));
}

static enum request_fate answer_change(struct request *r, int status,
				       const struct store_result *result)
{
	if (status == STORE_ASIDE)
		return REQUEST_ASIDE;
	if (status != STORE_COMMIT)
		return answer_result(r, (enum wire_status)status, result);
	owe(r);
	return REQUEST_DONE;
}

static struct store_change change_of(const struct request *r)
{
	const struct wire_request *q = r->head;

	return (struct store_change){
		.hash = r->hash ? *r->hash
				: hash_key(r->worker->server->table->hash_seed, r->key, q->key_bytes),
		.key = r->key,
		.key_bytes = q->key_bytes,
		.value = r->value,
		.value_bytes = q->value_bytes,
		.token = q->token,
		.with = request_attributes(r->worker->server->store, q),
		.version = q->version,
		.flags = q->flags,
	};
}

/* What a flush whose time has come is to take away goes ahead of a request for it. */
static bool clear_ahead(struct request *r, const struct store_change *key)
{
	return !clear_is_due(r->worker->server->store) || clear_key(&r->worker->store, key);
}

static enum request_fate do_ping(struct request *r)
{
	return answer(r, WIRE_OK);
}

/* Of one-sided GETs, for eviction; nothing in it is believed. */
static enum request_fate do_hints(struct request *r)
{
	struct heat *heat = r->worker->server->store->heat;
	uint32_t hint;

	for (uint64_t at = 0; at + sizeof hint <= r->head->value_bytes; at += sizeof hint) {
		memcpy(&hint, r->value + at, sizeof hint);
		heat_note_hint(heat, hint);
	}
	return answer(r, WIRE_OK);
}

/* A value that is too long for a message: where it stands, for the client to READ it. */
static enum request_fate answer_pinned(struct request *r, const struct store_change *key)
{
	struct worker *w = r->worker;
	struct store_result result = { 0 };
	int status = pinned_take(&w->pinned, &w->store, &r->conn->pinned, key, &result, clock_ns());

	if (status == STORE_ASIDE)
		return REQUEST_ASIDE;
	struct txbuf *tx = reply_new(&w->tx, r->to, r->head, (enum wire_status)status);
	struct wire_reply *reply = reply_head(tx);
	if (status == WIRE_OK) {
		reply->flags = WIRE_PINNED;
		reply->version = result.version;
		reply->value_bytes = result.value_bytes;
		reply->word = result.word;
	}
	reply_send(&w->tx, tx, 0);
	return REQUEST_DONE;
}

/* What a reply tells of an item beside its value. */
static void tell_item(struct wire_reply *reply, const struct store_result *result)
{
	reply->version = result->version;
	reply->value_bytes = result->value_bytes;
	reply->word = result->with.expiry_ms;
	reply->item_flags = result->with.flags;
	reply->item_signs = (uint16_t)result->with.signs;
}

static enum request_fate answer_head(struct request *r, const struct store_change *key)
{
	struct store_result result = { 0 };
	int status = store_head(&r->worker->store, key, &result);

	if (status == STORE_ASIDE)
		return REQUEST_ASIDE;
	struct txbuf *tx = reply_new(&r->worker->tx, r->to, r->head, (enum wire_status)status);
	if (status == WIRE_OK)
		tell_item(reply_head(tx), &result);
	reply_send(&r->worker->tx, tx, 0);
	return REQUEST_DONE;
}

static enum request_fate do_get(struct request *r)
{
	struct store_change key = change_of(r);
	struct store_result result = { 0 };

	clear_ahead(r, &key); /* a locked one is there until it is not locked */
	if (r->head->flags & WIRE_HEAD)
		return answer_head(r, &key);
	struct txbuf *tx = reply_new(&r->worker->tx, r->to, r->head, WIRE_OK);
	int status = store_get(&r->worker->store, &key, reply_payload(tx), REPLY_PAYLOAD_MAX, &result);
	struct wire_reply *reply = reply_head(tx);
	if (status == STORE_ASIDE || result.value_bytes > REPLY_PAYLOAD_MAX) {
		tx_release(&r->worker->tx, tx);
		return status == STORE_ASIDE ? REQUEST_ASIDE : answer_pinned(r, &key);
	}
	reply->status = (uint8_t)status;
	if (status == WIRE_OK)
		tell_item(reply, &result);
	reply_send(&r->worker->tx, tx, result.value_bytes);
	return REQUEST_DONE;
}

static enum request_fate do_release(struct request *r)
{
	struct worker *w = r->worker;

	/* A client that has many in flight gives back one after it has the next. */
	if (!r->head->version || r->head->version == r->conn->pinned.version)
		pinned_end(&w->pinned, &w->store, &r->conn->pinned);
	return answer(r, WIRE_OK);
}

static enum request_fate do_put(struct request *r)
{
	const struct wire_request *q = r->head;
	struct store_result result = { 0 };

	if (q->value_bytes > LAYOUT_VALUE_BYTES_MAX)
		return answer(r, WIRE_ETOOBIG);
	if (!store_fits(r->worker->server->store, layout_item_bytes(q->key_bytes, q->value_bytes)))
		return answer(r, WIRE_EMEMORY);
	struct store_change c = change_of(r);
	if (!clear_ahead(r, &c))
		return REQUEST_ASIDE;
	if (q->flags & WIRE_PULL)
		return pull_start(&r->worker->pulls, r->to, q, r->key, r->value);
	int status = store_put(&r->worker->store, &c, &result);
	return answer_change(r, status, &result);
}

static enum request_fate do_delete(struct request *r)
{
	struct store_change c = change_of(r);
	struct store_result result = { 0 };
	if (!clear_ahead(r, &c))
		return REQUEST_ASIDE;
	int status = store_remove(&r->worker->store, &c, &result);

	return answer_change(r, status, &result);
}

/* Reads the keys of a transaction; false if they don't fill the message exactly. */
static bool parse_txn(const struct request *r, struct txn_key *keys)
{
	const uint8_t *at = r->value, *end = r->value + r->head->value_bytes;
	uint64_t seed = r->worker->server->table->hash_seed;

	for (uint64_t i = 0; i < r->head->version; i++) {
		struct wire_txn w;
		if ((size_t)(end - at) < sizeof w)
			return false;
		memcpy(&w, at, sizeof w);
		at += sizeof w;
		if (!w.key_bytes || w.key_bytes > LAYOUT_KEY_BYTES_MAX || w.kind > WIRE_TXN_DELETE ||
		    (w.kind != WIRE_TXN_PUT && w.value_bytes) ||
		    (size_t)(end - at) < (size_t)w.key_bytes + w.value_bytes)
			return false;
		keys[i] = (struct txn_key){
			.kind = (enum wire_txn_kind)w.kind,
			.version = w.version,
			.change = { .hash = hash_key(seed, at, w.key_bytes), .key = at,
				    .key_bytes = w.key_bytes, .value = at + w.key_bytes,
				    .value_bytes = w.value_bytes },
		};
		at += w.key_bytes + w.value_bytes;
	}
	return at == end;
}

static bool txn_changes(const struct txn_key *keys, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (keys[i].kind != WIRE_TXN_CHECK)
			return true;
	return false;
}

static enum request_fate do_txn(struct request *r)
{
	struct txn_key keys[LAYOUT_TXN_KEYS_MAX];
	struct store_result result = { .bucket = ~0ull };
	unsigned failed = 0;

	if (!r->head->version || r->head->version > LAYOUT_TXN_KEYS_MAX || !parse_txn(r, keys))
		return answer(r, WIRE_EINVALID);
	if (r->conn->handshake.user.role < ROLE_WRITE && txn_changes(keys, (unsigned)r->head->version))
		return forbid(r);
	for (unsigned i = 0; i < r->head->version; i++)
		if (!clear_ahead(r, &keys[i].change))
			return REQUEST_ASIDE;
	int status = txn_run(&r->worker->store, keys, (unsigned)r->head->version, r->head->token,
			     &result.version, &failed);
	result.value_bytes = failed;
	return answer_change(r, status, &result);
}

/* Of a long value, in steps: it is answered when they are done. */
static enum request_fate rewrite(struct request *r, const struct store_change *c)
{
	struct worker *w = r->worker;
	uint64_t bytes = compute_joins((enum wire_op)r->head->op) ? c->value_bytes : 0;

	if (!rewrites_may_begin(&w->rewrites, r->to))
		return REQUEST_ASIDE;
	struct layout_item *input =
		store_item_new(&w->store, c->key, c->key_bytes, bytes, &c->with);
	if (!input)
		return answer(r, WIRE_EMEMORY);
	memcpy(input->data + c->key_bytes, c->value, bytes);
	rewrites_begin(&w->rewrites, r->to, r->head, input, timing_take(&w->timings));
	return REQUEST_DONE;
}

/* WIRE_INCR, WIRE_APPEND, WIRE_PREPEND, WIRE_TOUCH */
static enum request_fate do_compute(struct request *r)
{
	const struct wire_request *q = r->head;
	struct compute x;
	struct store_change c = change_of(r);
	struct store_result result = { 0 };

	if (q->value_bytes > LAYOUT_VALUE_BYTES_MAX)
		return answer(r, WIRE_ETOOBIG);
	if (!compute_init(&x, q, r->value))
		return answer(r, WIRE_EINVALID);
	if (!clear_ahead(r, &c))
		return REQUEST_ASIDE;
	if (q->flags & WIRE_PULL)
		return pull_start(&r->worker->pulls, r->to, q, r->key, r->value);
	c.compute = &x;
	int status = store_put(&r->worker->store, &c, &result);
	if (status == STORE_LONG)
		return rewrite(r, &c);
	if (status == STORE_COMMIT) {
		owe(r)->number = x.number;
		if (q->op == WIRE_INCR)
			r->worker->store.commit->op.fate.value_bytes = (uint64_t)x.number;
		return REQUEST_DONE;
	}
	if (q->op == WIRE_INCR && status == WIRE_OK)
		result.value_bytes = (uint64_t)x.number;
	return answer_change(r, status, &result);
}

/* Releases what was owed. */
static void pay(struct worker *w, struct owed *o, int status, struct store_result *result)
{
	o->to->commits--;
	if (o->flush) {
		request_flushed(w, o->to, &o->request, o->flush, status);
	} else {
		if (o->request.op == WIRE_INCR && status == WIRE_OK)
			result->value_bytes = (uint64_t)o->number;
		reply_answer_result(&w->tx, o->to, &o->request, (enum wire_status)status, result);
		timing_note(&w->timings, o->to->peer, &o->request, o->key, o->begun_ns);
	}
	owed_release(&w->owed, o);
}

void request_committed(struct worker *w, struct commit *m)
{
	/* The commit may be gone when it has ended.  NULL: nobody waits for it, it is an eviction. */
	struct owed *owed = m->caller;
	struct store_result result;
	int status = commit_end(&w->store, m, &result);

	w->tx.is_committed = true;
	if (owed && status != STORE_SILENT)
		pay(w, owed, status, &result);
	w->tx.is_committed = false;
}

static enum request_fate do_stats(struct request *r)
{
	struct txbuf *tx = reply_new(&r->worker->tx, r->to, r->head, WIRE_OK);
	size_t n = r->worker->server->hooks.stats(r->worker->server, (char *)reply_payload(tx), REPLY_PAYLOAD_MAX);

	reply_head(tx)->value_bytes = n;
	reply_send(&r->worker->tx, tx, n);
	return REQUEST_DONE;
}

static enum request_fate do_backup(struct request *r)
{
	struct server *s = r->worker->server;
	char path[LAYOUT_KEY_BYTES_MAX + 1], text[600];

	if (!s->durable)
		return answer(r, WIRE_EUNSUPPORTED);
	if (memchr(r->key, 0, r->head->key_bytes))
		return answer(r, WIRE_EINVALID);
	memcpy(path, r->key, r->head->key_bytes);
	path[r->head->key_bytes] = '\0';
	struct txbuf *tx = reply_new(&r->worker->tx, r->to, r->head, WIRE_OK);
	enum durable_backup b = durable_backup(s->durable, path, text, sizeof text);
	static_assert((int)BACKUP_RUNNING == WIRE_BACKUP_RUNNING &&
		      (int)BACKUP_DONE == WIRE_BACKUP_DONE &&
		      (int)BACKUP_FAILED == WIRE_BACKUP_FAILED, "wire");
	reply_head(tx)->version = (uint64_t)b;
	reply_head(tx)->value_bytes = strlen(text);
	memcpy(reply_payload(tx), text, strlen(text));
	reply_send(&r->worker->tx, tx, strlen(text));
	return REQUEST_DONE;
}

/* A token that names another connection, or none, is a forgery. */
static bool is_own_token(const struct conn *c, uint64_t token)
{
	return token && !(token & LAYOUT_LOCK_WAIT) &&
	       layout_token_connection(token) ==
		       (c->sendq.connection_id & LAYOUT_LOCK_CONNECTION_MASK);
}

static enum request_fate do_lock(struct request *r)
{
	struct server *s = r->worker->server;

	if (!s->locker)
		return answer(r, WIRE_EUNSUPPORTED);
	if (r->head->version >= s->table->stripes || !r->head->token)
		return answer(r, WIRE_EINVALID);
	if (r->head->op == WIRE_LOCK) {
		if (!locker_wait(s->locker, r->conn, r->head))
			return answer(r, WIRE_EBUSY);
		timing_take(&r->worker->timings); /* not timed */
		return REQUEST_DONE; /* the locker answers */
	}
	locker_unlock(s->locker, r->head->version, r->head->token);
	return answer(r, WIRE_OK);
}

static const struct {
	enum request_fate (*handle)(struct request *r);
	enum role role; /* that it takes */
	bool has_key;
	bool has_value;
	bool may_lack_key;
	bool has_long_reply; /* perhaps; that of a hello comes once */
} ops[WIRE_OPS] = {
	[WIRE_HELLO] = { request_hello, ROLE_NONE, true, true, true, false },
	[WIRE_PING] = { do_ping, ROLE_READ, false, true, false, false },
	[WIRE_GET] = { do_get, ROLE_READ, true, false, false, true },
	[WIRE_PUT] = { do_put, ROLE_WRITE, true, true, false, false },
	[WIRE_DELETE] = { do_delete, ROLE_WRITE, true, false, false, false },
	[WIRE_KEYS] = { request_keys, ROLE_READ, true, false, true, true },
	[WIRE_FLUSH] = { request_flush, ROLE_ADMIN, false, false, false, false },
	[WIRE_STATS] = { do_stats, ROLE_READ, false, false, false, true },
	[WIRE_RELEASE] = { do_release, ROLE_READ, false, false, false, false },
	[WIRE_LOCK] = { do_lock, ROLE_WRITE, false, false, false, false },
	[WIRE_UNLOCK] = { do_lock, ROLE_WRITE, false, false, false, false },
	[WIRE_FATE] = { request_fate_of, ROLE_WRITE, false, false, false, false },
	[WIRE_TXN] = { do_txn, ROLE_READ, false, true, false, false }, /* one that changes something: more */
	[WIRE_INCR] = { do_compute, ROLE_WRITE, true, true, false, false },
	[WIRE_APPEND] = { do_compute, ROLE_WRITE, true, true, false, false },
	[WIRE_PREPEND] = { do_compute, ROLE_WRITE, true, true, false, false },
	[WIRE_TOUCH] = { do_compute, ROLE_WRITE, true, false, false, false },
	[WIRE_HINTS] = { do_hints, ROLE_READ, false, true, false, false },
	[WIRE_BACKUP] = { do_backup, ROLE_ADMIN, true, false, false, true },
	[WIRE_WHERE] = { request_where, ROLE_READ, false, false, false, true },
	[WIRE_CLUSTER] = { request_cluster, ROLE_ADMIN, true, false, true, true },
};

static enum request_fate handle(struct request *r)
{
	unsigned op = r->head->op;
	enum request_fate fate;

	if (r->worker->server->membership && request_as_member(r, ops[op].role >= ROLE_WRITE, &fate))
		return fate;
	return ops[op].handle(r);
}

/* It takes as long as many others. */
static bool is_slow(unsigned op)
{
	return op == WIRE_KEYS || op == WIRE_FLUSH || op == WIRE_STATS;
}

/* What is wrong with a message, or NULL. */
static const char *check(const struct conn *c, const struct wire_request *q, uint32_t bytes)
{
	if (bytes < sizeof *q)
		return "a message shorter than its header";
	if (q->op == 0 || q->op >= WIRE_OPS || !ops[q->op].handle)
		return "an unknown operation";
	if (c->state == CONN_DENIED)
		return "a request after a hello that proved nothing";
	if ((c->state == CONN_NEW) != (q->op == WIRE_HELLO))
		return q->op == WIRE_HELLO ? "a second hello" : "a request before its hello";
	if (q->token && !is_own_token(c, q->token))
		return "a token that is not its own";
	bool no_key = !ops[q->op].has_key || (ops[q->op].may_lack_key && !q->key_bytes);
	if (no_key ? q->key_bytes != 0 : !q->key_bytes || q->key_bytes > LAYOUT_KEY_BYTES_MAX)
		return "a key length out of bounds";
	/* That of a lock is how long to wait for it. */
	bool is_unix = (q->flags & WIRE_UNIX) && q->op != WIRE_LOCK;
	if (q->ttl_ms > (is_unix ? WIRE_UNIX_MS_MAX : WIRE_TTL_MS_MAX))
		return "a time to live out of bounds";
	uint64_t behind = bytes - sizeof *q, value = ops[q->op].has_value ? q->value_bytes : 0;
	if (q->flags & WIRE_PULL) {
		if ((q->op != WIRE_PUT && !compute_joins((enum wire_op)q->op)) || !value || !q->segments ||
		    q->segments > WIRE_SEGMENTS_MAX)
			return "a pull without a value";
		value = q->segments * sizeof(struct wire_segment);
	}
	if (behind < q->key_bytes || behind - q->key_bytes != value)
		return "lengths that don't fit the message";
	return NULL;
}

enum request_fate request_handle(struct worker *w, struct conn *c, const uint8_t *message,
				 uint32_t bytes, const struct hash *hash)
{
	const struct wire_request *q = (const struct wire_request *)message;
	const char *wrong = check(c, q, bytes);

	if (wrong) {
		conn_close_malformed(c, wrong);
		return REQUEST_DONE;
	}
	/* Those that wait for the same come first. */
	bool is_long = ops[q->op].has_long_reply;
	if (!reply_may(&w->tx, &c->sendq, is_long) ||
	    (((is_long && c->sendq.aside) || is_slow(q->op)) && !w->deferred.is_trying))
		return REQUEST_ASIDE;
	struct request r = { .worker = w, .conn = c, .to = &c->sendq,
			     .user = &c->handshake.user, .head = q, .key = message + sizeof *q,
			     .value = message + sizeof *q + q->key_bytes, .hash = hash };
	if (c->handshake.user.role < ops[q->op].role)
		return forbid(&r);
	enum request_fate fate = handle(&r);
	if (fate == REQUEST_DONE)
		stats_add(&w->stats.requests[q->op], 1);
	else
		stats_add(&w->stats.aside, 1);
	if (fate == REQUEST_DONE)
		timing_note(&w->timings, c->sendq.peer, q, r.key, w->timings.begun_ns);
	return fate;
}

bool request_is_slow(const uint8_t *message)
{
	const struct wire_request *q = (const struct wire_request *)message;

	return is_slow(q->op);
}

bool request_prefetch(const struct worker *w, const uint8_t *message, uint32_t bytes,
		      struct index_spot *spot)
{
	const struct wire_request *q = (const struct wire_request *)message;
	const struct table *t = w->server->table;

	for (uint32_t i = 64; i < bytes && i < 512; i += 64)
		__builtin_prefetch(message + i);
	if (bytes < sizeof *q || !q->key_bytes || bytes - sizeof *q < q->key_bytes)
		return false;
	struct hash hash = hash_key(t->hash_seed, message + sizeof *q, q->key_bytes);
	uint64_t stripe = layout_stripe(hash.b, t->stripes);
	__builtin_prefetch((const void *)&t->marks[stripe], 1);
	__builtin_prefetch((const void *)&t->locks[stripe]);
	index_prefetch(w->server->store->index, hash, spot);
	return true;
}

bool request_answer_busy(struct worker *w, struct conn *c, const uint8_t *message)
{
	const struct wire_request *q = (const struct wire_request *)message;

	if (!reply_may(&w->tx, &c->sendq, false))
		return false;
	reply_answer(&w->tx, &c->sendq, q, WIRE_EBUSY);
	timing_note(&w->timings, c->sendq.peer, q, message + sizeof *q, w->timings.begun_ns);
	return true;
}

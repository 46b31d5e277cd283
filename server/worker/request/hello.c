/* SPDX-License-Identifier: BSD-2-Clause */
/* The first message of a connection: proofs, then rights. */
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/log_limit.h"
#include "server/access/rate_limit.h"
#include "server/lock/locker.h"
#include "server/store/item/heat.h"
#include "server/worker/conn.h"
#include "server/worker/conn_impl.h"
#include "server/worker/context.h"
#include "server/worker/fate.h"
#include "server/worker/request/impl.h"
#include "server/worker/worker_impl.h"

/* It is told after DENIED_NS, and closed: see server/host/reap.c. */
static enum request_fate deny(struct request *r)
{
	struct conn *c = r->conn;
	struct server *s = r->worker->server;

	atomic_fetch_add_explicit(&s->denied, 1, memory_order_relaxed);
	knock_failed(s->knock, &c->peer, clock_ns());
	log_limited(LOG_LEVEL_WARN, "a hello that proves nothing",
		    "%s: a hello that proves nothing (user '%.*s')", c->peer.text,
		    auth_name_is_good((const char *)r->key, r->head->key_bytes) ? r->head->key_bytes : 0,
		    (const char *)r->key);
	c->hello_id = r->head->request_id;
	c->denial = WIRE_EDENIED;
	__atomic_store_n(&c->state, CONN_DENIED, __ATOMIC_RELAXED);
	atomic_store(&c->denied_ns, clock_ns());
	return REQUEST_DONE;
}

/* A user who has as many as one may have: told in the same way, but it is no offence. */
static enum request_fate turn_away(struct request *r)
{
	struct conn *c = r->conn;
	struct server *s = r->worker->server;

	atomic_fetch_add_explicit(&s->refused, 1, memory_order_relaxed);
	log_limited(LOG_LEVEL_WARN, "a user has all connections that one may have",
		    "%s: user '%s' has the %u connections that one may have (--user-connections)",
		    c->peer.text, c->handshake.user.name, gate_seats(s->gate));
	c->hello_id = r->head->request_id;
	c->denial = WIRE_EBUSY;
	__atomic_store_n(&c->state, CONN_DENIED, __ATOMIC_RELAXED);
	atomic_store(&c->denied_ns, clock_ns());
	return REQUEST_DONE;
}

static struct wire_welcome welcome_of(const struct server *s, const struct conn *c)
{
	const struct table *t = s->table;

	return (struct wire_welcome){
		.table_addr = (uintptr_t)t->base,
		.table_bytes = t->bytes,
		.lock_addr = (uintptr_t)t->locks,
		.stripes = t->stripes,
		.marks_offset = t->marks_offset,
		.scratch_offset = t->scratch_offset,
		.dir_offset = t->dir_offset,
		.dir_entries = t->dir_entries,
		.segment_bytes = t->segment_bytes,
		.connection_id = c->sendq.connection_id,
		.instance = s->instance,
		.hash_seed = t->hash_seed,
		.workers = t->workers,
		.credits = c->credits,
		.message_bytes_max = WIRE_MESSAGE_BYTES_MAX,
		.hints_every = s->store->heat ? HEAT_HINTS_EVERY : 0,
		.flags = s->membership ? WIRE_WELCOME_LEASE : 0,
		.reign = c->sendq.reign,
		.hint_shift = s->store->heat ? heat_hint_shift(s->store->heat) : 0,
	};
}

/* In a cluster a lock is of a reign. */
static bool may_lock(const struct server *s, const struct conn *c)
{
	return c->handshake.user.role >= ROLE_WRITE && s->rails[0].limits.atomics &&
	       (!s->membership || c->sendq.reign);
}

/* What remote rights its user's role gives it.  Lock words are changed by atomics of the first
 * device, and no other's: who came by another one asks the locker. */
static int rights_of(const struct server *s, const struct conn *c)
{
	int rights = c->handshake.user.role >= ROLE_READ ? IBV_ACCESS_REMOTE_READ : 0;

	return may_lock(s, c) && !c->handshake.rail ? rights | IBV_ACCESS_REMOTE_ATOMIC : rights;
}

/* Who has proved nothing has no id: none could be used up from outside. */
static bool give_id(struct server *s, struct conn *c, const struct wire_request *hello)
{
	enum locker_role role = !may_lock(s, c)	    ? LOCKER_NONE
				: hello->value_rkey ? LOCKER_HOLDS
						    : LOCKER_WRITES;
	uint64_t id = s->locker ? locker_born(s->locker, c->lock_note, c->number, role)
				: atomic_fetch_add(&s->last_id, 1) + 1;

	c->sendq.connection_id = id;
	atomic_store(&c->connection_id, id);
	return id;
}

/* Remote rights and rkeys come here, and nowhere else. */
enum request_fate request_hello(struct request *r)
{
	struct server *s = r->worker->server;
	struct conn *c = r->conn;
	struct txbuf *tx;

	if (!conn_check_rights(c, 0)) {
		conn_close(c, "its queue pair has remote rights that nobody gave it");
		return REQUEST_DONE;
	}
	atomic_store(&c->said_hello, true);
	if (!gate_admit(s->gate, &c->handshake, r->head, r->key, r->value))
		return deny(r);
	if (!gate_take_seat(s->gate, &c->handshake))
		return turn_away(r);
	const struct user *user = &c->handshake.user;
	if (s->membership)
		c->sendq.reign = atomic_load(&s->membership->reign);
	int rights = rights_of(s, c);
	if (!give_id(s, c, r->head)) {
		conn_close(c, "the ids of all connections are in use");
		return REQUEST_DONE;
	}
	int rc = link_qp_set_access(s->verbs, c->qp, rights);
	if (rc) {
		log_error("can't give %s its rights: %s", c->peer.text, strerror(rc));
		conn_close(c, "its queue pair can't be given remote rights");
		return REQUEST_DONE;
	}
	if (!conn_check_rights(c, rights)) {
		conn_close(c, "its queue pair has other remote rights than its user");
		return REQUEST_DONE;
	}
	c->sendq.fate = fate_ring_new(gate_secret(s->gate, user, r->head->value_checksum), c->credits);
	if (!c->sendq.fate) {
		conn_close(c, "no memory for it");
		return REQUEST_DONE;
	}
	__atomic_store_n(&c->state, CONN_READY, __ATOMIC_RELAXED); /* conn_is_pending() looks */
	c->held_addr = r->head->value_addr;
	c->held_rkey = r->head->value_rkey;
	c->takes_notices = r->head->flags & WIRE_NOTICES;
	atomic_fetch_add_explicit(&s->connections, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&s->pending, 1, memory_order_relaxed);
	tx = reply_new(&r->worker->tx, r->to, r->head, WIRE_OK);
	struct wire_welcome welcome = welcome_of(s, c);
	reply_send(&r->worker->tx, tx,
		   gate_welcome(s->gate, &c->handshake, r->head, r->value, &welcome, reply_payload(tx)));
	return REQUEST_DONE;
}

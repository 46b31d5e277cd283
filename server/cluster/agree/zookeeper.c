/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ZooKeeper's C client has two threads of its own: one for its connection, one that calls
 * what is here with answers and events.  Those put them in, and return.
 *
 * A write whose connection broke, or whose session ended, is AGREE_UNKNOWN: nobody says
 * whether the servers had it.
 */
#include "server/cluster/agree/zookeeper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zookeeper/zookeeper.h>

#include "common/log.h"
#include "server/cluster/agree/impl.h"

struct session {
	zhandle_t *zk;
	char *digest;   /* NULL: it proves nothing */
	bool is_proved; /* the library does it again after a reconnection */
};

static zhandle_t *zk_of(struct agree_call *c)
{
	return ((struct session *)c->agree->handle)->zk;
}

static enum agree_status status_of(int rc)
{
	switch (rc) {
	case ZOK: return AGREE_DONE;
	case ZNONODE: return AGREE_ABSENT;
	case ZNODEEXISTS: return AGREE_EXISTS;
	case ZBADVERSION: return AGREE_VERSION;
	case ZNOAUTH:
	case ZAUTHFAILED:
	case ZINVALIDACL: return AGREE_DENIED;
	default: return AGREE_UNKNOWN;
	}
}

static void answer(struct agree_call *c, int rc)
{
	agree_answer(c, status_of(rc), rc == ZOK ? NULL : zerror(rc));
}

static void on_read(int rc, const char *bytes, int length, const struct Stat *stat, const void *arg)
{
	struct agree_call *c = (struct agree_call *)(uintptr_t)arg;

	if (rc == ZOK) {
		c->version = stat->version;
		if (!agree_call_bytes(c, bytes, length > 0 ? (size_t)length : 0)) {
			agree_answer(c, AGREE_UNKNOWN, "it is too long");
			return;
		}
	}
	answer(c, rc);
}

static void on_write(int rc, const struct Stat *stat, const void *arg)
{
	struct agree_call *c = (struct agree_call *)(uintptr_t)arg;

	if (rc == ZOK)
		c->version = stat->version;
	answer(c, rc);
}

static void on_create(int rc, const char *path, const void *arg)
{
	(void)path;
	answer((struct agree_call *)(uintptr_t)arg, rc);
}

static void on_list(int rc, const struct String_vector *names, const void *arg)
{
	struct agree_call *c = (struct agree_call *)(uintptr_t)arg;

	for (int i = 0; rc == ZOK && i < names->count; i++)
		if (!agree_call_name(c, names->data[i])) {
			agree_answer(c, AGREE_UNKNOWN, "there are too many");
			return;
		}
	answer(c, rc);
}

/* What was not even begun, as the session is over or there is no memory. */
static void begun(struct agree_call *c, int rc)
{
	if (rc != ZOK)
		answer(c, rc);
}

static void zk_read(struct agree_call *c, bool watch)
{
	begun(c, zoo_aget(zk_of(c), c->path, watch, on_read, c));
}

static void zk_write(struct agree_call *c, const void *bytes, size_t length, int32_t version)
{
	begun(c, zoo_aset(zk_of(c), c->path, bytes, (int)length, version, on_write, c));
}

static void zk_create(struct agree_call *c, const void *bytes, size_t length, bool is_ephemeral)
{
	const struct session *s = c->agree->handle;

	begun(c, zoo_acreate(s->zk, c->path, bytes, (int)length,
			     s->digest ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE,
			     is_ephemeral ? ZOO_EPHEMERAL : 0, on_create, c));
}

static void zk_list(struct agree_call *c)
{
	begun(c, zoo_aget_children(zk_of(c), c->path, 0, on_list, c));
}

static void zk_close(struct agree *a)
{
	struct session *s = a->handle;

	/* It answers what is outstanding with ZCLOSING, and joins both threads.  Answers that it has
	 * and did not deliver yet are its leak: some hundred bytes each. */
	if (s->zk)
		zookeeper_close(s->zk);
	free(s->digest);
	free(s);
}

static void on_session(struct agree *a, int state)
{
	if (state == ZOO_CONNECTED_STATE)
		agree_session_is(a, AGREE_CONNECTED);
	else if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE)
		agree_session_is(a, AGREE_OVER);
	else
		agree_session_is(a, AGREE_AWAY);
}

static void on_digest(int rc, const void *arg)
{
	(void)arg;
	if (rc != ZOK && rc != ZCLOSING)
		log_error("proving the cluster's key to ZooKeeper: %s", zerror(rc));
}

/* Not before there is a connection: the library refuses that.  What is asked comes behind it. */
static void prove(struct agree *a, zhandle_t *zk)
{
	struct session *s = a->handle;

	if (!s->digest || s->is_proved)
		return;
	int rc = zoo_add_auth(zk, "digest", s->digest, (int)strlen(s->digest), on_digest, NULL);
	s->is_proved = rc == ZOK;
	if (rc != ZOK)
		log_error("proving the cluster's key to ZooKeeper: %s", zerror(rc));
}

static void on_event(zhandle_t *zk, int type, int state, const char *path, void *arg)
{
	struct agree *a = arg;

	if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE)
		prove(a, zk);
	if (type == ZOO_SESSION_EVENT)
		on_session(a, state);
	else if (path && path[0])
		agree_changed(a, path);
}

static int start(struct agree *a, const struct agree_zookeeper *o, struct err *err)
{
	struct session *s = a->handle;

	s->digest = o->digest ? strdup(o->digest) : NULL;
	if (o->digest && !s->digest)
		return err_set(err, -1, "ZooKeeper at %s: no memory", o->servers);
	s->zk = zookeeper_init(o->servers, on_event, (int)o->timeout_ms, NULL, a, 0);
	if (!s->zk)
		return err_set_errno(err, -1, errno, "ZooKeeper at %s", o->servers);
	return 0;
}

int agree_zookeeper_open(const struct agree_zookeeper *o, const struct agree_events *events,
			 struct agree **agree, struct err *err)
{
	static const struct agree_engine engine = { zk_read, zk_write, zk_create, zk_list, zk_close };
	struct session *s = calloc(1, sizeof *s);
	struct agree *a = s ? agree_new(&engine, s, events) : NULL;

	if (!a) {
		free(s);
		return err_set_errno(err, -1, errno, "ZooKeeper at %s", o->servers);
	}
	zoo_set_debug_level(0);
	if (start(a, o, err)) {
		agree_close(&a);
		return -1;
	}
	*agree = a;
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records in a table, under one mutex; the lock of a session is taken inside it.  Every call
 * is answered before it returns, and delivered by agree_poll() as any answer.
 */
#include "server/cluster/agree/register.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/cluster/agree/impl.h"

struct record {
	char path[AGREE_PATH_BYTES]; /* empty: none */
	uint8_t bytes[AGREE_BYTES_MAX];
	size_t length;
	int32_t version;
	struct agree *owner; /* of an ephemeral one */
	uint32_t watched;    /* by which sessions */
};

/* A write or a create. */
struct change {
	char path[AGREE_PATH_BYTES];
	uint8_t bytes[AGREE_BYTES_MAX];
	size_t length;
	int32_t version;
	bool is_new;
	struct agree *owner;
};

struct agree_register {
	pthread_mutex_t lock;
	struct record records[AGREE_RECORDS_MAX];
	struct agree *sessions[AGREE_SESSIONS_MAX];
	enum agree_fault fault;
	struct change late;
	bool is_late;
};

struct agree_register *agree_register_new(void)
{
	struct agree_register *g = calloc(1, sizeof *g);

	if (g)
		pthread_mutex_init(&g->lock, NULL);
	return g;
}

void agree_register_delete(struct agree_register **reg)
{
	if (!*reg)
		return;
	pthread_mutex_destroy(&(*reg)->lock);
	free(*reg);
	*reg = NULL;
}

static struct record *find(struct agree_register *g, const char *path)
{
	for (unsigned i = 0; i < AGREE_RECORDS_MAX; i++)
		if (!strcmp(g->records[i].path, path))
			return &g->records[i];
	return NULL;
}

/* Whether there is what the path is below. */
static bool has_parent(struct agree_register *g, const char *path)
{
	char parent[AGREE_PATH_BYTES];
	size_t bytes = (size_t)(strrchr(path, '/') - path);

	memcpy(parent, path, bytes);
	parent[bytes] = 0;
	return !bytes || find(g, parent);
}

static void tell(struct agree_register *g, struct record *r)
{
	for (unsigned i = 0; i < AGREE_SESSIONS_MAX; i++)
		if (r->watched >> i & 1 && g->sessions[i])
			agree_changed(g->sessions[i], r->path);
	r->watched = 0;
}

static enum agree_status put(struct agree_register *g, const struct change *c, int32_t *version)
{
	struct record *r = find(g, c->path);

	if (c->is_new) {
		if (r)
			return AGREE_EXISTS;
		if (!has_parent(g, c->path))
			return AGREE_ABSENT;
		r = find(g, "");
		if (!r)
			return AGREE_DENIED;
		*r = (struct record){ .owner = c->owner };
		strcpy(r->path, c->path);
	} else if (!r) {
		return AGREE_ABSENT;
	} else if (r->version != c->version) {
		return AGREE_VERSION;
	} else {
		r->version++;
	}
	memcpy(r->bytes, c->bytes, c->length);
	r->length = c->length;
	*version = r->version;
	tell(g, r);
	return AGREE_DONE;
}

static const char *why(enum agree_status status)
{
	switch (status) {
	case AGREE_DONE: return NULL;
	case AGREE_ABSENT: return "it is not there";
	case AGREE_EXISTS: return "it is there already";
	case AGREE_VERSION: return "it has another version";
	case AGREE_DENIED: return "the register is full";
	case AGREE_UNKNOWN: break;
	}
	return "the answer was lost";
}

static bool is_over(struct agree *a)
{
	return a->session == AGREE_OVER;
}

static void make(struct agree_call *call, struct change *c)
{
	struct agree_register *g = call->agree->handle;
	enum agree_status status = AGREE_UNKNOWN;
	int32_t version = 0;

	strcpy(c->path, call->path);
	pthread_mutex_lock(&g->lock);
	enum agree_fault fault = is_over(call->agree) ? AGREE_LOSE_REQUEST : g->fault;
	if (fault == AGREE_LATE) {
		g->late = *c;
		g->is_late = true;
	} else if (fault != AGREE_LOSE_REQUEST) {
		status = put(g, c, &version);
	}
	if (fault)
		status = AGREE_UNKNOWN;
	if (!is_over(call->agree))
		g->fault = 0;
	pthread_mutex_unlock(&g->lock);
	call->version = version;
	agree_answer(call, status, why(status));
}

static void reg_write(struct agree_call *call, const void *bytes, size_t length, int32_t version)
{
	struct change c = { .length = length, .version = version };

	if (length)
		memcpy(c.bytes, bytes, length);
	make(call, &c);
}

static void reg_create(struct agree_call *call, const void *bytes, size_t length, bool is_ephemeral)
{
	struct change c = { .length = length, .is_new = true,
			    .owner = is_ephemeral ? call->agree : NULL };

	if (length)
		memcpy(c.bytes, bytes, length);
	make(call, &c);
}

static void reg_read(struct agree_call *call, bool watch)
{
	struct agree_register *g = call->agree->handle;
	enum agree_status status = AGREE_ABSENT;

	pthread_mutex_lock(&g->lock);
	struct record *r = find(g, call->path);
	if (is_over(call->agree)) {
		status = AGREE_UNKNOWN;
	} else if (r) {
		status = AGREE_DONE;
		call->version = r->version;
		agree_call_bytes(call, r->bytes, r->length);
		for (unsigned i = 0; watch && i < AGREE_SESSIONS_MAX; i++)
			if (g->sessions[i] == call->agree)
				r->watched |= 1u << i;
	}
	pthread_mutex_unlock(&g->lock);
	agree_answer(call, status, why(status));
}

/* The name, if the record is right below the path. */
static const char *name_below(const struct record *r, const char *path)
{
	size_t bytes = strcmp(path, "/") ? strlen(path) : 0;

	if (strncmp(r->path, path, bytes) || r->path[bytes] != '/')
		return NULL;
	return strchr(r->path + bytes + 1, '/') ? NULL : r->path + bytes + 1;
}

static void reg_list(struct agree_call *call)
{
	struct agree_register *g = call->agree->handle;
	bool is_root = !strcmp(call->path, "/");

	pthread_mutex_lock(&g->lock);
	enum agree_status status = is_over(call->agree) ? AGREE_UNKNOWN :
				   is_root || find(g, call->path) ? AGREE_DONE : AGREE_ABSENT;
	for (unsigned i = 0; status == AGREE_DONE && i < AGREE_RECORDS_MAX; i++) {
		const char *name = name_below(&g->records[i], call->path);
		if (name && !agree_call_name(call, name))
			status = AGREE_UNKNOWN;
	}
	pthread_mutex_unlock(&g->lock);
	agree_answer(call, status, status == AGREE_UNKNOWN ? "there are too many" : why(status));
}

/* Its ephemeral records and watches are gone. */
static void forget(struct agree_register *g, struct agree *a)
{
	for (unsigned i = 0; i < AGREE_RECORDS_MAX; i++)
		if (g->records[i].path[0] && g->records[i].owner == a) {
			tell(g, &g->records[i]);
			g->records[i].path[0] = 0;
		}
	for (unsigned i = 0; i < AGREE_SESSIONS_MAX; i++)
		if (g->sessions[i] == a)
			for (unsigned j = 0; j < AGREE_RECORDS_MAX; j++)
				g->records[j].watched &= ~(1u << i);
	if (g->late.owner == a)
		g->is_late = false;
}

static void reg_close(struct agree *a)
{
	struct agree_register *g = a->handle;

	pthread_mutex_lock(&g->lock);
	forget(g, a);
	for (unsigned i = 0; i < AGREE_SESSIONS_MAX; i++)
		if (g->sessions[i] == a)
			g->sessions[i] = NULL;
	pthread_mutex_unlock(&g->lock);
}

void agree_register_end(struct agree *a)
{
	struct agree_register *g = a->handle;

	pthread_mutex_lock(&g->lock);
	forget(g, a);
	agree_session_is(a, AGREE_OVER);
	pthread_mutex_unlock(&g->lock);
}

void agree_register_fault(struct agree_register *g, enum agree_fault fault)
{
	pthread_mutex_lock(&g->lock);
	g->fault = fault;
	pthread_mutex_unlock(&g->lock);
}

void agree_register_carry_out(struct agree_register *g)
{
	int32_t version;

	pthread_mutex_lock(&g->lock);
	if (g->is_late)
		put(g, &g->late, &version);
	g->is_late = false;
	pthread_mutex_unlock(&g->lock);
}

int agree_register_open(struct agree_register *g, const struct agree_events *events,
			struct agree **agree)
{
	static const struct agree_engine engine = { reg_read, reg_write, reg_create, reg_list,
						    reg_close };
	struct agree *a = agree_new(&engine, g, events);
	unsigned i = 0;

	if (!a)
		return errno;
	pthread_mutex_lock(&g->lock);
	while (i < AGREE_SESSIONS_MAX && g->sessions[i])
		i++;
	if (i < AGREE_SESSIONS_MAX)
		g->sessions[i] = a;
	pthread_mutex_unlock(&g->lock);
	if (i == AGREE_SESSIONS_MAX) {
		agree_close(&a);
		return ENOSPC;
	}
	agree_session_is(a, AGREE_CONNECTED);
	*agree = a;
	return 0;
}

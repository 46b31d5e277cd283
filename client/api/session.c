/* SPDX-License-Identifier: BSD-2-Clause */
/* A session, from beginning to end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "client/get/get.h"
#include "client/op/hints.h"
#include "client/op/operation.h"
#include "client/session/client.h"
#include "client/session/connect.h"
#include "client/session/device.h"
#include "client/session/event.h"
#include "client/session/session_impl.h"
#include "client/session/teardown.h"
#include "client/session/wait.h"

#define UNLOCK_NS_MAX 100000000ull
#define HELD_BYTES 4096u

static int new_memory(struct kvd_session *s)
{
	struct engine *e = &s->engine;
	size_t ops = e->depth * sizeof(struct op_memory);

	size_t rx = (size_t)e->rx_count * RX_STRIDE_BYTES;

	s->memory_bytes = ops + rx + sizeof *e->look;
	s->memory = mmap(NULL, s->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	if (s->memory == MAP_FAILED)
		s->memory = NULL;
	e->wr = calloc(e->sq_depth, sizeof *e->wr);
	e->sge = calloc((size_t)e->sq_depth * SGE_MAX, sizeof *e->sge);
	if (posix_memalign((void **)&e->held.page, HELD_BYTES, HELD_BYTES))
		e->held.page = NULL;
	else
		memset(e->held.page, 0, HELD_BYTES);
	if (!s->memory || !e->wr || !e->sge || !e->held.page)
		return KVD_ENOMEM;
	e->rx = s->memory + ops;
	e->look = (struct layout_lease *)(e->rx + rx);
	if (!ops_new(e, (struct op_memory *)s->memory))
		return KVD_ENOMEM;
	s->gets = gets_new(e);
	return s->gets ? 0 : KVD_ENOMEM;
}

static void set_up(struct kvd_session *s, struct kvd_client *client)
{
	struct engine *e = &s->engine;

	s->client = client;
	s->own = ROUTE_NOWHERE;
	e->options = &client->options;
	e->registrar = (struct registrar){ .verbs = client->verbs, .buffers = client->buffers };
	e->health.verbs = client->verbs;
	e->hasher = client->hasher;
	route_present(&client->route, &s->own, clock_ns(), &s->addr);
	e->health.peer = s->addr.text;
	e->health.user = client->has_credentials ? client->credentials.name : "this client";
	e->health.role = "";
	e->table.mirror = client->mirror;
	e->table.buckets = &client->buckets;
	e->time.limit_ns = (uint64_t)client->options.timeout_ms * 1000000;
	e->time.tick_ns = client->clock_tick_ns;
	e->get = client->options.get;
	e->depth = (uint32_t)client->options.depth + 1;
	e->rx_count = e->depth + 1;
	e->sq_depth = 4 * e->depth + 64;
	e->event_fd = e->timer_fd = -1;
	spin_init(&e->spin);
}

static int begin(struct kvd_session *s)
{
	struct engine *e = &s->engine;
	struct err *err = &e->health.err;

	if (getrandom(&e->secret, sizeof e->secret, 0) != sizeof e->secret)
		return err_set_errno(err, KVD_EDEVICE, errno, "no random number for a session");
	if (!s->client->verbs)
		return KVD_EINVAL;
	if (new_memory(s))
		return err_set(err, KVD_ENOMEM, "out of memory");
	return session_connect(s);
}

int kvd_session_new(kvd_client *client, kvd_session **session)
{
	struct kvd_session *s = calloc(1, sizeof *s);
	int rc;

	*session = NULL;
	if (!s)
		return KVD_ENOMEM;
	set_up(s, client);
	rc = begin(s);
	if (rc) {
		if (client->verbs) {
			pthread_mutex_lock(&client->lock);
			client->err = s->engine.health.err;
			pthread_mutex_unlock(&client->lock);
		}
		kvd_session_delete(&s);
		return rc;
	}
	*session = s;
	return KVD_OK;
}

void kvd_session_delete(kvd_session **session)
{
	struct kvd_session *s = *session;

	if (!s)
		return;
	struct engine *e = &s->engine;
	/* Unlocks that nobody waited for; kvd would release the locks, but later. */
	if (health_is_good(&e->health) && e->in_flight)
		session_poll(s, clock_ns() + UNLOCK_NS_MAX);
	session_disconnect(s);
	event_delete(e);
	session_leave_device(s);
	route_undeal(&s->client->route, &s->own);
	ops_delete(e);
	if (s->memory)
		munmap(s->memory, s->memory_bytes);
	directory_leave(&e->table.directory);
	free(e->held.page);
	hints_delete(e->hints);
	free(e->wr);
	free(e->sge);
	free(s->gets);
	free(s);
	*session = NULL;
}

const char *kvd_session_error(const kvd_session *session)
{
	return session->engine.health.err.text;
}

int kvd_connected(const kvd_session *session)
{
	return health_is_usable(&session->engine.health);
}

void kvd_session_counters(const kvd_session *session, struct kvd_counters *counters)
{
	*counters = session->engine.counters;
}

void kvd_session_receipt(kvd_session *s, struct kvd_receipt *receipt)
{
	s->engine.receipt = receipt;
}

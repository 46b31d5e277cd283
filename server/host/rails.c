/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/host/rails.h"

#include <stdio.h>

#include "common/log.h"
#include "server/access/gate.h"
#include "server/host/conns.h"
#include "server/host/host.h"
#include "server/host/options.h"
#include "server/worker/conn.h"
#include "server/worker/context.h"

/* ---- at start, when there is the first namespace only ---- */

/* Why there may be no second one, or NULL. */
static const char *objection(const struct server *s)
{
	if (s->device.bootstrap)
		return "with --bootstrap tcp kvd serves one device";
	return s->rail_count == RAILS_MAX ? "kvd serves four devices at the most" : NULL;
}

int rails_add(struct host *h, struct listener *l, struct err *err)
{
	struct server *s = h->servers;
	struct rail *r = rails_find(s, l->id->verbs);
	const char *why = r || !s->rail_count ? NULL : objection(s);

	if (why)
		return err_set(err, -1, "%s is on %s and %s on %s: %s; start another kvd there",
			       s->rails[0].addr.text, rail_name(&s->rails[0]), l->addr.text,
			       l->id->verbs->device->name, why);
	if (!r) {
		r = &s->rails[s->rail_count];
		r->number = s->rail_count++;
		r->ctx = l->id->verbs;
		r->port = l->id->port_num ? l->id->port_num : 1;
		r->addr = l->addr;
	}
	l->rail = r->number;
	return 0;
}

int rails_query(struct host *h, struct err *err)
{
	struct server *s = h->servers;

	for (unsigned i = 0; i < s->rail_count; i++) {
		struct rail *r = &s->rails[i];
		if (link_query(s->verbs, r->ctx, r->port, &r->limits, err))
			return -1;
	}
	if (!s->rails[0].limits.atomics)
		log_warn("%s has no atomics: no locks", rail_name(&s->rails[0]));
	return 0;
}

struct rail *rails_find(struct server *s, const struct ibv_context *ctx)
{
	for (unsigned i = 0; i < s->rail_count; i++)
		if (s->rails[i].ctx == ctx)
			return &s->rails[i];
	return NULL;
}

const char *rails_text(const struct server *s, char *buf, size_t buf_bytes)
{
	size_t used = 0;

	buf[0] = '\0';
	for (unsigned i = 0; i < s->rail_count && used < buf_bytes; i++)
		used += (size_t)snprintf(buf + used, buf_bytes - used, "%s%s", i ? ", " : "",
					 rail_name(&s->rails[i]));
	return buf;
}

/* ---- one is lost ---- */

struct loss {
	unsigned number, ended;
	const char *why;
};

static void end_one(void *arg, struct conn *c, const struct handshake *handshake)
{
	struct loss *loss = arg;

	if (handshake->rail != loss->number)
		return;
	conn_drop(c, loss->why);
	loss->ended++;
}

void rails_lose(struct host *h, unsigned number, const char *why)
{
	struct loss loss = { .number = number, .why = why };
	const struct rail *lost = &h->servers->rails[number];

	if (atomic_load(&lost->is_lost))
		return;
	for (unsigned i = 0; i < h->server_count; i++) {
		struct server *s = &h->servers[i];
		/* First: who comes now is refused, or is seen here (server/host/accept.c). */
		atomic_store(&s->rails[number].is_lost, true);
		pthread_mutex_lock(&s->conns_lock);
		conns_each(s, end_one, &loss);
		pthread_mutex_unlock(&s->conns_lock);
	}
	log_error("%s (%s) is of no use any more: %s; its %u connection%s, and kvd serves on by the "
		  "others; start kvd again when the device is well", rail_name(lost), lost->addr.text, why,
		  loss.ended, loss.ended == 1 ? " ends" : "s end");
}

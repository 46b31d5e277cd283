/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/session/where.h"

#include <string.h>

#include "client/op/operation.h"
#include "client/op/request.h"
#include "client/session/client.h"
#include "client/session/session_impl.h"
#include "client/session/wait.h"

int where_ask(struct kvd_session *s, bool goes, struct where *w)
{
	struct engine *e = &s->engine;
	struct op *op = op_new(e, &call_class, NULL, 0);
	const struct outcome *out;
	uint64_t asked_ns = clock_ns();
	char lines[WIRE_MESSAGE_BYTES_MAX];
	int rc = request_start(op, &(struct wire_request){ .op = WIRE_WHERE }, NULL, 0);

	*w = (struct where){ .epoch = 0 };
	if (!rc)
		rc = session_run(s, op, &out);
	if (rc)
		return rc;
	if (out->reply.status != WIRE_OK)
		return err_set(&e->health.err, KVD_EPROTOCOL, "kvd at %s does not say where the "
			       "primary is (status %u)", e->health.peer, out->reply.status);
	memcpy(lines, out->payload, out->payload_bytes);
	lines[out->payload_bytes < sizeof lines ? out->payload_bytes : sizeof lines - 1] = '\0';
	w->epoch = out->reply.version;
	w->reign = out->reply.word;
	w->is_known = route_learn(&s->client->route, w->epoch, lines, out->reply.item_signs, goes);
	w->is_here = w->is_known && route_is_primary(&s->client->route, &s->addr);
	if (out->reply.item_flags != UINT32_MAX)
		w->heard_ns = asked_ns - out->reply.item_flags * 1000ull;
	w->is_gone = w->is_known && !w->is_here && route_is_gone(&s->client->route);
	return 0;
}

void where_found(struct kvd_session *s)
{
	route_found(&s->client->route);
}

void where_forget(struct kvd_session *s)
{
	route_forget(&s->client->route, &s->addr);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/session/session.h"

#include "client/session/client.h"
#include "client/session/session_impl.h"

struct engine *session_engine(struct kvd_session *s)
{
	return &s->engine;
}

struct err *session_err(struct kvd_session *s)
{
	return &s->engine.health.err;
}

unsigned session_addresses(struct kvd_session *s)
{
	return route_count(&s->client->route);
}

bool session_is_of_cluster(const struct kvd_session *s)
{
	return s->engine.table.welcome.flags & WIRE_WELCOME_LEASE;
}

bool session_has_atomics(const struct kvd_session *s)
{
	return s->device && s->device->limits.atomics;
}

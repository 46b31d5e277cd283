/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/session/session.h"

#include "client/session/session_impl.h"

struct engine *session_engine(struct kvd_session *s)
{
	return &s->engine;
}

struct kvd_client *session_client(struct kvd_session *s)
{
	return s->client;
}

struct err *session_err(struct kvd_session *s)
{
	return &s->engine.health.err;
}

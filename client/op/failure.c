/* SPDX-License-Identifier: BSD-2-Clause */
/* A session's failure, and the sentence that tells it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/op/session.h"

/* Whether the port that the session uses, or used last, is down at this end. */
static bool port_is_down(struct kvd_session *s)
{
	struct kvd_client *c = s->client;
	struct ibv_port_attr attr;
	bool down = false;

	memset(&attr, 0, sizeof attr);
	pthread_mutex_lock(&c->lock);
	if (c->ctx && s->port && !s->device_lost && !s->verbs->query_port(c->ctx, s->port, &attr))
		down = attr.state != IBV_PORT_ACTIVE;
	pthread_mutex_unlock(&c->lock);
	return down;
}

/* What is known of the reason of a lost connection, behind the sentence that tells it. */
void session_explain(struct kvd_session *s)
{
	static const char *const said[] = {
		[WIRE_NOTICE_PORT_DOWN] = "its port went down",
		[WIRE_NOTICE_PORT_UP] = "its port, which had been down, was up again",
		[WIRE_NOTICE_DEVICE] = "its device failed and it ends",
	};
	size_t used = strlen(s->err.text), room = sizeof s->err.text - used;

	if (port_is_down(s))
		snprintf(s->err.text + used, room, "; port %u of the RDMA device here is down (cable, "
			 "switch, 'ip link')", s->port);
	used = strlen(s->err.text);
	room = sizeof s->err.text - used;
	if (s->notice)
		snprintf(s->err.text + used, room, "; kvd had told %.1f s before that %s",
			 (double)(clock_ns() - s->notice_ns) / 1e9, said[s->notice]);
}

void session_recall(struct kvd_session *s)
{
	size_t used = strlen(s->err.text), room = sizeof s->err.text - used;

	if (*s->lost.text && strcmp(s->lost.text, s->err.text))
		snprintf(s->err.text + used, room, "; how the last connection ended: %s",
			 s->lost.text);
}

void session_noticed(struct kvd_session *s, unsigned notice)
{
	if (notice < WIRE_NOTICE_PORT_DOWN || notice > WIRE_NOTICE_DEVICE)
		return; /* of a later kvd */
	s->notice = (int)notice;
	s->notice_ns = clock_ns();
}

int session_fail(struct kvd_session *s, int code, const char *format, ...)
{
	va_list ap;

	if (s->broken)
		return s->broken_code; /* the first reason is the one */
	va_start(ap, format);
	vsnprintf(s->err.text, sizeof s->err.text, format, ap);
	va_end(ap);
	if (s->connected)
		s->lost = s->err;
	if (code == KVD_ECONNECT || code == KVD_ETIMEDOUT)
		session_explain(s);
	s->broken = true;
	s->broken_code = code;
	return code;
}

int session_denied(struct kvd_session *s)
{
	return err_set(&s->err, KVD_EDENIED, "kvd at %s does not let %s do that: their role is %s",
		       s->client->addr.text,
		       s->client->has_credentials ? s->client->credentials.name : "this client",
		       role_name((enum role)s->table.welcome.role));
}

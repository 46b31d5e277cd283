/* SPDX-License-Identifier: BSD-2-Clause */
/* The end of a session's connection, from any state. */
#include "client/op/session.h"

void session_disconnect(struct kvd_session *s)
{
	const struct verbs *v = s->verbs;

	if (s->connected)
		v->disconnect(s->id);
	s->connected = false;
	if (s->qp)
		v->destroy_qp(s->qp);
	if (s->cq) {
		v->ack_cq_events(s->cq, s->events);
		v->destroy_cq(s->cq);
	}
	if (s->comp)
		v->destroy_comp_channel(s->comp);
	if (s->id)
		v->destroy_id(s->id);
	if (s->channel)
		v->destroy_event_channel(s->channel);
	s->events = 0;
	s->qp = NULL;
	s->cq = NULL;
	s->comp = NULL;
	s->id = NULL;
	s->channel = NULL;
	if (s->device_lost)
		session_leave_device(s); /* it goes away only when nobody uses it */
}

void session_down(struct kvd_session *s)
{
	/* First the queue pair: nothing may touch the callers' memory after this. */
	session_disconnect(s);
	flight_abort(s);
}

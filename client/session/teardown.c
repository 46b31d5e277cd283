/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/session/teardown.h"

#include "client/get/get.h"
#include "client/op/operation.h"
#include "client/session/device.h"
#include "client/session/session_impl.h"

void session_disconnect(struct kvd_session *s)
{
	struct engine *e = &s->engine;
	const struct verbs *v = e->registrar.verbs;

	if (e->health.connected)
		v->disconnect(s->id);
	e->health.connected = false;
	if (e->qp)
		v->destroy_qp(e->qp);
	if (s->gets)
		gets_stop(s->gets, e->depth);
	if (e->cq) {
		v->ack_cq_events(e->cq, e->events);
		v->destroy_cq(e->cq);
	}
	if (e->comp)
		v->destroy_comp_channel(e->comp);
	if (s->id)
		v->destroy_id(s->id);
	if (e->channel)
		v->destroy_event_channel(e->channel);
	e->events = 0;
	e->qp = NULL;
	e->cq = NULL;
	e->comp = NULL;
	s->id = NULL;
	e->channel = NULL;
	if (e->health.device_lost)
		session_leave_device(s); /* it goes away only when nobody uses it */
}

void session_down(struct kvd_session *s)
{
	/* First the queue pair: nothing may touch the callers' memory after this. */
	session_disconnect(s);
	ops_abort(&s->engine);
}

void session_drift(struct kvd_session *s)
{
	struct engine *e = &s->engine;

	if (e->health.connected) /* to a cluster's member that serves no more */
		health_fail(&e->health, KVD_ECONNECT, "%s is not the cluster's primary any more",
			    e->health.peer);
	session_disconnect(s);
	ops_drift(e);
}

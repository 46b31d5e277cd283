/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/op/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/kvd.h"
#include "common/clock.h"
#include "common/wire.h"

bool health_port_is_down(const struct health *h)
{
	struct ibv_port_attr attr;

	memset(&attr, 0, sizeof attr);
	return h->ctx && h->port && !h->device_lost &&
	       !h->verbs->query_port(h->ctx, h->port, &attr) && attr.state != IBV_PORT_ACTIVE;
}

void health_explain(struct health *h)
{
	static const char *const said[] = {
		[WIRE_NOTICE_PORT_DOWN] = "its port went down",
		[WIRE_NOTICE_PORT_UP] = "its port, which had been down, was up again",
		[WIRE_NOTICE_DEVICE] = "its device failed and it ends",
	};
	size_t used = strlen(h->err.text), room = sizeof h->err.text - used;

	if (health_port_is_down(h))
		snprintf(h->err.text + used, room,
			 "; port %u of the RDMA device here is down (cable, "
			 "switch, 'ip link')",
			 h->port);
	used = strlen(h->err.text);
	room = sizeof h->err.text - used;
	if (h->notice)
		snprintf(h->err.text + used, room, "; kvd had told %.1f s before that %s",
			 (double)(clock_ns() - h->notice_ns) / 1e9, said[h->notice]);
}

void health_recall(struct health *h)
{
	size_t used = strlen(h->err.text), room = sizeof h->err.text - used;

	if (*h->lost.text && strcmp(h->lost.text, h->err.text))
		snprintf(h->err.text + used, room, "; how the last connection ended: %s",
			 h->lost.text);
}

void health_noticed(struct health *h, unsigned notice)
{
	if (notice < WIRE_NOTICE_PORT_DOWN || notice > WIRE_NOTICE_DEVICE)
		return; /* of a later kvd */
	h->notice = (int)notice;
	h->notice_ns = clock_ns();
}

int health_fail(struct health *h, int code, const char *format, ...)
{
	va_list ap;

	if (h->broken)
		return h->broken_code; /* the first reason is the one */
	va_start(ap, format);
	vsnprintf(h->err.text, sizeof h->err.text, format, ap);
	va_end(ap);
	if (h->connected)
		h->lost = h->err;
	if (code == KVD_ECONNECT || code == KVD_ETIMEDOUT)
		health_explain(h);
	h->broken = true;
	h->broken_code = code;
	return code;
}

int health_denied(struct health *h)
{
	return err_set(&h->err, KVD_EDENIED, "kvd at %s does not let %s do that: their role is %s",
		       h->peer, h->user, h->role);
}

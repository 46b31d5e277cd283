/* SPDX-License-Identifier: BSD-2-Clause */
/* events.h -- behind kit.h: events of connections, each waited for as long as a test may take. */
#ifndef TESTS_UNIT_SOFTVERBS_EVENTS_H
#define TESTS_UNIT_SOFTVERBS_EVENTS_H

#include <arpa/inet.h>
#include "tests/unit/softverbs/kit.h"

static inline struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = port,
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static inline struct rdma_cm_event *next_event(struct rdma_event_channel *ch)
{
	struct pollfd pfd = { .fd = ch->fd, .events = POLLIN };
	struct rdma_cm_event *ev;

	CHECK(poll(&pfd, 1, KIT_LIMIT_S * 1000) == 1);
	CHECK(!sv_get_cm_event(ch, &ev));
	return ev;
}

/* The next event, which must be this. */
static inline struct rdma_cm_event *take_event(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev = next_event(ch);

	if (ev->event != type)
		fprintf(stderr, "event %d status %d, not %d\n", ev->event, ev->status, type);
	CHECK(ev->event == type);
	return ev;
}

static inline void expect_event(struct rdma_event_channel *ch, enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *ev = take_event(ch, type);

	CHECK(ev->status == status);
	CHECK(!sv_ack_cm_event(ev));
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/worker/rx.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>

#include "server/worker/context.h"
#include "server/worker/sendq.h"

#define CHAIN 32
/* Receives beyond what its connections may use: for those that are coming. */
#define SPARE_PART 4u

/* ---------------------------------------------------------------------- queues */

static uint32_t rx_count_of(const struct rail *r)
{
	return RX_COUNT_MAX < r->limits.srq_wr_max ? RX_COUNT_MAX : r->limits.srq_wr_max;
}

/* Places for sends in the longest completion queue that the device has. */
static uint32_t places_most(const struct rail *r)
{
	uint32_t rx_count = rx_count_of(r);

	return r->limits.cqe_max > rx_count ? r->limits.cqe_max - rx_count : 0;
}

/* Of one worker. */
static unsigned conns_fit(const struct rail *r)
{
	return places_most(r) / sendq_depth(CREDITS_ORDINARY);
}

unsigned queues_workers(const struct server *s, const struct rail *r)
{
	return (s->worker_count + s->rail_count - 1 - r->number) / s->rail_count;
}

unsigned queues_conns_fit(const struct server *s)
{
	unsigned least = UINT_MAX;

	for (unsigned i = 0; i < s->rail_count; i++) {
		unsigned fit = conns_fit(&s->rails[i]) * queues_workers(s, &s->rails[i]);
		least = fit < least ? fit : least;
	}
	return least;
}

/*
 * The completion queue has a place for each receive, and for each work request that the
 * connections may have posted: in an error each makes a completion, signalled or not, and one
 * without a place would be the end of the queue.  It is made for connections with as many
 * requests in flight as there may be.  Where the device has no queue as long, it has to do for
 * ordinary ones; who asks for more is refused once there is no place (server/host/accept.c).
 * 0, or -1 after setting err.
 */
static int size_queues(struct worker_queues *q, const struct server *s, const struct rail *r,
		       struct err *err)
{
	unsigned workers = queues_workers(s, r); /* all connections may come by one device */
	unsigned conns = (s->connections_max + workers - 1) / workers;
	uint64_t want = (uint64_t)conns * sendq_depth(CREDITS_MAX);
	unsigned fit = conns_fit(r);

	q->places = (uint32_t)(want < places_most(r) ? want : places_most(r));
	if (conns <= fit)
		return 0;
	return err_set(err, -1, "%s%s%s--connections %u, with %u worker%s: the longest completion queue "
		       "of %s has %u entries, which is enough for %u connections a worker: lower "
		       "--connections to %u, or raise --workers to %u", *s->name ? "namespace " : "",
		       s->name, *s->name ? ": " : "", s->connections_max, s->worker_count,
		       s->worker_count == 1 ? "" : "s", rail_name(r), r->limits.cqe_max, fit,
		       fit * workers,
		       fit ? (s->connections_max + fit - 1) / fit * s->rail_count : 0);
}

int queues_new(struct worker_queues *q, struct worker *w, const struct server *s,
	       const struct rail *r, struct err *err)
{
	const struct verbs *v = s->verbs;
	struct ibv_srq_init_attr srq = { .srq_context = w, .attr = { .max_sge = 1 } };
	uint32_t cqe;

	q->rx_count = srq.attr.max_wr = rx_count_of(r);
	if (size_queues(q, s, r, err))
		return -1;
	cqe = q->rx_count + q->places;
	q->channel = v->create_comp_channel(r->ctx);
	/* A bell without an event must not block a worker. */
	if (!q->channel || fcntl(q->channel->fd, F_SETFL, O_NONBLOCK))
		return err_set_errno(err, -1, errno, "can't create a completion channel");
	q->cq = v->create_cq(r->ctx, (int)cqe, w, q->channel, 0);
	if (!q->cq)
		return err_set_errno(err, -1, errno, "can't create a completion queue of %u entries",
				     cqe);
	q->srq = v->create_srq(r->pd, &srq);
	if (!q->srq)
		return err_set_errno(err, -1, errno, "can't create a shared receive queue of %u entries",
				     q->rx_count);
	return 0;
}

void queues_delete(struct worker_queues *q, const struct verbs *v, unsigned events)
{
	if (q->srq)
		v->destroy_srq(q->srq);
	if (q->cq) {
		v->ack_cq_events(q->cq, events);
		v->destroy_cq(q->cq);
	}
	if (q->channel)
		v->destroy_comp_channel(q->channel);
}

/* --------------------------------------------------------------------- buffers */

int rx_init(struct rx *x, struct ibv_srq *srq, uint32_t count, uint8_t *memory, uint32_t lkey)
{
	*x = (struct rx){ .srq = srq, .memory = memory, .lkey = lkey, .count = count };
	x->free = calloc(count, sizeof *x->free);
	if (!x->free)
		return ENOMEM;
	for (uint32_t i = 1; i < count; i++)
		rx_release(x, i);
	return 0;
}

void rx_fini(struct rx *x)
{
	free(x->free);
}

/* So many receives are posted as may be used at once: in turn they would all be used
 * otherwise, and each message come to memory that no cache has. */
static uint32_t wanted(const struct rx *x, uint32_t credits)
{
	uint32_t want = credits + x->count / SPARE_PART;

	return want < x->posted ? 0 : want - x->posted;
}

/* Posts free buffers in chains. */
int rx_refill(struct rx *x, uint32_t credits)
{
	struct ibv_recv_wr wr[CHAIN], *bad;
	struct ibv_sge sge[CHAIN];

	for (uint32_t want = wanted(x, credits); x->free_count && want;) {
		uint32_t n = x->free_count < CHAIN ? x->free_count : CHAIN;
		if (n > want)
			n = want;
		want -= n;
		for (uint32_t i = 0; i < n; i++) {
			uint32_t b = x->free[--x->free_count];
			sge[i] = (struct ibv_sge){ .addr = (uintptr_t)rx_buffer(x, b),
						   .length = WIRE_MESSAGE_BYTES_MAX,
						   .lkey = x->lkey };
			wr[i] = (struct ibv_recv_wr){ .wr_id = b, .sg_list = &sge[i], .num_sge = 1,
						      .next = i + 1 < n ? &wr[i + 1] : NULL };
		}
		int rc = ibv_post_srq_recv(x->srq, wr, &bad);
		if (rc)
			return rc;
		x->posted += n;
	}
	return 0;
}

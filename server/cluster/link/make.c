/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/link/make.h"

#include <errno.h>
#include <stdlib.h>

#include "common/rdma/link.h"

#define MEMORY_BYTES ((size_t)LINK_BUFFERS * LINK_BYTES_MAX)

struct link_peer *link_make(struct link_door *d, const struct link_lane *lane,
			    const struct addr *addr, uint64_t now_ns)
{
	struct link_port *port = d->options.port(d->options.arg, lane);
	struct link_peer *p;

	if (!port || d->count == LINK_DOOR_MAX || !(p = calloc(1, sizeof *p)))
		return NULL;
	p->port = port;
	p->door = d;
	p->lane = *lane;
	p->addr = *addr;
	p->since_ns = now_ns;
	p->door_next = d->peers;
	d->peers = p;
	d->count++;
	return p;
}

int link_make_queues(struct link_peer *p, struct err *err)
{
	const struct link_door_options *o = &p->door->options;
	const struct verbs *v = o->device->verbs;
	struct link_config config = { .pd = o->pd, .send_cq = p->port->cq, .recv_cq = p->port->cq,
				      .context = p, .send_depth = LINK_SEND_DEPTH,
				      .recv_depth = LINK_RECEIVES, .send_sge = 1 };
	uint32_t unused;

	p->memory = aligned_alloc(4096, MEMORY_BYTES);
	if (!p->memory)
		return err_set(err, -1, "no memory");
	p->mr = v->reg_mr(o->pd, p->memory, MEMORY_BYTES, IBV_ACCESS_LOCAL_WRITE);
	if (!p->mr)
		return err_set_errno(err, -1, errno,
				     "can't register %zu KiB of memory: the locked-memory limit "
				     "may be too low (see 'ulimit -l')", MEMORY_BYTES >> 10);
	p->qp = link_qp_new(v, &config, &unused, err);
	return p->qp ? link_qp_init(v, p->id, p->qp, 0, err) : -1;
}

void link_unmake(struct link_door *d, struct link_peer *p)
{
	const struct verbs *v = d->options.device->verbs;

	if (p->id)
		v->disconnect(p->id);
	if (p->qp)
		v->destroy_qp(p->qp);
	if (p->mr)
		v->dereg_mr(p->mr);
	free(p->memory);
	if (p->id)
		v->destroy_id(p->id);
	free(p);
}

void link_return(struct link_peer *p)
{
	struct link_door *d = p->door;

	pthread_mutex_lock(&d->lock);
	p->next = d->ended;
	d->ended = p;
	pthread_mutex_unlock(&d->lock);
}

void link_return_qp(struct link_peer *p)
{
	struct link_door *d = p->door;

	pthread_mutex_lock(&d->lock);
	d->options.device->verbs->destroy_qp(p->qp);
	p->qp = NULL;
	pthread_mutex_unlock(&d->lock);
}

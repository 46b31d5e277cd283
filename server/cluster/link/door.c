/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections as rdma_cm sees them.
 *
 * Who asks: address, route, queue pair, request -> CONNECT_RESPONSE: the queue pair is brought up,
 * and the port has it.  Who is asked: CONNECT_REQUEST: queue pair, up, the port has it, accepted:
 * receives are posted by the port, and until then a message waits at the sender.
 *
 * DISCONNECTED: the queue pair goes to error, which the port sees.  A port's lane is looked up
 * with each connection.
 */
#include "server/cluster/link/door.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rdma/link.h"
#include "server/cluster/link/make.h"
#include "server/cluster/link/port.h"

#define RESOLVE_MS 1000

/* -------------------------------------------------------------------- life */
static int open_channel(struct link_door *d, struct err *err)
{
	d->channel = d->options.device->verbs->create_event_channel();
	if (!d->channel)
		return err_set_errno(err, -1, errno, "can't open an RDMA event channel");
	if (fcntl(d->channel->fd, F_SETFL, fcntl(d->channel->fd, F_GETFL) | O_NONBLOCK))
		return err_set_errno(err, -1, errno, "fcntl");
	return 0;
}

static int listen_there(struct link_door *d, struct err *err)
{
	const struct link_door_options *o = &d->options;
	const struct verbs *v = o->device->verbs;

	if (!o->listen)
		return 0;
	d->addr = *o->listen;
	if (v->create_id(d->channel, &d->listener, NULL, RDMA_PS_TCP) ||
	    device_prepare(o->device, d->listener))
		return err_set_errno(err, -1, errno, "can't create an RDMA id");
	if (v->bind_addr(d->listener, &d->addr.sa) || v->listen(d->listener, LINK_KNOCKS_MAX))
		return err_set_errno(err, -1, errno, "can't listen for other members on %s",
				     d->addr.text);
	if (d->listener->verbs && d->listener->verbs != o->pd->context)
		return err_set(err, -1, "--cluster-listen %s is on another device than the first address "
			       "of --listen: members reach each other by that one", d->addr.text);
	addr_set_port(&d->addr, ntohs(v->get_src_port(d->listener)));
	return 0;
}

int link_door_new(const struct link_door_options *o, struct link_door **out, struct err *err)
{
	struct link_door *d = calloc(1, sizeof *d);
	struct link_limits limits;

	if (!d)
		return err_set(err, -1, "no memory for connections with other members");
	d->options = *o;
	if (!o->versions.latest)
		d->options.versions = (struct link_versions){ LINK_VERSION_OLDEST, LINK_VERSION };
	pthread_mutex_init(&d->lock, NULL);
	if (link_query(o->device->verbs, o->pd->context, o->device_port, &limits, err) ||
	    open_channel(d, err) || listen_there(d, err)) {
		link_door_delete(&d);
		return -1;
	}
	d->rd_atom = limits.rd_atom < LINK_RD_ATOM_MAX ? limits.rd_atom : LINK_RD_ATOM_MAX;
	*out = d;
	return 0;
}

static void forget(struct link_door *d, struct link_peer *p)
{
	struct link_peer **at = &d->peers;

	while (*at != p)
		at = &(*at)->door_next;
	*at = p->door_next;
	d->count--;
	link_unmake(d, p);
}

static void take_ended(struct link_door *d)
{
	struct link_peer *next;

	pthread_mutex_lock(&d->lock);
	struct link_peer *p = d->ended;
	d->ended = NULL;
	pthread_mutex_unlock(&d->lock);
	for (; p; p = next) {
		next = p->next;
		forget(d, p);
	}
}

void link_door_delete(struct link_door **at)
{
	struct link_door *d = *at;

	if (!d)
		return;
	*at = NULL;
	take_ended(d);
	while (d->peers)
		forget(d, d->peers);
	if (d->listener)
		d->options.device->verbs->destroy_id(d->listener);
	if (d->channel)
		d->options.device->verbs->destroy_event_channel(d->channel);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

const struct addr *link_door_addr(const struct link_door *d)
{
	return &d->addr;
}

int link_door_fd(const struct link_door *d)
{
	return d->channel->fd;
}

/* From now on most of it is its port's. */
static void hand_over(struct link_peer *p)
{
	p->state = LINK_PROVING;
	link_port_adopt(p->port, p);
}

/* -------------------------------------------------------------------- who asks */
static void fail(struct link_door *d, struct link_peer *p, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void fail(struct link_door *d, struct link_peer *p, const char *format, ...)
{
	char what[ERR_BYTES], text[ERR_BYTES + 160];
	struct link_lane lane = p->lane;
	struct addr to = p->addr;
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	snprintf(text, sizeof text, "can't connect to the member at %s: %s", to.text, what);
	forget(d, p);
	if (d->options.failed)
		d->options.failed(d->options.arg, &to, &lane, text);
}

/* From where it listens: two ports may be in one net, and the other one is not for members. */
static struct sockaddr *source(const struct link_door *d, struct addr *from)
{
	if (!d->options.listen)
		return NULL;
	*from = d->addr;
	addr_set_port(from, 0);
	return &from->sa;
}

int link_door_connect(struct link_door *d, const struct addr *to, const struct link_lane *lane,
		      uint64_t now_ns, struct err *err)
{
	const struct verbs *v = d->options.device->verbs;
	struct link_peer *p = link_make(d, lane, to, now_ns);
	struct addr from;

	if (!p)
		return err_set(err, -1, "no room for a connection to the member at %s", to->text);
	p->is_asker = true;
	if (v->create_id(d->channel, &p->id, p, RDMA_PS_TCP) ||
	    device_prepare(d->options.device, p->id) ||
	    v->resolve_addr(p->id, source(d, &from), &p->addr.sa, RESOLVE_MS)) {
		err_set_errno(err, -1, errno, "can't connect to the member at %s", to->text);
		forget(d, p);
		return -1;
	}
	return 0;
}

static void ask(struct link_door *d, struct link_peer *p)
{
	const struct verbs *v = d->options.device->verbs;
	struct rdma_conn_param param;
	struct err err;

	if (p->id->verbs != d->options.pd->context) {
		fail(d, p, "it is reached by another device than the first one of --listen, by which "
		     "members reach each other");
		return;
	}
	if (link_make_queues(p, &err)) {
		fail(d, p, "%s", err.text);
		return;
	}
	link_knock_fill(&p->exchange.asks, &p->lane, &d->options.versions);
	p->exchange.asks_qpn = p->qp->qp_num;
	link_conn_param(&param, p->qp, &p->exchange.asks, sizeof p->exchange.asks, d->rd_atom,
			d->rd_atom);
	if (v->connect(p->id, &param))
		fail(d, p, "%s", strerror(errno));
}

static void fail_for_version(struct link_door *d, struct link_peer *p,
			     const struct link_knock *theirs)
{
	const struct link_versions *mine = &d->options.versions;

	fail(d, p, "it speaks versions %u to %u of the protocol between members, this one %u to %u: "
	     "upgrade from one to the next", theirs->oldest, theirs->version, mine->oldest,
	     mine->latest);
}

static void answered(struct link_door *d, struct link_peer *p, const struct rdma_cm_event *e)
{
	const struct rdma_conn_param *c = &e->param.conn;
	const struct verbs *v = d->options.device->verbs;
	struct err err;

	if (!link_knock_take(&p->exchange.answers, c->private_data, c->private_data_len)) {
		fail(d, p, "what listens there is no member of a cluster");
		return;
	}
	if (!link_version(&p->exchange.asks, &p->exchange.answers)) {
		fail_for_version(d, p, &p->exchange.answers);
		return;
	}
	p->exchange.answers_qpn = c->qp_num;
	if (link_qp_ready_tuned(v, p->id, p->qp, 0, d->rd_atom, d->rd_atom,
				&d->options.device->tuning, &err))
		fail(d, p, "%s", err.text);
	else if (v->establish(p->id))
		fail(d, p, "%s", strerror(errno));
	else
		hand_over(p);
}

static void refused(struct link_door *d, struct link_peer *p, const struct rdma_cm_event *e)
{
	const struct rdma_conn_param *c = &e->param.conn;
	struct link_knock theirs;
	char words[256];

	if (e->event == RDMA_CM_EVENT_REJECTED &&
	    link_knock_take(&theirs, c->private_data, c->private_data_len))
		fail_for_version(d, p, &theirs);
	else
		fail(d, p, "%s", link_event_words(e, words, sizeof words));
}

/* -------------------------------------------------------------------- who is asked */
static unsigned count_proving(const struct link_door *d)
{
	unsigned n = 0;

	for (const struct link_peer *p = d->peers; p; p = p->door_next)
		n += !p->is_asker && p->state == LINK_PROVING;
	return n;
}

static int accept_it(struct link_door *d, struct link_peer *p, const struct rdma_conn_param *asked)
{
	const struct verbs *v = d->options.device->verbs;
	struct link_depths depths = link_depths(asked, d->rd_atom);
	struct rdma_conn_param param;
	struct err err;

	if (link_make_queues(p, &err) ||
	    link_qp_ready_tuned(v, p->id, p->qp, 0, depths.issues, depths.answers,
				&d->options.device->tuning, &err))
		return -1;
	p->exchange.asks_qpn = asked->qp_num;
	p->exchange.answers_qpn = p->qp->qp_num;
	link_conn_param(&param, p->qp, &p->exchange.answers, sizeof p->exchange.answers,
			depths.issues, depths.answers);
	return v->accept(p->id, &param);
}

static void asked(struct link_door *d, const struct rdma_cm_event *e)
{
	const struct verbs *v = d->options.device->verbs;
	struct rdma_conn_param from = e->param.conn;
	struct link_peer *p = NULL;
	struct link_knock knock, answer;
	struct addr addr;
	bool is_member = link_knock_take(&knock, from.private_data, from.private_data_len);

	if (is_member)
		link_knock_fill(&answer, &knock.lane, &d->options.versions);
	bool is_understood = is_member && link_version(&knock, &answer);
	addr_from(&addr, rdma_get_peer_addr(e->id));
	if (is_understood && count_proving(d) < LINK_PROVING_MAX)
		p = link_make(d, &knock.lane, &addr, 0);
	if (!p) {
		bool is_told = is_member && !is_understood; /* which versions there are here */

		v->reject(e->id, is_told ? &answer : NULL, is_told ? sizeof answer : 0);
		v->destroy_id(e->id);
		return;
	}
	p->id = e->id;
	p->id->context = p;
	p->exchange.asks = knock;
	p->exchange.answers = answer;
	if (!accept_it(d, p, &from)) {
		hand_over(p);
		return;
	}
	v->reject(p->id, NULL, 0);
	forget(d, p);
}

/* -------------------------------------------------------------------- events */
static void gone(struct link_door *d, struct link_peer *p)
{
	atomic_store(&p->is_gone, true);
	pthread_mutex_lock(&d->lock);
	if (p->qp)
		link_qp_set_error(d->options.device->verbs, p->qp);
	pthread_mutex_unlock(&d->lock);
}

static void of_a_peer(struct link_door *d, struct link_peer *p, const struct rdma_cm_event *e)
{
	switch (e->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (d->options.device->verbs->resolve_route(p->id, RESOLVE_MS))
			fail(d, p, "resolving the route: %s", strerror(errno));
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		ask(d, p);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		answered(d, p, e);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		if (p->state == LINK_ASKING)
			refused(d, p, e);
		else
			gone(d, p);
	}
}

static void give_up_late(struct link_door *d, uint64_t now_ns)
{
	struct link_peer *next;

	for (struct link_peer *p = d->peers; p; p = next) {
		next = p->door_next;
		if (p->state == LINK_ASKING && now_ns - p->since_ns >= LINK_CONNECT_NS)
			fail(d, p, "it has not answered within %llu ms", LINK_CONNECT_NS / 1000000);
	}
}

/* An id can't be destroyed before its event is given back: what it says is kept. */
static void one_event(struct link_door *d, struct rdma_cm_event *event)
{
	const struct verbs *v = d->options.device->verbs;
	struct rdma_cm_event e = *event;
	uint8_t data[sizeof(struct link_knock)];

	bool says = e.event == RDMA_CM_EVENT_CONNECT_REQUEST ||
		    e.event == RDMA_CM_EVENT_CONNECT_RESPONSE || e.event == RDMA_CM_EVENT_REJECTED;

	if (says && e.param.conn.private_data && e.param.conn.private_data_len >= sizeof data) {
		memcpy(data, e.param.conn.private_data, sizeof data);
		e.param.conn.private_data = data;
		e.param.conn.private_data_len = sizeof data;
	} else {
		e.param.conn.private_data = NULL;
	}
	v->ack_cm_event(event);
	if (e.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		asked(d, &e);
	else if (e.id != d->listener && e.id->context)
		of_a_peer(d, e.id->context, &e);
}

void link_door_poll(struct link_door *d, uint64_t now_ns)
{
	const struct verbs *v = d->options.device->verbs;
	struct rdma_cm_event *event;

	for (unsigned i = 0; i < LINK_KNOCKS_MAX && !v->get_cm_event(d->channel, &event); i++)
		one_event(d, event);
	give_up_late(d, now_ns);
	take_ended(d);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Until both have proved themselves nothing else is taken, and the queue pair has no remote
 * right.  Who asked gets its right to READ before it is answered.
 */
#include "server/cluster/link/greet.h"

#include <stdio.h>
#include <string.h>

#include "common/rdma/link.h"
#include "server/cluster/link/peer.h"

#define NO_KEY "it has not this cluster's key: give both members the same --cluster-key"

static void send_hello(struct link_peer *p, enum link_kind kind, const struct link_hello *hello)
{
	struct link_writer w;

	link_begin(&w, link_peer_reserve(p), kind, 0, 0, 0, 0);
	link_put_hello(&w, hello);
	link_peer_send(p, link_length(&w));
}

static void name_it(const struct link_peer *p, struct link_hello *hello)
{
	snprintf(hello->name, sizeof hello->name, "%s", p->port->options.name);
}

void link_greet(struct link_peer *p)
{
	name_it(p, &p->hello);
	link_prove_hello(&p->exchange, p->port->options.key, &p->hello);
	send_hello(p, LINK_HELLO, &p->hello);
}

static bool let_read(struct link_peer *p)
{
	if (!p->port->options.is_read)
		return true;
	int rc = link_qp_set_access(p->port->options.verbs, p->qp, IBV_ACCESS_REMOTE_READ);
	if (rc)
		link_peer_close(p, "it could not be given the right to READ: %s", strerror(rc));
	return !rc;
}

static void come_up(struct link_peer *p, const struct link_hello *hello)
{
	const struct link_events *e = &p->port->options.events;

	memcpy(p->name, hello->name, sizeof p->name);
	p->state = LINK_UP;
	e->up(e->arg, p);
}

static void asked(struct link_peer *p, const struct link_hello *hello)
{
	struct link_hello answer = { .name = "" };

	if (!link_check_hello(&p->exchange, p->port->options.key, hello)) {
		link_peer_close(p, NO_KEY);
		return;
	}
	if (!let_read(p))
		return;
	name_it(p, &answer);
	link_prove_answer(&p->exchange, p->port->options.key, hello, &answer);
	send_hello(p, LINK_ANSWER, &answer);
	if (p->state == LINK_PROVING)
		come_up(p, hello);
}

static void answered(struct link_peer *p, const struct link_hello *answer)
{
	if (!link_check_answer(&p->exchange, p->port->options.key, &p->hello, answer))
		link_peer_close(p, NO_KEY);
	else if (let_read(p))
		come_up(p, answer);
}

void link_greeted(struct link_peer *p, struct link_reader *r)
{
	enum link_kind due = p->is_asker ? LINK_ANSWER : LINK_HELLO;
	const struct link_hello *hello = r->header->kind == due ? link_next_hello(r) : NULL;

	if (!hello || r->left)
		link_peer_close(p, "it sent another message before it had proved who it is");
	else if (p->is_asker)
		answered(p, hello);
	else
		asked(p, hello);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* What other threads asked of a worker is done. */
#include <stdlib.h>

#include "server/lock/locker.h"
#include "server/table/heap.h"
#include "server/worker/conn.h"
#include "server/worker/conn_impl.h"
#include "server/worker/context.h"
#include "server/worker/fate.h"
#include "server/worker/worker_impl.h"

/* The tokens that a client says it holds: from its memory, without its help. */
static void read_held(struct worker *w, struct conn *c, uint64_t look)
{
	struct sendq *q = &c->sendq;
	struct ibv_send_wr *bad;

	if (c->reads_held || !c->held_rkey)
		return;
	struct txbuf *tx = tx_take(&w->tx, q);
	if (!tx)
		return;
	tx->sge = (struct ibv_sge){ (uintptr_t)tx->data, LAYOUT_HELD_MAX * sizeof(struct layout_held),
				    w->tx.lkey };
	tx->wr = (struct ibv_send_wr){
		.wr_id = wr_pack(tx, WR_HELD, q->unsignaled + 1),
		.sg_list = &tx->sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = c->held_addr, .rkey = c->held_rkey },
	};
	if (ibv_post_send(c->qp, &tx->wr, &bad)) {
		tx_release(&w->tx, tx);
		return;
	}
	q->unsignaled = 0;
	sendq_wait(q);
	c->reads_held = true;
	c->look = look;
}

void worker_got_held(struct worker *w, struct txbuf *tx, const struct ibv_wc *wc)
{
	struct conn *c = tx->to->conn;

	c->reads_held = false;
	sendq_waited(tx->to);
	if (wc->status == IBV_WC_SUCCESS)
		locker_held(w->server->locker, c->sendq.connection_id, c->look,
			    (const struct layout_held *)tx->data);
	tx_release(&w->tx, tx);
}

/* A short answer to what was begun, which has its place; all buffers may be those of replies of
 * this round. */
static struct txbuf *new_answer(struct worker *w, struct conn *c, const struct wire_request *q,
				enum wire_status status)
{
	struct txbuf *tx = reply_new(&w->tx, &c->sendq, q, status);

	if (tx)
		return tx;
	reply_flush(&w->tx);
	return reply_new(&w->tx, &c->sendq, q, status);
}

static void answer_for(struct worker *w, const struct command *m)
{
	if (m->conn->state == CONN_CLOSING)
		return;
	struct txbuf *tx = new_answer(w, m->conn, &m->request, m->status);
	if (tx)
		reply_send(&w->tx, tx, 0);
	else
		conn_close(m->conn, "no buffer for the answer to a lock request");
}

/* Tells a denied connection so, which is the end of it. */
static void deny(struct worker *w, uint64_t number)
{
	struct conn *c = w->conns.first;

	while (c && c->number != number)
		c = c->set_next;
	if (!c || c->state != CONN_DENIED)
		return;
	struct txbuf *tx = new_answer(w, c, &(struct wire_request){ .request_id = c->hello_id,
								    .op = WIRE_HELLO }, c->denial);
	if (tx)
		reply_send(&w->tx, tx, 0);
}

/* To those that have a receive for it; it is no answer, so no credit comes back. */
static void give_notice(struct worker *w, enum wire_notice notice)
{
	const struct wire_request none = { .request_id = WIRE_NOTICE_ID };

	for (struct conn *c = w->conns.first; c; c = c->set_next) {
		if (c->state != CONN_READY || !c->takes_notices)
			continue;
		c->sendq.outstanding++;
		if (reply_may(&w->tx, &c->sendq, false))
			reply_send(&w->tx, reply_new(&w->tx, &c->sendq, &none,
						     (enum wire_status)notice), 0);
		else
			c->sendq.outstanding--;
	}
}

static void obey(struct worker *w, const struct command *m)
{
	struct conn *c;

	switch (m->kind) {
	case CMD_ADOPT:
		worker_adopt(w, m->conn);
		break;
	case CMD_ANSWER:
		answer_for(w, m);
		break;
	case CMD_READ_HELD:
		c = worker_find_id(w, m->connection);
		if (c)
			read_held(w, c, m->look);
		break;
	case CMD_DENY:
		deny(w, m->connection);
		break;
	case CMD_NOTICE:
		give_notice(w, m->notice);
		break;
	case CMD_FENCE:
		c = worker_find_id(w, m->connection);
		if (c && m->secret && fate_is_secret(c->sendq.fate, m->secret))
			conn_close(c, "its client has another connection now");
		else if (c && !m->secret)
			conn_close(c, "it held a lock for longer than its lease");
		break;
	}
}

void worker_take_commands(struct worker *w)
{
	if (atomic_exchange(&w->commands.trim, false))
		heap_trim(w->store.heap);
	for (struct command *m = commands_take(&w->commands), *next; m; m = next) {
		next = m->next;
		obey(w, m);
		free(m);
	}
}

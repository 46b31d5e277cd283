/* SPDX-License-Identifier: BSD-2-Clause */
/* What other threads ask of a worker, in the order in which they asked. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "common/log.h"
#include "server/table/heap.h"
#include "server/worker/worker_impl.h"

/* What another thread asks of a worker. */
struct command {
	struct command *next;
	enum { CMD_ADOPT, CMD_ANSWER, CMD_READ_HELD, CMD_FENCE, CMD_DENY, CMD_NOTICE } kind;
	struct conn *conn;
	uint64_t connection; /* as in a token; CMD_DENY: its whole id */
	uint64_t look;       /* CMD_READ_HELD */
	uint64_t secret;     /* CMD_FENCE by a client: of that connection's hello */
	struct wire_request request;
	enum wire_status status;
	enum wire_notice notice;
};

/* The tokens that a client says it holds: from its memory, without its help. */
static void read_held(struct worker *w, struct conn *c, uint64_t look)
{
	struct tx *tx = w->tx_free;
	struct ibv_send_wr *bad;

	if (!tx || c->reads_held || !c->held_rkey || c->sq_used >= c->sq_depth)
		return;
	w->tx_free = tx->next;
	tx->conn = c;
	tx->sge = (struct ibv_sge){ (uintptr_t)tx->data, LAYOUT_HELD_MAX * sizeof(struct layout_held),
				    w->mr->lkey };
	tx->wr = (struct ibv_send_wr){
		.wr_id = wr_pack(tx, WR_HELD, c->unsignaled + 1),
		.sg_list = &tx->sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = c->held_addr, .rkey = c->held_rkey },
	};
	if (ibv_post_send(c->qp, &tx->wr, &bad)) {
		tx_free(w, tx);
		return;
	}
	c->unsignaled = 0;
	c->sq_used++;
	c->reads_held = true;
	c->look = look;
}

void worker_got_held(struct worker *w, struct tx *tx, const struct ibv_wc *wc)
{
	struct conn *c = tx->conn;

	c->reads_held = false;
	if (wc->status == IBV_WC_SUCCESS)
		locker_held(w->server->locker, c->connection_id, c->look,
			    (const struct layout_held *)tx->data);
	tx_free(w, tx);
}

static void answer_for(struct worker *w, const struct command *m)
{
	struct tx *tx = m->conn->state == CONN_CLOSING
				? NULL
				: reply_new(w, m->conn, &m->request, m->status);

	if (tx)
		reply_send(w, tx, 0);
	else if (m->conn->state != CONN_CLOSING)
		conn_close(m->conn, "no buffer for the answer to a lock request");
}

/* Tells a denied connection so, which is the end of it. */
static void deny(struct worker *w, uint64_t id)
{
	struct conn *c = w->conns;

	while (c && c->connection_id != id)
		c = c->worker_next;
	if (!c || c->state != CONN_DENIED)
		return;
	struct tx *tx = reply_new(w, c, &(struct wire_request){ .request_id = c->hello_id,
								.op = WIRE_HELLO }, WIRE_EDENIED);
	if (tx)
		reply_send(w, tx, 0);
}

/* To those that have a receive for it; it is no answer, so no credit comes back. */
static void give_notice(struct worker *w, enum wire_notice notice)
{
	const struct wire_request none = { .request_id = WIRE_NOTICE_ID };

	for (struct conn *c = w->conns; c; c = c->worker_next) {
		struct tx *tx = c->state == CONN_READY && c->takes_notices
					? reply_new(w, c, &none, (enum wire_status)notice)
					: NULL;
		if (!tx)
			continue;
		c->outstanding++;
		reply_send(w, tx, 0);
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
		if (c && m->secret && fate_is_secret(c->fate, m->secret))
			conn_close(c, "its client has another connection now");
		else if (c && !m->secret)
			conn_close(c, "it held a lock for longer than its lease");
		break;
	}
}

void worker_take_inbox(struct worker *w)
{
	if (atomic_exchange(&w->trim, false))
		heap_trim(w->store.heap);
	pthread_mutex_lock(&w->inbox_lock);
	struct command *m = w->inbox, *next;
	w->inbox = NULL;
	w->inbox_end = &w->inbox;
	pthread_mutex_unlock(&w->inbox_lock);
	for (; m; m = next) {
		next = m->next;
		obey(w, m);
		free(m);
	}
}

static bool command(struct worker *w, const struct command *m)
{
	struct command *copy = malloc(sizeof *copy);

	if (!copy)
		return false;
	*copy = *m;
	copy->next = NULL;
	pthread_mutex_lock(&w->inbox_lock);
	*w->inbox_end = copy;
	w->inbox_end = &copy->next;
	pthread_mutex_unlock(&w->inbox_lock);
	worker_wake(w);
	return true;
}

bool worker_give(struct worker *w, struct conn *c)
{
	c->worker = w;
	return command(w, &(struct command){ .kind = CMD_ADOPT, .conn = c });
}

void worker_answer(struct conn *c, const struct wire_request *request, enum wire_status status)
{
	if (!command(c->worker, &(struct command){ .kind = CMD_ANSWER, .conn = c,
						   .request = *request, .status = status }))
		log_error("out of memory: a lock request of %s stays without an answer",
			  c->peer.text);
}

void worker_deny(struct conn *c)
{
	command(c->worker, &(struct command){ .kind = CMD_DENY, .connection = c->connection_id });
}

/* A connection is only known by its token: its worker is the one that has it. */
static void command_all(struct server *s, const struct command *m)
{
	for (unsigned i = 0; i < s->worker_count; i++)
		if (!command(&s->workers[i], m))
			log_error("out of memory: a worker is not told what to do");
}

void worker_read_held(struct server *s, uint64_t connection, uint64_t look)
{
	command_all(s, &(struct command){ .kind = CMD_READ_HELD, .connection = connection,
					  .look = look });
}

void worker_fence_id(struct server *s, uint64_t connection, uint64_t secret)
{
	command_all(s, &(struct command){ .kind = CMD_FENCE, .connection = connection,
					  .secret = secret });
}

void worker_notice_all(struct server *s, enum wire_notice notice)
{
	command_all(s, &(struct command){ .kind = CMD_NOTICE, .notice = notice });
}

void worker_trim_all(struct server *s)
{
	for (unsigned i = 0; i < s->worker_count; i++) {
		atomic_store(&s->workers[i].trim, true);
		worker_wake(&s->workers[i]);
	}
}

void worker_wake(struct worker *w)
{
	atomic_store(&w->poked, true);
	if (eventfd_write(w->wake_fd, 1))
		log_error("can't wake a worker: %s", strerror(errno));
}

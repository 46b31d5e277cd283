/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reply.h -- replies, and the buffers that they are sent from.
 *
 * A worker's thread, all of it.
 */
#ifndef SERVER_WORKER_REPLY_H
#define SERVER_WORKER_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"
#include "server/worker/sendq.h"
#include "server/worker/stats.h"

struct membership;
struct news;
struct store;
struct store_result;

/* A buffer for one message out. */
struct txbuf {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct sendq *to; /* NULL: it is free */
	struct txbuf *next;
	uint8_t *data; /* WIRE_MESSAGE_BYTES_MAX */
};

/* A worker's. */
struct tx {
	struct txbuf *buffers;
	struct txbuf *free;
	uint32_t count, free_count;
	uint32_t lkey;
	struct sendq *dirty; /* those with replies that are not posted */
	/* kvd's clock, since the requests under way came in; 0: ask for it. */
	uint64_t clock_ms;
	const struct store *store;
	struct news *news;
	struct worker_stats *stats;
	const struct membership *membership; /* in a cluster; NULL: in none */
	bool is_committed; /* what is answered changed something */
};

/* `count` buffers, one every stride_bytes of `memory`, which stays the caller's.  0 or an
 * errno value. */
int tx_init(struct tx *tx, uint32_t count, uint8_t *memory, size_t stride_bytes);
void tx_fini(struct tx *tx);
/* Buffers that nobody keeps until a peer takes a reply: each request that has a place to be
 * answered gets one, if not in this round, then in the next. */
#define TX_SPARE 64u
#define TX_OTHERS 8u

/* A member of a cluster: whether what changed nothing may be answered. */
bool reply_may_tell(const struct tx *tx);
/*
 * Whether a request of this connection, which is counted as outstanding, can be begun: there
 * will be a place in the send queue for its reply, and there is a buffer.  is_long: a reply
 * that stays in its buffer until the peer took it.  Of those a connection may have an eighth of
 * what is left for others, or one.  So who takes none keeps few of them, and many who take none
 * are seen: drain_room().
 */
static inline bool reply_may(const struct tx *t, const struct sendq *q, bool is_long)
{
	if (q->used + q->outstanding - q->aside > q->slots || !t->free)
		return false;
	return (!is_long && q->has_inline) || q->held * TX_OTHERS + TX_SPARE < t->free_count;
}

/* NULL: all are in use. */
struct txbuf *tx_take(struct tx *tx, struct sendq *to);
void tx_release(struct tx *tx, struct txbuf *buf);

/* NULL: there is no buffer. */
struct txbuf *reply_new(struct tx *tx, struct sendq *to, const struct wire_request *request,
			enum wire_status status);
static inline struct wire_reply *reply_head(struct txbuf *buf)
{
	return (struct wire_reply *)buf->data;
}
static inline uint8_t *reply_payload(struct txbuf *buf)
{
	return buf->data + sizeof(struct wire_reply);
}
#define REPLY_PAYLOAD_MAX (WIRE_MESSAGE_BYTES_MAX - sizeof(struct wire_reply))
/* The longest that is sent inline where the device has room for it: with some news. */
#define REPLY_SHORT_BYTES (sizeof(struct wire_reply) + NEWS_MAX * sizeof(struct wire_news))
#define NEWS_MAX 12u
/* Takes the buffer. */
void reply_send(struct tx *tx, struct txbuf *buf, size_t payload_bytes);

/* Answers with a status alone; with the result of a change, whose fate is noted, and what
 * is new in the index.  Caller: has seen that there is a buffer. */
void reply_answer(struct tx *tx, struct sendq *to, const struct wire_request *request,
		  enum wire_status status);
void reply_answer_result(struct tx *tx, struct sendq *to, const struct wire_request *request,
			 enum wire_status status, const struct store_result *result);

/* Posts the replies of this round, one chain per connection. */
void reply_flush(struct tx *tx);
/* Frees every buffer of a connection whose queue pair is destroyed: no completion comes. */
void reply_forget(struct tx *tx, const struct sendq *to);
void reply_completed(struct tx *tx, struct txbuf *buf);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A member of a cluster executes as primary only, in the reign that the connection is of: that of
 * its hello, which is told it.  Commands for the cluster go to its shard, which says how far they are.
 */
#include <string.h>

#include "server/worker/context.h"
#include "server/worker/request/impl.h"
#include "server/worker/worker_impl.h"

static enum request_fate answer(struct request *r, enum wire_status status)
{
	reply_answer(&r->worker->tx, r->to, r->head, status);
	return REQUEST_DONE;
}

static struct txbuf *reply_text(struct request *r, uint64_t version, const char *text, size_t bytes)
{
	struct txbuf *tx = reply_new(&r->worker->tx, r->to, r->head, WIRE_OK);

	reply_head(tx)->version = version;
	reply_head(tx)->value_bytes = bytes;
	memcpy(reply_payload(tx), text, bytes);
	return tx;
}

enum request_fate request_where(struct request *r)
{
	const struct server_hooks *h = &r->worker->server->hooks;
	char text[REPLY_PAYLOAD_MAX];
	struct cluster_where where;
	size_t bytes;

	if (!h->cluster_where)
		return answer(r, WIRE_EUNSUPPORTED);
	bytes = h->cluster_where(h->cluster_arg, &where, text, sizeof text);
	struct txbuf *tx = reply_text(r, where.epoch, text, bytes);
	reply_head(tx)->word = atomic_load(&r->worker->server->membership->reign);
	reply_head(tx)->item_flags = where.heard_us;
	reply_head(tx)->item_signs = where.ports;
	reply_send(&r->worker->tx, tx, bytes);
	return REQUEST_DONE;
}

enum request_fate request_cluster(struct request *r)
{
	const struct server_hooks *h = &r->worker->server->hooks;
	const struct wire_request *q = r->head;
	char member[LAYOUT_KEY_BYTES_MAX + 1], text[1024] = "";
	struct cluster_command command = { .what = (enum wire_cluster)q->version,
					   .id = q->value_checksum, .copies = q->item_flags,
					   .member = member };
	enum wire_backup state = WIRE_BACKUP_FAILED;
	enum wire_status status;

	if (!h->cluster_command)
		return answer(r, WIRE_EUNSUPPORTED);
	if (memchr(r->key, 0, q->key_bytes) || q->version < WIRE_CLUSTER_INIT ||
	    q->version > WIRE_CLUSTER_FORCE)
		return answer(r, WIRE_EINVALID);
	memcpy(member, r->key, q->key_bytes);
	member[q->key_bytes] = '\0';
	status = h->cluster_command(h->cluster_arg, &command, &state, text, sizeof text);
	if (status != WIRE_OK)
		return answer(r, status);
	reply_send(&r->worker->tx, reply_text(r, (uint64_t)state, text, strlen(text)), strlen(text));
	return REQUEST_DONE;
}

/* What is not of the table. */
static bool is_of_the_member(unsigned op)
{
	return op == WIRE_HELLO || op == WIRE_PING || op == WIRE_STATS || op == WIRE_WHERE ||
	       op == WIRE_CLUSTER;
}

/* What is to go at a time that is to come a primary would forget with its reign. */
static bool is_of_no_cluster(const struct wire_request *q)
{
	return q->op == WIRE_FLUSH && q->flags & WIRE_UNIX;
}

bool request_as_member(struct request *r, bool is_change, enum request_fate *fate)
{
	struct membership *m = r->worker->server->membership;
	unsigned op = r->head->op;
	uint64_t reign = atomic_load(&m->reign);

	if (is_of_the_member(op))
		return false;
	if (!reign || r->to->reign != reign) {
		*fate = answer(r, WIRE_EELSEWHERE);
		return true;
	}
	if (is_of_no_cluster(r->head)) {
		*fate = answer(r, WIRE_EUNSUPPORTED);
		return true;
	}
	*fate = REQUEST_ASIDE;
	return ((is_change || op == WIRE_TXN) && atomic_load(&m->is_held)) ||
	       !reply_may_tell(&r->worker->tx);
}

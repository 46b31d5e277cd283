/* SPDX-License-Identifier: BSD-2-Clause */
/* What became of a change whose answer its client did not get. */
#include "server/access/gate.h"
#include "server/worker/commands.h"
#include "server/worker/context.h"
#include "server/worker/fate.h"
#include "server/worker/request/completions.h"
#include "server/worker/request/impl.h"
#include "server/worker/request/told.h"
#include "server/worker/worker_impl.h"

static enum request_fate tell(struct request *r, enum wire_status found, const struct fate *fate)
{
	struct txbuf *tx = reply_new(&r->worker->tx, r->to, r->head, found);

	reply_head(tx)->word = fate->status;
	reply_head(tx)->version = fate->version;
	reply_head(tx)->value_bytes = fate->value_bytes;
	reply_send(&r->worker->tx, tx, 0);
	return REQUEST_DONE;
}

/*
 * Only a connection that is gone for good has a fate to tell: one that kvd still
 * knows is cut off first.
 */
static enum wire_status find(struct request *r, uint64_t secret, struct fate *fate)
{
	struct server *s = r->worker->server;
	const struct wire_request *q = r->head;
	/* Looked at first: a connection is known until its fates are kept (burial_one). */
	bool known = q->version != r->to->connection_id && s->hooks.knows(s, q->version);
	enum wire_status found = fates_find(s->fates, q->version, secret,
					    (uint32_t)q->value_bytes, fate);

	if (found != WIRE_EUNSUPPORTED || !known)
		return found;
	commands_post_all(&s->commands, &(struct command){
		.kind = CMD_FENCE, .secret = secret, .connection = q->version });
	return WIRE_EBUSY;
}

/*
 * A reign that is over, perhaps another member's: what took effect came with its completion record,
 * and nothing more is executed in it.  A reign that is later than this one's: this member was
 * deposed, and does not know it yet.
 */
static enum wire_status find_in_cluster(struct request *r, uint64_t secret, struct fate *fate)
{
	const struct wire_request *q = r->head;
	const struct completion asked = { .connection = q->version, .secret = secret,
					  .reign = q->item_flags,
					  .fate = { .request_id = (uint32_t)q->value_bytes } };
	struct fate own = *fate;
	enum wire_status here, found;

	if (asked.reign > r->to->reign)
		return WIRE_EELSEWHERE;
	here = find(r, secret, &own);
	if (here == WIRE_EBUSY || asked.reign == r->to->reign) {
		*fate = own;
		return here;
	}
	found = completions_find(r->worker->server->completions, &asked, fate);
	if (found == WIRE_OK || here == WIRE_EUNSUPPORTED)
		return found;
	/* It was this one's then, too: what it was answered, but that was unknown. */
	if (here == WIRE_OK && own.status == WIRE_EUNKNOWN)
		return found;
	*fate = own;
	return here;
}

enum request_fate request_fate_of(struct request *r)
{
	struct server *s = r->worker->server;
	struct fate fate = { .status = WIRE_OK };
	uint64_t secret = gate_secret(s->gate, r->user, r->head->value_checksum);
	enum wire_status found = s->completions && r->head->item_flags
					 ? find_in_cluster(r, secret, &fate)
					 : find(r, secret, &fate);

	return tell(r, found, &fate);
}

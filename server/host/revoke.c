/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/host/revoke.h"

#include "common/clock.h"
#include "common/log.h"
#include "server/access/gate.h"
#include "server/host/conns.h"
#include "server/host/options.h"
#include "server/host/server.h"
#include "server/table/table.h"
#include "server/worker/conn.h"
#include "server/worker/context.h"

struct look {
	struct gate *gate;
	unsigned ended;
};

static void end_revoked(void *arg, struct conn *c, const struct handshake *h)
{
	struct look *look = arg;

	if (gate_still_admits(look->gate, h))
		return;
	conn_cut(c, "its user was removed or changed");
	look->ended++;
}

/* Ends the connections whose user is not what they were; how many. */
static unsigned cut_off(struct server *s)
{
	struct look look = { .gate = s->gate };

	conns_each(s, end_revoked, &look);
	return look.ended;
}

/* A bit for each rail that is lost, whose device registers nothing. */
static unsigned lost_rails(const struct server *s)
{
	unsigned lost = 0;

	for (unsigned i = 0; i < s->rail_count; i++)
		lost |= (unsigned)atomic_load(&s->rails[i].is_lost) << i;
	return lost;
}

static void change_rkeys(struct server *s)
{
	struct table *t = s->table;
	uint64_t begin = clock_ns();
	struct table_keys old, new;
	struct err err;

	if (table_keys_new(t, lost_rails(s), &new, &err)) {
		log_error("the rkeys stay as they were, so what a removed user knows of them is still "
			  "right; without a connection it is of no use to them: %s", err.text);
		return;
	}
	table_keys_swap(t, &new, &old);
	server_tell_rkeys(s);
	table_keys_delete(t, &old);
	log_info("new rkeys, made in %.1f ms: clients connect again",
		 (double)(clock_ns() - begin) / 1e6);
	atomic_fetch_add(&s->rkey_changes, 1);
}

void revoke_reload(struct server *s)
{
	unsigned users;
	enum gate_change change = gate_reload(s->gate, &users);

	if (change == GATE_SAME)
		return;
	unsigned ended = cut_off(s);
	log_info("users: %u in %s; %u connection%s ended", users, s->options->users, ended,
		 ended == 1 ? "" : "s");
	if (change == GATE_REVOKED)
		change_rkeys(s);
}

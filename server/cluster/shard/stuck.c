/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/shard/stuck.h"

#include "common/log.h"
#include "server/cluster/shard/crew.h"

#define STUCK_NS 10000000000ull  /* with the same record, or without having begun the epoch */
#define STUCK_BYTES_S (32u << 20) /* and so much longer if it is long */
#define LATE_NS 1000000000ull    /* of this thread: then nobody else is to blame */

/* The eldest of what the member of that place lacks; that it has begun the epoch, for a start. */
static uint64_t lacking(const struct shard *s, unsigned place, uint64_t *bytes)
{
	const struct member *m = &s->member;

	*bytes = 0;
	if (m->epoch_order)
		return 0; /* this one has not begun it either */
	return m->peers[place].is_begun ? replica_lacking(s->replica, 1u << place, bytes) : UINT64_MAX;
}

/* Nothing is asked of this one's own workers: it shows whether they stand still. */
static void probe(struct shard *s)
{
	struct replica_order o = { .kind = REPLICA_HOLD };

	crew_order(s, &o, 0);
}

static bool is_stuck(struct shard *s, unsigned place, uint64_t now_ns)
{
	struct stuck *k = &s->stuck[place];
	uint64_t bytes, number = lacking(s, place, &bytes);

	if (!number || number != k->number || k->epoch != s->member.known.epoch ||
	    now_ns >= k->looked_ns + LATE_NS)
		*k = (struct stuck){ .epoch = s->member.known.epoch, .number = number,
				     .since_ns = now_ns };
	k->looked_ns = now_ns;
	if (!k->is_probed && now_ns >= k->since_ns + STUCK_NS / 2) {
		k->is_probed = true;
		probe(s);
	}
	return now_ns >= k->since_ns + STUCK_NS + bytes * 1000000000 / STUCK_BYTES_S &&
	       crew_is_idle(s);
}

void stuck_look(struct shard *s, uint64_t now_ns)
{
	struct member *m = &s->member;

	for (unsigned i = 0; i < MEMBER_PEERS_MAX && member_is_primary(m); i++) {
		const char *name = m->peers[i].id.name;

		if (!*name || (int)i == m->joiner || !is_stuck(s, i, now_ns))
			continue;
		if (!s->stuck[i].is_told)
			log_warn("member %s %s, which changes wait for: its disk stands "
				 "still, or one of its threads; it is left out", name,
				 m->peers[i].is_begun ? "takes no record"
						      : "has not begun this epoch");
		s->stuck[i].is_told = true;
		member_gone(m, name);
	}
}

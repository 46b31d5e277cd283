/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/member/peers.h"

#include <string.h>

int member_place(const struct member *m, const char *name, uint64_t incarnation)
{
	for (unsigned i = 0; i < MEMBER_PEERS_MAX; i++)
		if (m->peers[i].id.name[0] && m->peers[i].id.incarnation == incarnation &&
		    !strcmp(m->peers[i].id.name, name))
			return (int)i;
	return -1;
}

bool member_is_silent(const struct member *m, uint64_t heard_ns, uint64_t now_ns)
{
	uint64_t until_ns = m->polled_ns && m->polled_ns < now_ns ? m->polled_ns : now_ns;

	return until_ns >= heard_ns + MEMBER_SILENCE_NS;
}

unsigned member_free_place(const struct member *m)
{
	unsigned i = 0;

	while (m->peers[i].id.name[0])
		i++;
	return i;
}

void member_seat_peers(struct member *m, uint64_t now_ns)
{
	for (unsigned i = 0; i < MEMBER_PEERS_MAX; i++) {
		struct member_peer *p = &m->peers[i];

		p->is_begun = false;
		p->question = 0;
		if (p->id.name[0] && config_find(&m->known, &p->id) < 0)
			*p = (struct member_peer){ 0 };
	}
	for (unsigned i = 0; i < m->known.count; i++) {
		const struct config_member *id = &m->known.set[i];

		if (!config_is_same(id, &m->self) && member_place(m, id->name, id->incarnation) < 0)
			m->peers[member_free_place(m)] = (struct member_peer){ .id = *id, .heard_ns = now_ns };
	}
}

uint32_t member_set_bits(const struct member *m)
{
	uint32_t bits = 0;

	for (unsigned i = 0; i < MEMBER_PEERS_MAX; i++)
		if (m->peers[i].id.name[0])
			bits |= 1u << i;
	return bits;
}

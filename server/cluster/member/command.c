/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/member/command.h"

#include <string.h>

#include "server/cluster/member/act.h"
#include "server/cluster/member/backup.h"

bool member_remove(struct member *m, const char *name)
{
	if (m->state != MEMBER_SERVING || m->joiner >= 0)
		return false;
	for (unsigned i = 1; i < m->known.count; i++)
		if (!strcmp(m->known.set[i].name, name)) {
			strcpy(m->unwanted, name);
			return true;
		}
	return false;
}

bool member_force(struct member *m, uint64_t now_ns, struct member_actions *actions)
{
	if (m->state != MEMBER_OUT || !m->known.epoch || m->is_unfit || !m->self.incarnation)
		return false;
	/* Others of the set may have promised just now. */
	promise_make(&m->promise, now_ns);
	m->is_forced = true;
	member_seal(m, actions);
	return true;
}

void member_tick_forced(struct member *m, uint64_t now_ns, struct member_actions *actions)
{
	struct config c = m->known;

	if (m->seal_order || !m->is_reached || !member_may_propose(m, now_ns))
		return;
	c.reign = m->known.epoch + 1;
	c.is_handed = false;
	c.count = 1;
	c.set[0] = m->self;
	member_propose(m, &c, now_ns, actions);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/lock/lease.h"

#include <stdlib.h>

#include "common/layout.h"
#include "server/lock/word.h"

struct lease {
	uint64_t stripe, token; /* 0: none */
	uint64_t since_ns;
};

static bool is_over(const struct lockwords *l, const struct lease *e)
{
	return !e->token || (lockword_get(l, e->stripe) & ~LAYOUT_LOCK_WAIT) != e->token;
}

uint64_t lease_since(const struct lockwords *l, struct holder *h, uint64_t stripe, uint64_t token,
		     uint64_t since_ns)
{
	struct lease *free_one = NULL;

	if (!h->leases && !(h->leases = calloc(LAYOUT_HELD_MAX, sizeof *h->leases)))
		return since_ns;
	for (struct lease *e = h->leases; e < h->leases + LAYOUT_HELD_MAX; e++) {
		if (e->token == token && e->stripe == stripe)
			return e->since_ns;
		if (!free_one && is_over(l, e))
			free_one = e;
	}
	if (free_one)
		*free_one = (struct lease){ stripe, token, since_ns };
	return since_ns;
}

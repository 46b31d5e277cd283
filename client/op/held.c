/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/op/held.h"

#include <string.h>

void held_forget(struct held *h)
{
	memset(h->page, 0, LAYOUT_HELD_MAX * sizeof *h->page);
	h->count = 0;
}

bool held_say(struct held *h, uint64_t stripe, uint64_t token)
{
	for (unsigned i = 0; i < LAYOUT_HELD_MAX; i++) {
		if (!h->page[i].token) {
			h->page[i].stripe = stripe;
			__atomic_store_n(&h->page[i].token, token, __ATOMIC_RELEASE);
			return true;
		}
	}
	return false;
}

void held_say_free(struct held *h, uint64_t token)
{
	for (unsigned i = 0; i < LAYOUT_HELD_MAX; i++)
		if (h->page[i].token == token)
			__atomic_store_n(&h->page[i].token, 0, __ATOMIC_RELEASE);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/worker/request/pinned.h"

#include "server/store/get.h"
#include "server/store/item/item.h"

void pinned_init(struct pinned_list *l)
{
	l->first = NULL;
	l->end = &l->first;
}

int pinned_take(struct pinned_list *l, struct store_worker *w, struct pinned *p,
		const struct store_change *key, struct store_result *r, uint64_t now_ns)
{
	pinned_end(l, w, p);
	int status = store_pin(w, key, r, &p->pin);
	if (status != WIRE_OK)
		return status;
	p->version = r->version;
	p->until_ns = now_ns + PINNED_NS;
	p->next = NULL;
	p->prev = l->end;
	*l->end = p;
	l->end = &p->next;
	return WIRE_OK;
}

void pinned_end(struct pinned_list *l, struct store_worker *w, struct pinned *p)
{
	if (!p->until_ns)
		return;
	p->until_ns = 0;
	*p->prev = p->next;
	if (p->next)
		p->next->prev = p->prev;
	else
		l->end = p->prev;
	store_item_unpin(w, &p->pin);
}

void pinned_lapse(struct pinned_list *l, struct store_worker *w, uint64_t now_ns)
{
	while (l->first && l->first->until_ns <= now_ns)
		pinned_end(l, w, l->first);
}

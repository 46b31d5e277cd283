/* SPDX-License-Identifier: BSD-2-Clause */
/* effect.h -- how a change of one key takes effect. */
#ifndef SERVER_STORE_CHANGE_EFFECT_H
#define SERVER_STORE_CHANGE_EFFECT_H

#include "server/store/change/change.h"

/* Whether the old item is overwritten where it is, rather than replaced. */
bool work_fits_in_place(const struct store_worker *worker, const struct store_change *change,
			const struct work *work);
/*
 * Makes the change and ends it; `image`: what the old item is overwritten with, or
 * NULL.  WIRE_EMEMORY: nothing was done, and it has not ended; not of a new item whose
 * place was promised.
 */
int work_put(struct store_worker *worker, const struct store_change *change,
	     const struct layout_item *image, struct work *work, struct store_result *result);
/* Puts a complete item, sealed or not, into the old one's place, which is the caller's then. */
void work_replace(struct store_worker *worker, struct work *work, struct layout_item *item,
		  unsigned len_code);
/* The key's item is to go; ends the change. */
void work_remove(struct store_worker *worker, struct work *work);

#endif

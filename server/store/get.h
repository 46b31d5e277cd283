/* SPDX-License-Identifier: BSD-2-Clause */
/* get.h -- GETs by message. */
#ifndef SERVER_STORE_GET_H
#define SERVER_STORE_GET_H

#include <stddef.h>

#include "server/store/change/change.h"

/*
 * GET: copies the value to `buf` if it has room (result->value_bytes).  An enum wire_status or
 * STORE_ASIDE; so for all three.
 */
int store_get(struct store_worker *worker, const struct store_change *key, void *buf,
	      size_t buf_bytes, struct store_result *result);

/* The same without the value. */
int store_head(struct store_worker *worker, const struct store_change *key,
	       struct store_result *result);

/* For a value that is too long for a message: pins the item, which result->word names, for
 * the caller to end (store_item_unpin).  STORE_ASIDE also if it has become short. */
int store_pin(struct store_worker *worker, const struct store_change *key,
	      struct store_result *result, struct pin *pin);

#endif

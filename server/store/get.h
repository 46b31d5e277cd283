/* SPDX-License-Identifier: BSD-2-Clause */
/* get.h -- GETs by message. */
#ifndef SERVER_STORE_GET_H
#define SERVER_STORE_GET_H

#include <stddef.h>

#include "server/store/change/change.h"

/*
 * GET: copies the value to `buf` if it has room; otherwise to a copy of the item
 * that only the caller knows of (*copy, to be given to store_item_delete).
 */
int store_get(struct store_worker *worker, const struct store_change *key, void *buf,
	      size_t buf_bytes, struct store_result *result, struct layout_item **copy);

/* The same without the value. */
int store_head(struct store_worker *worker, const struct store_change *key,
	       struct store_result *result);

#endif

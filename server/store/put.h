/* SPDX-License-Identifier: BSD-2-Clause */
/* put.h -- gives a key a value: the change's own, or one that is computed from the old. */
#ifndef SERVER_STORE_PUT_H
#define SERVER_STORE_PUT_H

#include "server/store/change/change.h"

/* An enum wire_status, STORE_ASIDE or STORE_COMMIT. */
int store_put(struct store_worker *worker, const struct store_change *change,
	      struct store_result *result);

#endif

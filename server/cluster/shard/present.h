/* SPDX-License-Identifier: BSD-2-Clause */
/* present.h -- who is there, as the agreement listed it at the last look: roster.h looks. */
#ifndef SERVER_CLUSTER_SHARD_PRESENT_H
#define SERVER_CLUSTER_SHARD_PRESENT_H

#include <stdbool.h>
#include <stdint.h>

#include "server/cluster/config/config.h"

#define ROSTER_MAX 16u
#define ROSTER_CLIENTS_BYTES 256u /* four of 63 with commas between, and the 0 */

struct roster_member {
	char name[CONFIG_NAME_BYTES];
	char clients[ROSTER_CLIENTS_BYTES]; /* where it listens for those, with commas between;
					     * "": not known */
	uint64_t incarnation, stripes;
	uint64_t keys;   /* of its table, as it said so */
	int32_t version; /* of its record */
	bool is_there;   /* it was, at the last look */
};

struct roster {
	unsigned count;
	struct roster_member of[ROSTER_MAX];
	uint64_t begun_ns; /* of the look whose answer this is; 0: there was none */
};

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* key.h -- what follows from the cluster's key, and is the same at all members.  Any thread. */
#ifndef SERVER_CLUSTER_LINK_KEY_H
#define SERVER_CLUSTER_LINK_KEY_H

#include "server/cluster/link/prove.h"

#define KEY_DIGEST_BYTES 128u

/* What proves a member to the agreement: it can't be made without the secret, nor tells it. */
void key_digest(const struct link_key *key, char text[KEY_DIGEST_BYTES]);
/* Of the table: a record names stripes. */
uint64_t key_hash_seed(const struct link_key *key);

/* Makes a client's secret worth the same at all members: 16 bytes. */
#define KEY_WORTH_BYTES 16u
void key_worth(const struct link_key *key, uint8_t worth[KEY_WORTH_BYTES]);

#endif

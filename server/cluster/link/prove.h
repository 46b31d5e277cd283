/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * prove.h -- how two members show each other that they have the cluster's key.
 *
 * All members have the same Ed25519 secret.  Who connects sends a knock with the request, and is
 * answered with one; then it sends a hello with a proof, and is answered with another.  A proof
 * is over both knocks, both queue pairs and the hellos (common/auth/auth.h says what for).
 *
 * Members are upgraded one by one, so each says by its knock which versions it speaks, and both go
 * by the latest that they share.  The proofs are over that, too.
 *
 * No I/O, no allocation; any thread, after auth_init().
 */
#ifndef SERVER_CLUSTER_LINK_PROVE_H
#define SERVER_CLUSTER_LINK_PROVE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/auth/auth.h"

#define LINK_MAGIC 0x6b6e6c64766bull /* "kvdlnk" */
#define LINK_VERSION 2u
#define LINK_VERSION_OLDEST 2u /* that this one speaks too */
#define LINK_NAME_BYTES 64u /* of a member, with its 0 */

/* Which of their threads two members' connection is of. */
struct link_lane {
	uint32_t shard;
	uint32_t number; /* 0: the clusters' threads; from 1 on: workers */
};

struct link_versions {
	uint32_t oldest, latest; /* and all in between */
};

/* The private data of a request for a connection, and of its answer. */
struct link_knock {
	uint64_t magic;
	uint32_t version; /* the latest */
	struct link_lane lane;
	uint8_t nonce[AUTH_NONCE_BYTES];
	uint32_t oldest;
};
static_assert(sizeof(struct link_knock) <= 56, "what rdma_cm takes with a request");

/* The body of a LINK_HELLO, and of its answer. */
struct link_hello {
	char name[LINK_NAME_BYTES];
	uint8_t proof[AUTH_PROOF_BYTES];
};
static_assert(sizeof(struct link_hello) == 128, "link");

struct link_key {
	struct auth_secret secret;
	struct auth_key key;
};

/* What both ends know of a connection. */
struct link_exchange {
	struct link_knock asks, answers;
	uint32_t asks_qpn, answers_qpn;
};

void link_knock_fill(struct link_knock *knock, const struct link_lane *lane,
		     const struct link_versions *versions);
/* Whether that is a member's knock; length as rdma_cm has it, which may be more. */
bool link_knock_take(struct link_knock *knock, const void *data, size_t length);
/* The version that two who knocked so go by; 0: they share none. */
uint32_t link_version(const struct link_knock *a, const struct link_knock *b);

/* Fills hello->proof. */
void link_prove_hello(const struct link_exchange *x, const struct link_key *key,
		      struct link_hello *hello);
bool link_check_hello(const struct link_exchange *x, const struct link_key *key,
		      const struct link_hello *hello);
/* The answer's, over the other one's proof too. */
void link_prove_answer(const struct link_exchange *x, const struct link_key *key,
		       const struct link_hello *hello, struct link_hello *answer);
bool link_check_answer(const struct link_exchange *x, const struct link_key *key,
		       const struct link_hello *hello, const struct link_hello *answer);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/link/key.h"

#include <stdio.h>
#include <string.h>

/* No peer's: of a version that no protocol has, with no queue pair. */
static void derive(const struct link_key *key, const char *what, uint8_t proof[AUTH_PROOF_BYTES])
{
	struct auth_exchange e = { .server = key->key, .hello = what, .hello_bytes = strlen(what) };

	auth_prove_client(&e, &key->secret, proof);
}

void key_worth(const struct link_key *key, uint8_t worth[KEY_WORTH_BYTES])
{
	uint8_t proof[AUTH_PROOF_BYTES];

	derive(key, "kvd-fates", proof);
	memcpy(worth, proof, KEY_WORTH_BYTES);
	auth_wipe(proof, sizeof proof);
}

void key_digest(const struct link_key *key, char text[KEY_DIGEST_BYTES])
{
	uint8_t proof[AUTH_PROOF_BYTES];
	char words[AUTH_TEXT_BYTES];

	derive(key, "kvd-agreement", proof);
	auth_to_text(proof, words);
	snprintf(text, KEY_DIGEST_BYTES, "kvd:%s", words);
}

uint64_t key_hash_seed(const struct link_key *key)
{
	uint64_t seed;

	memcpy(&seed, key->key.bytes, sizeof seed);
	return seed;
}

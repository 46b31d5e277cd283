/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auth.h -- how a client and kvd prove to each other who they are.
 *
 * Each user and each kvd has an Ed25519 key pair.  kvd's users file has the users'
 * public keys and kvd's own secret.  A user's credentials are the user's secret and kvd's
 * public key.  So no file of the server's lets anybody be a user.  Nonces, a name and
 * signatures cross the wire.
 *
 * Both ends sign the same exchange: fresh nonces of both (so nothing can be
 * replayed), kvd's public key (so a proof that was given to one server is worth
 * nothing at another), the numbers of both queue pairs (so it is worth nothing on
 * another connection: a peer that passes messages on has queue pairs of its own), the
 * client's hello, and, by kvd, the welcome.
 *
 * Nonces, keys as bytes and proofs have AUTH_*_BYTES, keys as text AUTH_TEXT_BYTES.
 *
 * All functions may be called from any thread, and neither block nor allocate, but
 * for auth_init and the file functions of file.h.
 */
#ifndef COMMON_AUTH_AUTH_H
#define COMMON_AUTH_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AUTH_KEY_BYTES 32u
#define AUTH_SECRET_BYTES 32u
#define AUTH_NONCE_BYTES 32u
#define AUTH_PROOF_BYTES 64u
#define AUTH_NAME_BYTES_MAX 32u

/* A key as text: base64url without padding. */
#define AUTH_TEXT_BYTES 44u /* with the zero byte */

struct auth_key {
	uint8_t bytes[AUTH_KEY_BYTES];
};

/* The owner wipes it with auth_wipe(). */
struct auth_secret {
	uint8_t bytes[AUTH_SECRET_BYTES];
};

/* Call it before the others, as often as you like.  0 or -1. */
int auth_init(void);
void auth_nonce(uint8_t *nonce);
void auth_new(struct auth_secret *secret, struct auth_key *key);
void auth_key_of(const struct auth_secret *secret, struct auth_key *key);
void auth_wipe(void *secret, size_t bytes);
bool auth_key_equal(const struct auth_key *a, const struct auth_key *b);

/* Letters, digits, '.', '_', '-', 1 to AUTH_NAME_BYTES_MAX of them. */
bool auth_name_is_good(const char *name, size_t bytes);

void auth_to_text(const uint8_t *bytes, char *text);
bool auth_from_text(const char *text, size_t text_bytes, uint8_t *bytes);

/* What both ends know, and sign. */
struct auth_exchange {
	uint8_t client_nonce[AUTH_NONCE_BYTES];
	uint8_t server_nonce[AUTH_NONCE_BYTES];
	struct auth_key server;
	uint32_t version; /* of the protocol */
	uint32_t client_qpn;
	uint32_t server_qpn;
	const void *hello; /* what the client says of itself */
	size_t hello_bytes;
};

void auth_prove_client(const struct auth_exchange *exchange, const struct auth_secret *secret,
		       uint8_t *proof);
bool auth_check_client(const struct auth_exchange *exchange, const struct auth_key *key,
		       const uint8_t *proof);
/* kvd's, over the client's as well, and over what it answers. */
void auth_prove_server(const struct auth_exchange *exchange,
		       const uint8_t *client_proof, const void *welcome,
		       size_t welcome_bytes, const struct auth_secret *secret,
		       uint8_t *proof);
bool auth_check_server(const struct auth_exchange *exchange,
		       const uint8_t *client_proof, const void *welcome,
		       size_t welcome_bytes, const uint8_t *proof);

#endif

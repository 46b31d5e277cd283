/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/auth/auth.h"

#include <sodium.h>
#include <string.h>

_Static_assert(AUTH_KEY_BYTES == crypto_sign_PUBLICKEYBYTES, "keys of Ed25519");
_Static_assert(AUTH_SECRET_BYTES == crypto_sign_SEEDBYTES, "keys of Ed25519");
_Static_assert(AUTH_PROOF_BYTES == crypto_sign_BYTES, "signatures of Ed25519");

int auth_init(void)
{
	return sodium_init() < 0 ? -1 : 0;
}

void auth_nonce(uint8_t *nonce)
{
	randombytes_buf(nonce, AUTH_NONCE_BYTES);
}

void auth_new(struct auth_secret *secret, struct auth_key *key)
{
	randombytes_buf(secret->bytes, sizeof secret->bytes);
	auth_key_of(secret, key);
}

void auth_key_of(const struct auth_secret *secret, struct auth_key *key)
{
	uint8_t expanded[crypto_sign_SECRETKEYBYTES];

	crypto_sign_seed_keypair(key->bytes, expanded, secret->bytes);
	sodium_memzero(expanded, sizeof expanded);
}

void auth_wipe(void *secret, size_t bytes)
{
	sodium_memzero(secret, bytes);
}

bool auth_key_equal(const struct auth_key *a, const struct auth_key *b)
{
	return sodium_memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

bool auth_name_is_good(const char *name, size_t bytes)
{
	static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789._-";

	if (bytes == 0 || bytes > AUTH_NAME_BYTES_MAX)
		return false;
	for (size_t i = 0; i < bytes; i++)
		if (!name[i] || !strchr(good, name[i]))
			return false;
	return true;
}

#define TEXT_VARIANT sodium_base64_VARIANT_URLSAFE_NO_PADDING

void auth_to_text(const uint8_t *bytes, char *text)
{
	sodium_bin2base64(text, AUTH_TEXT_BYTES, bytes, AUTH_KEY_BYTES, TEXT_VARIANT);
}

bool auth_from_text(const char *text, size_t text_bytes, uint8_t *bytes)
{
	size_t n = 0;

	return text_bytes == AUTH_TEXT_BYTES - 1 &&
	       sodium_base642bin(bytes, AUTH_KEY_BYTES, text, text_bytes, NULL, &n, NULL,
				 TEXT_VARIANT) == 0 &&
	       n == AUTH_KEY_BYTES;
}

/* ------------------------------------------------------------------- proofs */

/* What is signed is a digest, with a word before it that no other signature of
 * these keys has. */
#define LABEL_BYTES 16u
struct signed_text {
	char label[LABEL_BYTES];
	uint8_t digest[crypto_generichash_BYTES];
};

static void add_number(crypto_generichash_state *h, uint64_t n)
{
	uint8_t bytes[8];

	for (unsigned i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(n >> 8 * i);
	crypto_generichash_update(h, bytes, sizeof bytes);
}

/* Each part of a length of its own follows that length. */
static void add_exchange(crypto_generichash_state *h, const struct auth_exchange *x)
{
	add_number(h, x->version);
	add_number(h, x->client_qpn);
	add_number(h, x->server_qpn);
	crypto_generichash_update(h, x->client_nonce, sizeof x->client_nonce);
	crypto_generichash_update(h, x->server_nonce, sizeof x->server_nonce);
	crypto_generichash_update(h, x->server.bytes, sizeof x->server.bytes);
	add_number(h, x->hello_bytes);
	crypto_generichash_update(h, x->hello, x->hello_bytes);
}

static void client_text(const struct auth_exchange *x, struct signed_text *text)
{
	crypto_generichash_state h;

	memcpy(text->label, "kvd client 2\0\0\0", LABEL_BYTES);
	crypto_generichash_init(&h, NULL, 0, sizeof text->digest);
	add_exchange(&h, x);
	crypto_generichash_final(&h, text->digest, sizeof text->digest);
}

static void server_text(const struct auth_exchange *x, const uint8_t *client_proof,
			const void *welcome, size_t welcome_bytes, struct signed_text *text)
{
	crypto_generichash_state h;

	memcpy(text->label, "kvd server 2\0\0\0", LABEL_BYTES);
	crypto_generichash_init(&h, NULL, 0, sizeof text->digest);
	add_exchange(&h, x);
	crypto_generichash_update(&h, client_proof, AUTH_PROOF_BYTES);
	add_number(&h, welcome_bytes);
	crypto_generichash_update(&h, welcome, welcome_bytes);
	crypto_generichash_final(&h, text->digest, sizeof text->digest);
}

static void sign(const struct signed_text *text, const struct auth_secret *secret, uint8_t *proof)
{
	uint8_t key[crypto_sign_PUBLICKEYBYTES], expanded[crypto_sign_SECRETKEYBYTES];

	crypto_sign_seed_keypair(key, expanded, secret->bytes);
	crypto_sign_detached(proof, NULL, (const uint8_t *)text, sizeof *text, expanded);
	sodium_memzero(expanded, sizeof expanded);
}

static bool verify(const struct signed_text *text, const struct auth_key *key,
		   const uint8_t *proof)
{
	return crypto_sign_verify_detached(proof, (const uint8_t *)text, sizeof *text,
					   key->bytes) == 0;
}

void auth_prove_client(const struct auth_exchange *x, const struct auth_secret *secret,
		       uint8_t *proof)
{
	struct signed_text text;

	client_text(x, &text);
	sign(&text, secret, proof);
}

bool auth_check_client(const struct auth_exchange *x, const struct auth_key *key,
		       const uint8_t *proof)
{
	struct signed_text text;

	client_text(x, &text);
	return verify(&text, key, proof);
}

void auth_prove_server(const struct auth_exchange *x, const uint8_t *client_proof,
		       const void *welcome, size_t welcome_bytes, const struct auth_secret *secret,
		       uint8_t *proof)
{
	struct signed_text text;

	server_text(x, client_proof, welcome, welcome_bytes, &text);
	sign(&text, secret, proof);
}

bool auth_check_server(const struct auth_exchange *x, const uint8_t *client_proof,
		       const void *welcome, size_t welcome_bytes, const uint8_t *proof)
{
	struct signed_text text;

	server_text(x, client_proof, welcome, welcome_bytes, &text);
	return verify(&text, &x->server, proof);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* common/auth: keys, proofs and namespaces' numbers are what kvd-protocol(7) says, by another
 * program's BLAKE2b and Ed25519, and a proof is of nothing but what was proved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "common/auth/auth.h"
#include "common/auth/space.h"

/* By --wrap: how often bytes that begin with that were wiped. */
void __real_sodium_memzero(void *at, size_t bytes);
void __wrap_sodium_memzero(void *at, size_t bytes);

static const uint8_t *awaited;
static unsigned wiped;

void __wrap_sodium_memzero(void *at, size_t bytes)
{
	wiped += awaited && bytes >= AUTH_SECRET_BYTES && memcmp(at, awaited, AUTH_SECRET_BYTES) == 0;
	__real_sodium_memzero(at, bytes);
}

static void count(uint8_t first, uint8_t *bytes, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		bytes[i] = (uint8_t)(first + i);
}

static int set_up(void **state)
{
	(void)state;
	return auth_init() ? -1 : 0;
}

static const char hello[] = "hello, kvd";
static const char welcome[] = "welcome";
static struct auth_secret client_secret, server_secret;
static struct auth_key client_key;

static struct auth_exchange make_exchange(void)
{
	struct auth_exchange x = { .version = 7, .client_qpn = 0x01020304, .server_qpn = 0x0a0b0c0d,
				   .hello = hello, .hello_bytes = sizeof hello - 1 };

	count(1, client_secret.bytes, AUTH_SECRET_BYTES);
	count(33, server_secret.bytes, AUTH_SECRET_BYTES);
	count(65, x.client_nonce, AUTH_NONCE_BYTES);
	count(97, x.server_nonce, AUTH_NONCE_BYTES);
	auth_key_of(&client_secret, &client_key);
	auth_key_of(&server_secret, &x.server);
	return x;
}

static void is_hex(const uint8_t *bytes, const char *hex)
{
	char text[2 * AUTH_PROOF_BYTES + 1] = "";

	for (unsigned i = 0; i < strlen(hex) / 2; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	assert_string_equal(text, hex);
}

static const char client_hex[] =
	"d8117f39fa066af14e22377060a4a4e0725ed7cc272d00612c2296a6b7c6d39f"
	"dcbac3f5601ddd45852523dcde320a8314b4fcb6326835b56ec56e6668272a0e";
static const char server_hex[] =
	"a70d2a214f018331c75d63a53b43ee289a09b49101ad7265514a76c691be4a8e"
	"706fe5dffbf70bfd6e8d5c21cfb52d404ae58487cf014635b2a12df9f0913f09";

static void test_starts_again(void **state)
{
	(void)state;
	assert_int_equal(auth_init(), 0);
	assert_int_equal(auth_init(), 0);
}

static void test_keys(void **state)
{
	struct auth_secret secret[2];
	struct auth_key key[2];

	(void)state;
	make_exchange();
	is_hex(client_key.bytes, "79b5562e8fe654f94078b112e8a98ba7901f853ae695bed7e0e3910bad049664");
	memset(secret, 0, sizeof secret);
	memset(key, 0, sizeof key);
	for (unsigned i = 0; i < 2; i++) {
		struct auth_key again;
		auth_new(&secret[i], &key[i]);
		auth_key_of(&secret[i], &again);
		assert_true(auth_key_equal(&again, &key[i]));
	}
	assert_memory_not_equal(&secret[0], &secret[1], sizeof secret[0]);
	assert_false(auth_key_equal(&key[0], &key[1]));
	/* Whatever byte differs. */
	for (unsigned i = 0; i < AUTH_KEY_BYTES; i++) {
		key[1] = key[0];
		key[1].bytes[i] ^= 1;
		assert_false(auth_key_equal(&key[0], &key[1]));
	}
}

static void test_nonces_differ(void **state)
{
	uint8_t a[AUTH_NONCE_BYTES] = { 0 }, b[AUTH_NONCE_BYTES] = { 0 };

	(void)state;
	auth_nonce(a);
	auth_nonce(b);
	assert_memory_not_equal(a, b, sizeof a);
}

static void test_text(void **state)
{
	static const char good[] = "-__7__v_-__7__v_-__7__v_-__7__v_-__7__v_-_8";
	static const char *const bad[] = {
		"", "-__7__v_-__7__v_-__7__v_-__7__v_-__7__v_-_", "-__7__v_-__7__v_-__7__v_-__7__v_-__7__v_-_8=",
		"-__7__v_-__7__v_-__7__v_-__7__v_-__7__v_-_/", "-__7__v_-__7__v_ -__7__v_-__7__v_-__7__v_-_",
		"-__7__v_-__7__v_-__7__v_-__7__v_-__7__v_-_9", "-__7__v_-__7__v_-__7__v_-__7__v_-__7__v_-_88",
	};
	uint8_t bytes[AUTH_KEY_BYTES], back[AUTH_KEY_BYTES] = { 0 };
	char text[AUTH_TEXT_BYTES] = "";

	(void)state;
	for (unsigned i = 0; i < sizeof bytes; i++)
		bytes[i] = i % 2 ? 0xff : 0xfb;
	auth_to_text(bytes, text);
	assert_string_equal(text, good);
	assert_true(auth_from_text(good, sizeof good - 1, back));
	assert_memory_equal(back, bytes, sizeof back);
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_false(auth_from_text(bad[i], strlen(bad[i]), back));
}

static void test_names(void **state)
{
	static const char longest[] = "abcdefghijklmnopqrstuvwxyz012345";
	static const char others[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ6789", zero[] = "a\0b";

	(void)state;
	assert_int_equal(sizeof longest - 1, AUTH_NAME_BYTES_MAX);
	assert_true(auth_name_is_good(longest, sizeof longest - 1));
	assert_false(auth_name_is_good("abcdefghijklmnopqrstuvwxyz0123456", AUTH_NAME_BYTES_MAX + 1));
	assert_true(auth_name_is_good(others, sizeof others - 1));
	assert_true(auth_name_is_good("_.-", 3));
	assert_true(auth_name_is_good("a/", 1));
	assert_false(auth_name_is_good("a", 0));
	assert_false(auth_name_is_good("/a", 2));
	assert_false(auth_name_is_good("a/", 2));
	assert_false(auth_name_is_good("a b", 3));
	assert_false(auth_name_is_good(zero, 3));
	assert_false(auth_name_is_good("\303\274", 2));
}

static void test_proofs_are_as_documented(void **state)
{
	uint8_t client[AUTH_PROOF_BYTES], server[AUTH_PROOF_BYTES];
	struct auth_exchange x = make_exchange();

	(void)state;
	auth_prove_client(&x, &client_secret, client);
	is_hex(client, client_hex);
	assert_true(auth_check_client(&x, &client_key, client));
	auth_prove_server(&x, client, welcome, sizeof welcome - 1, &server_secret, server);
	is_hex(server, server_hex);
	assert_true(auth_check_server(&x, client, welcome, sizeof welcome - 1, server));
}

/* Another exchange, of which the proofs are not. */
static void must_not_pass(const struct auth_exchange *x, const uint8_t *client, const uint8_t *server)
{
	assert_false(auth_check_client(x, &client_key, client));
	assert_false(auth_check_server(x, client, welcome, sizeof welcome - 1, server));
}

static void test_proofs_are_of_this_exchange(void **state)
{
	uint8_t client[AUTH_PROOF_BYTES], server[AUTH_PROOF_BYTES], other[AUTH_PROOF_BYTES];
	struct auth_exchange x = make_exchange(), y;

	(void)state;
	auth_prove_client(&x, &client_secret, client);
	auth_prove_server(&x, client, welcome, sizeof welcome - 1, &server_secret, server);
	for (unsigned i = 0; i < 8; i++) {
		y = x;
		y.version ^= i == 0;
		y.client_qpn ^= i == 1 ? 1u << 31 : 0;
		y.server_qpn ^= i == 2;
		y.client_nonce[31] ^= i == 3;
		y.server_nonce[31] ^= i == 4;
		y.server.bytes[31] ^= i == 5;
		y.hello_bytes -= i == 6;
		y.hello = i == 7 ? "hello, kve" : hello;
		must_not_pass(&y, client, server);
	}
	/* kvd's is of the client's proof and of the welcome, too. */
	memcpy(other, client, sizeof other);
	other[63] ^= 1;
	assert_false(auth_check_server(&x, other, welcome, sizeof welcome - 1, server));
	assert_false(auth_check_server(&x, client, welcome, sizeof welcome - 2, server));
	assert_false(auth_check_server(&x, client, "welcomf", sizeof welcome - 1, server));
	assert_false(auth_check_server(&x, client, welcome, sizeof welcome - 1, client));
}

static void test_proofs_are_of_a_key(void **state)
{
	uint8_t proof[AUTH_PROOF_BYTES];
	struct auth_exchange x = make_exchange();

	(void)state;
	auth_prove_client(&x, &client_secret, proof);
	assert_false(auth_check_client(&x, &x.server, proof));
	for (unsigned i = 0; i < AUTH_PROOF_BYTES; i++) {
		proof[i] ^= 4;
		assert_false(auth_check_client(&x, &client_key, proof));
		proof[i] ^= 4;
	}
	assert_true(auth_check_client(&x, &client_key, proof));
}

/* What was made of a secret doesn't stay in memory; nor does one that its owner wipes. */
static void test_secrets_are_wiped(void **state)
{
	static const struct auth_secret none;
	struct auth_secret secret = { { 1, 2, 3 } };
	struct auth_exchange x = make_exchange();
	uint8_t proof[AUTH_PROOF_BYTES];

	(void)state;
	auth_wipe(&secret, sizeof secret);
	assert_memory_equal(&secret, &none, sizeof secret);
	awaited = client_secret.bytes;
	wiped = 0;
	auth_key_of(&client_secret, &client_key);
	assert_int_equal(wiped, 1);
	auth_prove_client(&x, &client_secret, proof);
	assert_int_equal(wiped, 2);
	awaited = NULL;
}

/* ------------------------------------------------------------- namespaces */

static void test_space_numbers(void **state)
{
	(void)state;
	assert_true(space_number("") == 0);
	assert_true(space_number("a") == 0x9d48703bccb4e70full);
	assert_true(space_number("c") == 0x9a8d9ed2ffcf8202ull);
	assert_true(space_number("blue") == 0x940bb2a9f4c61467ull);
	assert_true(space_number("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx") == 0x3d415eed213dd6e5ull);
}

static void test_space_names(void **state)
{
	static const char *const good[] = { "a", "Z9", "0._-", "abcdefghijklmnopqrstuvwxyz012345" };
	static const char *const bad[] = { "", ".", "..", "_a", "-a", ".a", "a/b", "a b",
					   "abcdefghijklmnopqrstuvwxyz0123456" };

	(void)state;
	for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++)
		assert_true(space_name_is_good(good[i], strlen(good[i])));
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_false(space_name_is_good(bad[i], strlen(bad[i])));
}

static void test_space_split(void **state)
{
	char address[8], name[SPACE_NAME_BYTES_MAX + 1];
	struct err err;

	(void)state;
	memset(address, 'x', sizeof address);
	strcpy(name, "old");
	assert_int_equal(space_split("h:12345", address, sizeof address, name, &err), 0);
	assert_string_equal(address, "h:12345");
	assert_string_equal(name, "");
	memset(address, 'x', sizeof address);
	assert_int_equal(space_split("h:1/blue", address, sizeof address, name, &err), 0);
	assert_string_equal(address, "h:1");
	assert_string_equal(name, "blue");
	assert_int_equal(space_split("/abcdefghijklmnopqrstuvwxyz012345", address, sizeof address, name, &err),
			 0);
	assert_string_equal(address, "");
	assert_string_equal(name, "abcdefghijklmnopqrstuvwxyz012345");
	assert_int_equal(space_split("h:123456", address, sizeof address, name, &err), -1);
	assert_string_equal(err.text, "the address 'h:123456...' is too long");
	assert_int_equal(space_split("h:123456/a", address, sizeof address, name, &err), -1);
	assert_int_equal(space_split("h/b/d", address, sizeof address, name, &err), -1);
	assert_string_equal(err.text, "'h/b/d': 'b/d' is no name of a namespace: 1 to 32 letters, digits, "
			    "'.', '_' and '-', the first a letter or digit");
	assert_int_equal(space_split("h/", address, sizeof address, name, &err), -1);
	assert_int_equal(space_split("h/b/", address, sizeof address, name, &err), -1);
	assert_int_equal(space_split("h/-b", address, sizeof address, name, &err), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_starts_again),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_nonces_differ),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_proofs_are_as_documented),
		cmocka_unit_test(test_proofs_are_of_this_exchange),
		cmocka_unit_test(test_proofs_are_of_a_key),
		cmocka_unit_test(test_secrets_are_wiped),
		cmocka_unit_test(test_space_numbers),
		cmocka_unit_test(test_space_names),
		cmocka_unit_test(test_space_split),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/auth/space.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

#include "common/auth/auth.h"

static_assert(SPACE_NAME_BYTES_MAX <= AUTH_NAME_BYTES_MAX, "names");

bool space_name_is_good(const char *name, size_t bytes)
{
	return bytes <= SPACE_NAME_BYTES_MAX && auth_name_is_good(name, bytes) &&
	       !strchr("._-", name[0]);
}

uint64_t space_number(const char *name)
{
	static const char label[] = "kvd namespace 1";
	crypto_generichash_state h;
	uint8_t digest[crypto_generichash_BYTES];
	uint64_t number = 0;

	if (!*name)
		return 0;
	crypto_generichash_init(&h, NULL, 0, sizeof digest);
	crypto_generichash_update(&h, (const uint8_t *)label, sizeof label);
	crypto_generichash_update(&h, (const uint8_t *)name, strlen(name));
	crypto_generichash_final(&h, digest, sizeof digest);
	for (unsigned i = 0; i < sizeof number; i++)
		number |= (uint64_t)digest[i] << 8 * i;
	return number ? number : 1;
}

int space_split(const char *text, char *address, size_t address_bytes, char *name,
		struct err *err)
{
	const char *slash = strchr(text, '/');
	size_t bytes = slash ? (size_t)(slash - text) : strlen(text);

	if (bytes >= address_bytes)
		return err_set(err, -1, "the address '%.40s...' is too long", text);
	memcpy(address, text, bytes);
	address[bytes] = name[0] = '\0';
	if (!slash)
		return 0;
	if (!space_name_is_good(slash + 1, strlen(slash + 1)))
		return err_set(err, -1, "'%.80s': '%.80s' is no name of a namespace: 1 to %u letters, "
			       "digits, '.', '_' and '-', the first a letter or digit", text, slash + 1,
			       SPACE_NAME_BYTES_MAX);
	strcpy(name, slash + 1);
	return 0;
}

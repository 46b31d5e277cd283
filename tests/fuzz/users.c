/* SPDX-License-Identifier: BSD-2-Clause */
/* The users file, and a line of credentials. */
#include <string.h>
#include <unistd.h>

#include "common/auth/file.h"
#include "tests/fuzz/fuzz.h"

static void check_users(const struct users *u)
{
	FUZZ_CHECK(u->count <= USERS_MAX);
	for (unsigned i = 0; i < u->count; i++) {
		const struct user *user = &u->user[i];
		FUZZ_CHECK(auth_name_is_good(user->name, strlen(user->name)));
		FUZZ_CHECK(user->role > ROLE_NONE && user->role <= ROLE_ADMIN);
		FUZZ_CHECK(users_find(u, user->name, strlen(user->name)) == user);
	}
}

/* What was understood is understood again, as the same. */
static void check_round_trip(const struct users *u)
{
	static char path[64];
	struct users *again;
	struct err err;

	if (!path[0])
		snprintf(path, sizeof path, "/tmp/kvd-fuzz-users.%d", (int)getpid());
	FUZZ_CHECK(users_save(u, path, false, &err) == 0);
	FUZZ_CHECK(users_load(path, &again, &err) == 0);
	unlink(path);
	FUZZ_CHECK(again->count == u->count && auth_key_equal(&again->key, &u->key));
	for (unsigned i = 0; i < u->count; i++)
		FUZZ_CHECK(strcmp(again->user[i].name, u->user[i].name) == 0 &&
			   again->user[i].role == u->user[i].role &&
			   auth_key_equal(&again->user[i].key, &u->user[i].key));
	users_delete(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct credentials c, d;
	char line[CREDENTIALS_BYTES_MAX];
	struct users *users;
	struct err err = { "" };

	FUZZ_CHECK(auth_init() == 0);
	if (users_parse((const char *)data, bytes, "input", &users, &err) == 0) {
		check_users(users);
		if (bytes % 8 == 0) /* it is slow */
			check_round_trip(users);
		users_delete(&users);
	} else {
		FUZZ_CHECK(err.text[0] && strlen(err.text) < sizeof err.text);
	}
	if (credentials_parse((const char *)data, bytes, "input", &c, &err) == 0) {
		credentials_format(&c, line);
		FUZZ_CHECK(credentials_parse(line, strlen(line), "line", &d, &err) == 0);
		FUZZ_CHECK(memcmp(&c, &d, sizeof c) == 0);
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/link/prove.h"

#include <string.h>

/* Nothing that is signed here can be taken for what a client and kvd sign. */
#define SIGNED 0x10000u

void link_knock_fill(struct link_knock *knock, const struct link_lane *lane,
		     const struct link_versions *versions)
{
	*knock = (struct link_knock){ .magic = LINK_MAGIC, .version = versions->latest,
				      .oldest = versions->oldest, .lane = *lane };
	auth_nonce(knock->nonce);
}

bool link_knock_take(struct link_knock *knock, const void *data, size_t length)
{
	if (!data || length < sizeof *knock)
		return false;
	memcpy(knock, data, sizeof *knock);
	return knock->magic == LINK_MAGIC;
}

uint32_t link_version(const struct link_knock *a, const struct link_knock *b)
{
	uint32_t latest = a->version < b->version ? a->version : b->version;

	return latest >= a->oldest && latest >= b->oldest ? latest : 0;
}

/* The lane is what the hello says, beside the name. */
struct said {
	char name[LINK_NAME_BYTES];
	struct link_lane lane;
};

static struct said said_in(const struct link_exchange *x, const struct link_hello *hello)
{
	struct said s = { .lane = x->asks.lane };

	memcpy(s.name, hello->name, sizeof s.name);
	return s;
}

static struct auth_exchange exchange(const struct link_exchange *x, const struct link_key *key,
				     const struct said *hello)
{
	struct auth_exchange e = { .server = key->key,
				   .version = SIGNED | link_version(&x->asks, &x->answers),
				   .client_qpn = x->asks_qpn, .server_qpn = x->answers_qpn,
				   .hello = hello, .hello_bytes = sizeof *hello };

	memcpy(e.client_nonce, x->asks.nonce, sizeof e.client_nonce);
	memcpy(e.server_nonce, x->answers.nonce, sizeof e.server_nonce);
	return e;
}

void link_prove_hello(const struct link_exchange *x, const struct link_key *key,
		      struct link_hello *hello)
{
	struct said s = said_in(x, hello);
	struct auth_exchange e = exchange(x, key, &s);

	auth_prove_client(&e, &key->secret, hello->proof);
}

static bool is_ended(const struct link_hello *hello)
{
	return hello->name[0] && memchr(hello->name, 0, sizeof hello->name);
}

bool link_check_hello(const struct link_exchange *x, const struct link_key *key,
		      const struct link_hello *hello)
{
	struct said s = said_in(x, hello);
	struct auth_exchange e = exchange(x, key, &s);

	return is_ended(hello) && auth_check_client(&e, &key->key, hello->proof);
}

void link_prove_answer(const struct link_exchange *x, const struct link_key *key,
		       const struct link_hello *hello, struct link_hello *answer)
{
	struct said s = said_in(x, hello), mine = said_in(x, answer);
	struct auth_exchange e = exchange(x, key, &s);

	auth_prove_server(&e, hello->proof, &mine, sizeof mine, &key->secret, answer->proof);
}

bool link_check_answer(const struct link_exchange *x, const struct link_key *key,
		       const struct link_hello *hello, const struct link_hello *answer)
{
	struct said s = said_in(x, hello), theirs = said_in(x, answer);
	struct auth_exchange e = exchange(x, key, &s);

	return is_ended(answer) &&
	       auth_check_server(&e, hello->proof, &theirs, sizeof theirs, answer->proof);
}

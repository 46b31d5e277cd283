/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The handshake from both sides: a hello with a name and a proof, as kvd's gate takes
 * it, and a welcome, as a client takes it.
 */
#include <string.h>
#include <unistd.h>

#include "client/cache/welcome.h"
#include "common/layout.h"
#include "common/log.h"
#include "server/access/gate.h"
#include "tests/fuzz/fuzz.h"

static struct gate *gate;
static struct auth_secret alice;
static struct auth_key kvd;

static void start(void)
{
	char path[64];
	struct users *users;
	struct err err;

	log_open("fuzz", LOG_LEVEL_ERROR);
	FUZZ_CHECK(auth_init() == 0);
	users = users_new();
	FUZZ_CHECK(users != NULL);
	/* The same in each run: an input that was found must be found again. */
	memset(&users->secret, 7, sizeof users->secret);
	auth_key_of(&users->secret, &users->key);
	FUZZ_CHECK(users_add(users, "alice", ROLE_WRITE, &alice, &err) == 0);
	memset(&alice, 9, sizeof alice);
	auth_key_of(&alice, &users->user[0].key);
	kvd = users->key;
	snprintf(path, sizeof path, "/tmp/kvd-fuzz-gate.%d", (int)getpid());
	FUZZ_CHECK(users_save(users, path, false, &err) == 0);
	users_delete(&users);
	FUZZ_CHECK(gate_new(&(struct gate_config){ .users = path }, &gate, &err) == 0);
	unlink(path);
}

/* A hello from the bytes; `prove`: with alice's proof. */
static void try_hello(struct fuzz_input *in, bool prove)
{
	uint32_t qpn = (uint32_t)fuzz_take(in, 3), client_qpn = (uint32_t)fuzz_take(in, 3);
	struct handshake c = { .server_qpn = qpn, .client_qpn = client_qpn,
			       .depth = (uint16_t)fuzz_take(in, 2) };
	struct wire_request q = { .op = WIRE_HELLO, .value_addr = fuzz_take(in, 8),
				  .value_checksum = fuzz_take(in, 8),
				  .value_rkey = (uint32_t)fuzz_take(in, 4),
				  .key_bytes = (uint16_t)fuzz_take(in, 2),
				  .value_bytes = fuzz_take(in, 8) };
	uint8_t message[LAYOUT_KEY_BYTES_MAX + WIRE_PROOF_BYTES] = { 0 };
	struct wire_signed text = { 0 };
	struct auth_exchange x = { .server = kvd, .version = WIRE_VERSION, .server_qpn = c.server_qpn,
				   .client_qpn = c.client_qpn, .hello = &text,
				   .hello_bytes = sizeof text };
	uint8_t *proof;

	for (unsigned i = 0; i < WIRE_NONCE_BYTES; i++) {
		c.client_nonce[i] = (uint8_t)fuzz_take(in, 1);
		c.server_nonce[i] = (uint8_t)fuzz_take(in, 1);
	}
	/* Lengths that request.c lets through. */
	q.key_bytes %= LAYOUT_KEY_BYTES_MAX + 1;
	size_t rest = in->left < sizeof message ? in->left : sizeof message;
	memcpy(message, in->at, rest);
	if (prove) {
		q.key_bytes = 5;
		q.value_bytes = WIRE_PROOF_BYTES;
		memcpy(message, "alice", 5);
		text = (struct wire_signed){ .value_addr = q.value_addr,
					     .value_checksum = q.value_checksum,
					     .value_rkey = q.value_rkey,
					     .depth = c.depth, .name_bytes = 5,
					     .name = "alice" };
		memcpy(x.client_nonce, c.client_nonce, sizeof x.client_nonce);
		memcpy(x.server_nonce, c.server_nonce, sizeof x.server_nonce);
		auth_prove_client(&x, &alice, message + 5);
	}
	proof = message + q.key_bytes;
	bool in_by = gate_admit(gate, &c, &q, message, proof);
	FUZZ_CHECK(in_by == prove);
	FUZZ_CHECK(in_by == c.admitted && (in_by || c.user.role == ROLE_NONE));
	if (!in_by)
		return;
	FUZZ_CHECK(c.user.role == ROLE_WRITE);
	/* One bit of it, or of what it covers, and it is worth nothing. */
	c.admitted = false;
	c.user = (struct user){ 0 };
	switch (rest ? in->at[0] % 5 : 0) {
	case 0:
		proof[rest > 1 ? in->at[1] % WIRE_PROOF_BYTES : 0] ^= 1;
		break;
	case 1:
		c.server_nonce[rest > 1 ? in->at[1] % WIRE_NONCE_BYTES : 0] ^= 4;
		break;
	case 2:
		q.value_rkey ^= 1;
		break;
	case 3:
		c.server_qpn ^= 1;
		break;
	default:
		c.depth ^= 1;
	}
	FUZZ_CHECK(!gate_admit(gate, &c, &q, message, proof));
}

/* What a client makes of one that it believes, stays within the table. */
static void try_welcome(struct fuzz_input *in)
{
	struct wire_welcome w = { 0 };

	memcpy(&w, in->at, in->left < sizeof w ? in->left : sizeof w);
	if (!welcome_is_sane(&w))
		return;
	unsigned __int128 base = w.table_addr, end = base + w.table_bytes;
	FUZZ_CHECK(end <= UINT64_MAX);
	FUZZ_CHECK(base + w.dir_offset + (unsigned __int128)w.dir_entries * 8 <= end);
	FUZZ_CHECK(base + w.scratch_offset +
			   (unsigned __int128)w.workers * sizeof(struct layout_scratch) <= end);
	FUZZ_CHECK(base + w.marks_offset + (unsigned __int128)w.stripes * 4 <= end);
	FUZZ_CHECK(w.dir_entries <= WELCOME_DIR_ENTRIES_MAX && (w.stripes & (w.stripes - 1)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input in = { data, bytes };

	if (!gate)
		start();
	unsigned kind = (unsigned)fuzz_take(&in, 1) % 4;
	if (kind < 2)
		try_welcome(&in);
	else
		try_hello(&in, kind == 3);
	return 0;
}

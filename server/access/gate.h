/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gate.h -- who gets in: users, their proofs, how many may knock, and who is thrown out.
 *
 * The life of a connection here: the main thread lets it begin (rate_limit.h), a worker
 * checks its hello (gate_admit) and answers it (gate_welcome).  A hello that proves
 * nothing is answered after DENIED_NS, and counts many times in what its address may
 * try.  So is one of a user who has as many connections as a user may have, but it counts
 * for nothing.  Each namespace has a gate of its own.
 *
 * gate_reload() reads the users file again.  Whoever calls it cuts off the users who are not
 * in it any more, or with another key or role, and changes the table's rkeys (host/revoke.h).
 *
 * Lock: `lock` is a leaf.  It covers the users, what a connection was admitted as, and
 * the reading of the rkeys, so that who is admitted with the old users is seen by the
 * reload that ends them.
 */
#ifndef SERVER_ACCESS_GATE_H
#define SERVER_ACCESS_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/addr.h"
#include "common/auth/auth.h"
#include "common/auth/file.h"
#include "common/wire.h"

struct gate;

#define DENIED_NS 1000000000ull

struct gate_config {
	const char *users; /* path of the users file; NULL: everybody may come */
	bool insecure;     /* even from elsewhere */
	bool is_local;     /* only processes of this user on this machine can come */
	struct addr addr;  /* that is served */
	unsigned user_connections; /* of one user; 0: any number */
};

/* What a connection said and was told before its hello, and who it is. */
struct handshake {
	/* Set before its worker has it. */
	uint8_t client_nonce[WIRE_NONCE_BYTES], server_nonce[WIRE_NONCE_BYTES];
	uint32_t client_qpn, server_qpn;
	uint16_t depth; /* that it asked for */
	unsigned rail;  /* the device that it came by */
	uint64_t space; /* the same */
	bool nowhere;   /* unknown namespace: denied exactly like a bad proof */
	/* By its worker, under the gate's lock. */
	struct user user;
	bool admitted;
	bool seated; /* counts among their connections */
};

/* Reads the users file; refuses what is not secure.  After the device was opened.
 * 0, or -1 after setting err; *gate is to be deleted then too. */
int gate_new(const struct gate_config *config, struct gate **gate, struct err *err);
void gate_delete(struct gate **gate);
bool gate_has_users(const struct gate *gate);
/* What it says at start about who may come. */
const char *gate_line(const struct gate *gate);

/* Main thread: what who is admitted learns.  The locks' is for those of the first rail; 0: there are
 * no locks. */
struct gate_rkeys {
	uint32_t table[RAILS_MAX], lock;
};
void gate_set_rkeys(struct gate *gate, const struct gate_rkeys *rkeys);

/* Worker: checks a hello and sets the connection's user.  False: it is denied. */
bool gate_admit(struct gate *gate, struct handshake *handshake, const struct wire_request *hello,
		const uint8_t *name, const uint8_t *proof);
/* Worker: one more connection of the user who was admitted.  False: they have as many as one
 * user may have.  Then, at its end, the other. */
bool gate_take_seat(struct gate *gate, struct handshake *handshake);
void gate_leave_seat(struct gate *gate, struct handshake *handshake);
/* How many one user may have; 0: any number. */
unsigned gate_seats(const struct gate *gate);
/* Worker: fills in role and rkeys, and writes the payload of the answer to a hello that
 * was admitted: the welcome, and kvd's proof where there are users.  Its length. */
size_t gate_welcome(struct gate *gate, const struct handshake *handshake,
		    const struct wire_request *hello, const uint8_t *proof,
		    struct wire_welcome *welcome, uint8_t *payload);
/* Any thread: as whom a connection was admitted; "" if not yet, or without users. */
void gate_user_name(struct gate *gate, const struct handshake *handshake,
		    char name[AUTH_NAME_BYTES_MAX + 1]);
/* Any thread: false: it was admitted as a user who is gone, or is not the same. */
bool gate_still_admits(struct gate *gate, const struct handshake *handshake);
/* A cluster's members: with the same key a secret is worth the same at all of them.  Before the
 * first connection. */
#define GATE_WORTH_BYTES 16u
void gate_share_worth(struct gate *gate, const uint8_t key[GATE_WORTH_BYTES]);
/*
 * Any thread: what a session's secret (of its hello, for WIRE_FATE) is worth when this
 * user says it.  It crosses the wire: somebody else who heard it gets another one.
 */
uint64_t gate_secret(const struct gate *gate, const struct user *user, uint64_t secret);

/* Main thread: readable when the users file may have changed; -1: there is none. */
int gate_fd(const struct gate *gate);
/* Main thread: takes what gate_fd() has; true if the users file was touched. */
bool gate_touched(struct gate *gate);
/* Main thread: the users file again. */
enum gate_change {
	GATE_SAME,    /* there is no file, or it is wrong, which was told */
	GATE_CHANGED, /* nobody lost anything by it */
	GATE_REVOKED, /* somebody lost their key, their role, or all of it */
};
enum gate_change gate_reload(struct gate *gate, unsigned *user_count);

#endif

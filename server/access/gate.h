/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gate.h -- who gets in: users, their proofs, how many may knock, and who is thrown out.
 *
 * The life of a connection here: the main thread lets it begin (rate_limit.h), a worker
 * checks its hello (gate_admit) and answers it (gate_welcome).  A hello that proves
 * nothing is answered after DENIED_NS, and counts many times in what its address may
 * try.  Each namespace has a gate of its own.
 *
 * gate_reload() reads the users file again.  A user who is not in it any more, or with
 * another key or role, is cut off before it returns, and the table's rkeys change: what
 * he learnt is worth nothing on any queue pair.  The other connections break and come
 * back by themselves.
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
#include "common/auth/file.h"
#include "common/wire.h"

struct server;
struct conn;
struct gate;

#define DENIED_NS 1000000000ull

/* Reads the users file; refuses what is not secure.  After the device was opened.
 * 0, or -1 after setting err. */
int gate_new(struct server *server, struct gate **gate, struct err *err);
void gate_delete(struct gate **gate);
bool gate_has_users(const struct gate *gate);
/* What it says at start about who may come. */
const char *gate_line(const struct gate *gate);

/* Worker: checks a hello and sets the connection's role.  False: it is denied. */
bool gate_admit(struct gate *gate, struct conn *conn, const struct wire_request *hello,
		const uint8_t *name, const uint8_t *proof);
/* Worker: fills in role and rkeys, and writes the payload of the answer to a hello that
 * was admitted: the welcome, and kvd's proof where there are users.  Its length. */
size_t gate_welcome(struct gate *gate, const struct conn *conn, const struct wire_request *hello,
		    const uint8_t *proof, struct wire_welcome *welcome, uint8_t *payload);
/* Any thread: as whom a connection was admitted; "" if not yet, or without users. */
void gate_user_name(struct gate *gate, const struct conn *conn,
		    char name[AUTH_NAME_BYTES_MAX + 1]);
/*
 * Any thread: what a session's secret (of its hello, for WIRE_FATE) is worth when this
 * user says it.  It crosses the wire: somebody else who heard it gets another one.
 */
uint64_t gate_secret(const struct gate *gate, const struct user *user, uint64_t secret);
/* What remote rights a role has. */
int gate_rights(const struct server *server, enum role role);

/* Main thread: readable when the users file may have changed; -1: there is none. */
int gate_fd(const struct gate *gate);
/* Main thread: takes what gate_fd() has; true if the users file was touched. */
bool gate_touched(struct gate *gate);
/* Main thread: the users file again.  A file that is wrong is told and changes nothing. */
void gate_reload(struct gate *gate);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* client.h -- a client of the histories, and how it notes what it does. */
#ifndef TESTS_TORTURE_HISTORIES_CLIENT_H
#define TESTS_TORTURE_HISTORIES_CLIENT_H

#include "tests/torture/histories/histories.h"

#define KEY_BYTES 64

/* One call: what it asks, and where its value goes. */
struct ask {
	struct note *note;
	struct kvd_change change;
	struct kvd_change *with; /* NULL: none */
	size_t bytes; /* of a GET: the room that it has */
	int64_t initial;
	char value[VALUE_BYTES_MAX];
};

struct answer {
	int rc;
	uint64_t version;
	size_t bytes;
	int64_t number;
};

struct me {
	struct board *board;
	struct desk *desk;
	uint32_t number; /* no other process's */
	unsigned episode;
	uint32_t values, locks;
	uint64_t random;
	uint64_t version[ORDER_KEYS_MAX]; /* that it last saw; 0: none */
	kvd_session *session;
};

/* A number below n. */
uint64_t roll(struct me *me, uint64_t n);
size_t key_name(const struct me *me, unsigned key, char name[KEY_BYTES]);

/* A note of a call of one part, which is open, and another part of it. */
struct note *note_begin(struct me *me, enum order_kind kind, unsigned key);
struct order_part *note_add(struct note *n, enum order_kind kind, unsigned key);
/* The value of a part. */
void note_keep(struct me *me, struct note *n, unsigned part, const void *value, size_t bytes);
/* False: it failed, which is noted. */
bool note_settle(struct me *me, struct note *n, int rc);
/* With this the operation is known: last. */
void note_end(struct note *n, uint64_t end_ns);
enum order_result result_of(int rc);
/* Errors that a kvd that lives on, with others at the same keys, may give. */
bool is_error(struct me *me, int rc);
/* Its note has the answer. */
void complete(struct me *me, struct ask *a, const struct answer *answer);
/* Nobody else's: a number, or a text of some length. */
size_t make_value(struct me *me, char *value, size_t bytes_max);

/* Reads some keys that follow each other, and changes some, of which some are the same. */
void do_transaction(struct me *me);
/* Locks a key or two, and changes them. */
void do_locked(struct me *me);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peer.h -- a whole kvd in a process of its own, on the software device, and peers that say
 * to it what is in common/wire.h, byte by byte.
 *
 * kvd is that of server/main.c, which these tests are linked with as kvd_main().  A peer's
 * calls wait for at most PEER_PATIENCE_MS, and end the test on what only a broken device
 * does.  Each peer has a device context and memory of its own.  One thread.
 */
#ifndef TESTS_LIB_PEER_H
#define TESTS_LIB_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/layout.h"
#include "tests/attack/raw_peer.h"

#define PEER_PATIENCE_MS 30000
#define PEER_LENT_BYTES (4u << 20)
#define PEER_SECRET 42u

struct kvd {
	pid_t pid;
	char dir[64]; /* for its files and the test's; "": not made yet */
	char addr[ADDR_TEXT_BYTES];
};

/* Makes the folder, for files that kvd is to find at its start. */
void kvd_folder(struct kvd *kvd);
/* A test's main() begins with this: it is the kvd, and does not return, if it was started
 * by kvd_start(). */
void kvd_be(int argc, char **argv);
/* args: options, NULL behind the last; they get an address of the loopback and a readiness
 * file. */
void kvd_start(struct kvd *kvd, const char *const *args);
/* Ends it in order, and removes the folder.  Ends the test as failed if kvd did not end well:
 * cmocka takes no notice of a group's end that failed. */
void kvd_stop(struct kvd *kvd);
/* A path in the folder. */
const char *kvd_path(const struct kvd *kvd, const char *name, char *buf, size_t buf_bytes);

struct peer {
	struct raw raw;
	struct raw_conn c;
	/* What kvd may READ of it: first what it holds, then what it likes. */
	struct layout_held *held;
	uint8_t *lent;
	struct ibv_mr *lent_mr;
	uint32_t last_id;
	/* The last reply. */
	struct wire_reply reply;
	uint8_t payload[WIRE_MESSAGE_BYTES_MAX];
};

/* Connects, without a hello; who: NULL where there are no users. */
void peer_connect(struct peer *peer, const struct kvd *kvd);
/* The hello, with what is lent; its status, or -1 if kvd hung up. */
int peer_hello(struct peer *peer, const struct credentials *who);
/* Both; the hello has to be a good one. */
void peer_enter(struct peer *peer, const struct kvd *kvd);
void peer_leave(struct peer *peer);

/* SENDs a request with key and value behind it, whose lengths are q's; its id is set. */
bool peer_say(struct peer *peer, struct wire_request *q, const void *key, const void *value);
/* The next reply, into peer->reply: its status, or -1 if kvd hung up or nothing came. */
int peer_hear(struct peer *peer, int patience_ms);
/* Both; the reply has to be that request's. */
int peer_ask(struct peer *peer, struct wire_request *q, const void *key, const void *value);
/* The same with strings; value may be NULL. */
int peer_ask_text(struct peer *peer, struct wire_request q, const char *key, const char *value);
/* Whether kvd hangs up now. */
bool peer_is_ended(struct peer *peer);
/* A figure of WIRE_STATS, by its name in the JSON: "keys", "locks.waits". */
uint64_t peer_stat(struct peer *peer, const char *name);
/* Asks until it is at least that. */
bool peer_wait_stat(struct peer *peer, const char *name, uint64_t least);

/* The peer's n-th token; the lock word of a stripe, READ; a compare-and-swap of it, by
 * the device: true if it was `expected`. */
uint64_t peer_token(const struct peer *peer, uint64_t n);
uint64_t peer_lock_word(struct peer *peer, uint64_t stripe);
bool peer_lock_swap(struct peer *peer, uint64_t stripe, uint64_t expected, uint64_t desired);

#endif

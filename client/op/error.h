/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * error.h -- whether a session's connection works, and the sentence of its failure.
 *
 * The session's thread.  Who finds the connection broken says so by health_fail(); the
 * session tears it down.
 */
#ifndef CLIENT_OP_ERROR_H
#define CLIENT_OP_ERROR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/verbs/verbs.h"

struct health {
	struct err err; /* of the last call that failed */
	bool connected;
	bool broken; /* to be torn down, and connected again before the next use */
	int broken_code;
	bool silent; /* it was found broken as kvd did not answer: another address may be better */
	bool moved; /* kvd is of a cluster, and another one serves: nothing more is sent there */
	struct err lost;  /* how the last connection ended; "": there is one, or never was */
	bool device_lost; /* it was taken away: nothing of it may be kept */
	bool was_lost;    /* one was, and is left, since there was a connection */
	int notice;       /* enum wire_notice: the last that kvd gave, or 0 */
	uint64_t notice_ns;

	/* What sentences name. */
	const char *peer; /* kvd's address */
	const char *user; /* who the client is */
	const char *role; /* what kvd lets them do; of this connection */
	const struct verbs *verbs;
	struct ibv_context *ctx; /* NULL: the session uses no device */
	uint8_t port;            /* of it; the connection's, or the last one's */
};

static inline bool health_is_good(const struct health *h)
{
	return h->connected && !h->broken;
}

/* And what changes or reads something may be sent there. */
static inline bool health_is_usable(const struct health *h)
{
	return h->connected && !h->broken && !h->moved;
}

/* Marks the connection broken, for the first reason that is given.  `code`. */
int health_fail(struct health *h, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Adds to the sentence what is known of the reason. */
void health_explain(struct health *h);
/* And how the connection ended that can't be made anew. */
void health_recall(struct health *h);
/* Whether the port is down at this end: a system call. */
bool health_port_is_down(const struct health *h);
/* kvd told something that nobody asked for: for the sentence of a later failure. */
void health_noticed(struct health *h, unsigned notice);
/* KVD_EDENIED, with a sentence: the user's role is too small for this. */
int health_denied(struct health *h);

#endif

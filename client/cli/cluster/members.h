/* SPDX-License-Identifier: BSD-2-Clause */
/* members.h -- a cluster as its members tell of it: each is asked what it is. */
#ifndef CLIENT_CLI_CLUSTER_MEMBERS_H
#define CLIENT_CLI_CLUSTER_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "client/cli/session/cli.h"

#define MEMBERS_MAX 16
#define CLIENTS_BYTES 256 /* four addresses with commas between */

struct member {
	char name[64], clients[CLIENTS_BYTES];
	char role[16];  /* as another one has it: primary, backup, joining, out */
	bool there;     /* the agreement lists it */
	double silent_ms, lag; /* as the primary has it; below 0: it has no figure */
	double copied;  /* of a copy that is being made, from 0 to 1; below 0: none is */
	/* Of itself: */
	bool answered;
	char why[256];  /* it did not */
	char state[16], version[32];
	bool reached, fit; /* the agreement; it lacks nothing that it should have */
	double epoch, lease_ms, failovers, failover_s, keys;
};

struct members {
	char agreement[128];
	char joiner[64]; /* that is copied to; "": nobody */
	double copied;
	double epoch, copies, reign;
	bool is_clustered; /* who was asked is of a cluster */
	unsigned count;
	struct member of[MEMBERS_MAX];
};

/* What the kvd of the command line says, then each member.  False after an error: *status. */
bool members_ask(struct cli *cli, struct members *m, int *status);
/* The same of one session, without the others. */
int members_of(kvd_session *session, struct members *m);
/* NULL: nobody does. */
const struct member *members_primary(const struct members *m);
/* How many of the set are there, and answer. */
unsigned members_in_sync(const struct members *m);
bool member_is_of_set(const struct member *m);

#endif

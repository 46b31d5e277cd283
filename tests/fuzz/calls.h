/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls.h -- what is done with a kvd that means it ill (server.c): each call of libkvd
 * (calls.c, the harness `server`), or each command of kvcli (commands.c, `kvcli`).
 */
#ifndef TESTS_FUZZ_CALLS_H
#define TESTS_FUZZ_CALLS_H

#include "client/kvd.h"

/* Does one of them, by any number; what it returned is checked, whatever kvd has answered.
 * It may delete client and session: they are NULL then. */
void fuzz_call(kvd_client **client, kvd_session **session, unsigned which);

/* server.c: a new client's device is that kvd. */
void fuzz_device(kvd_client *client);

#endif

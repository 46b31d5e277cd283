/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * request_kit.h -- a worker that executes requests of one connection in the test's own memory, with no
 * network: what it answered is looked at, and goes nowhere.
 */
#ifndef TESTS_UNIT_SERVER_REQUEST_KIT_H
#define TESTS_UNIT_SERVER_REQUEST_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "server/worker/conn_impl.h"
#include "server/worker/context.h"
#include "server/worker/fate.h"
#include "server/worker/request/request.h"
#include "server/worker/worker_impl.h"
#include "tests/lib/fixture.h"

#define CONNECTION 9u /* its id */
#define SECRET 42u
#define CREDITS 32u

extern struct fixture fixture;
extern struct worker worker;
extern struct server server;
extern struct host host;
extern struct conn conn; /* ready, of an administrator */
/* The last answer; is_answered: there is one. */
extern bool is_answered;
extern struct wire_reply reply;
extern uint8_t payload[WIRE_MESSAGE_BYTES_MAX];
extern size_t payload_bytes;

/* Executes it: lengths are the request's. */
enum request_fate request(const struct wire_request *head, const void *key, const void *value);
/* The status that it is answered with. */
int status_of(const struct wire_request *head, const void *key, const void *value);

int request_kit_make(void **state);
int request_kit_unmake(void **state);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * arrival_kit.h -- server/host with two namespaces on two devices, which the kit makes up, as it does the
 * time: connections that arrive, and what becomes of them.
 */
#ifndef TESTS_UNIT_SERVER_ARRIVAL_KIT_H
#define TESTS_UNIT_SERVER_ARRIVAL_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/rdma/link.h"
#include "server/host/conns.h"
#include "server/host/host.h"
#include "server/host/room.h"
#include "server/worker/conn_impl.h"
#include "server/worker/context.h"
#include "server/worker/worker_impl.h"

#define S 1000000000ull
#define WORKERS 4u /* 1 is of the second device, 3 of the second namespace */
#define IDS 16u
#define TEAM 77u /* the second namespace's number */
#define NOWHERE 78u /* no namespace of the host */
#define QP_NUM 4711u
#define RATE 50
#define ALL_MAX 6u /* connections */
#define TEAM_MAX 2u
#define PLACES 1000u /* of a worker's completion queue */

enum fault { NOTHING, NO_CONN, NO_NOTE, NO_QP, NO_INIT, NO_READY, NO_ACCEPT, WRONG_RIGHTS, LOST_MEANWHILE,
	     NO_PLACE_TO_WAIT, KNOCKS };

extern struct ibv_context context[2];
extern struct ibv_qp qp; /* all have the same one */
extern struct rdma_cm_id ids[IDS];
extern struct worker worker[WORKERS];
extern struct server server[3]; /* the last is not the host's */
extern struct host host;

extern enum fault fault; /* what fails */
extern bool users;       /* there are */
extern uint64_t now_ns, slept_ns;
extern uint32_t inline_bytes; /* that a queue pair gets */
extern unsigned acked, qps, drops;
/* The last queue pair, answer, and who was dropped. */
extern struct link_config made_with;
extern struct link_depths ready_with;
extern struct wire_accept answer;
extern struct rdma_conn_param accepted_with;
extern struct rdma_cm_id *accepted, *rejected, *deleted, *disconnected;
extern const struct conn *dropped;
extern const char *why;

/* An id of 192.0.2.9:5000, by this device. */
struct rdma_cm_id *id_of(unsigned i, unsigned rail);
/* What a client says. */
struct wire_connect good(uint16_t depth, uint64_t space);
/* They ask; what was said of it (said.h). */
const char *ask_with(struct rdma_cm_id *id, const void *data, uint8_t bytes, const struct rdma_conn_param *param);
const char *ask(struct rdma_cm_id *id, uint16_t depth, uint64_t space);
extern const struct rdma_conn_param ordinary;
/* One is let in. */
struct conn *come(unsigned i, unsigned rail, uint64_t space);
void expect_refused(const struct rdma_cm_id *id, enum wire_refusal refusal, uint32_t limit);
/* It has no answer yet. */
void expect_waiting(void);
void bury(struct conn *c);

int arrival_make(void **state);
int arrival_unmake(void **state);

#endif

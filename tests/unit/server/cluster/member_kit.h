/* SPDX-License-Identifier: BSD-2-Clause */
/* member_kit.h -- a member, B, and what it wants done; the clock is the test's. */
#ifndef TESTS_UNIT_SERVER_CLUSTER_MEMBER_KIT_H
#define TESTS_UNIT_SERVER_CLUSTER_MEMBER_KIT_H

#include "server/cluster/member/member.h"

#define MS 1000000ull
#define LIFE 0x11feull
#define A 0xa1u
#define B 0xb2u
#define C 0xc3u

extern struct member m;
extern struct member_actions acts; /* of the last event */
extern uint64_t now;
extern bool is_mute; /* the agreement answers nothing */

/* Members named by letters, the primary first. */
struct config config(uint64_t epoch, uint64_t reign, uint64_t writer, const char *names);
/* The first of that kind since the last event; NULL: it is not wanted. */
const struct member_action *wants(enum member_action_kind kind);
const struct member_message *sends(enum member_message_kind kind, const char *to);

/* Events. */
void start(void);
void read_config(struct config c);
/* The agreement says what is known already. */
void answer(void);
/* Who suspects the primary is answered at once. */
void tick(uint64_t later_ms);
void obey(uint64_t order);
void hear(const char *from, uint64_t incarnation, struct member_message message);
/* It starts, and is a backup of epoch 1, of primary A. */
void back(void);
/* Its primary is silent; up to where it is named by its own write. */
void take_over(void);
void c_begins(void);
void settled(void);
/* C is heard of, so that it is not left out. */
void keep_c(uint64_t later_ms);
/* Serving, with C as its only backup. */
void serve(void);

#endif

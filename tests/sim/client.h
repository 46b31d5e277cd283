/* SPDX-License-Identifier: BSD-2-Clause */
/* client.h -- what a client's process has and does; what is wrong it tells by itself. */
#ifndef TESTS_SIM_CLIENT_H
#define TESTS_SIM_CLIENT_H

#include "client/kvd.h"
#include "tests/sim/world.h"

#define VALUE_BYTES_LIMIT 40000
#define BATCH 8

struct client {
	int number;
	kvd_client *client;
	kvd_session *session;
	uint8_t value[VALUE_BYTES_LIMIT];
	uint8_t batch[BATCH][VALUE_BYTES_LIMIT]; /* values of what is in flight together */
};

extern struct client self;

/* `is_patient`: kvd may not serve yet. */
void connect_to_kvd(int number, bool is_patient);
void hang_up(void);

/* Each is logged. */
void do_get(uint64_t key);
void do_put(uint64_t key);
void do_del(uint64_t key);
void do_deed(enum deed deed);

/* The text of a key; its length. */
int name_of(char *text, uint64_t key);
int account_name(char *text, unsigned account);

#endif

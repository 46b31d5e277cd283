/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wire_kit.h -- a replica of one worker whose connections are made up: what it sends is kept, and what it
 * hears the test writes.  A program of it is linked with --wrap of the link_peer_* that are here.
 */
#ifndef TESTS_UNIT_SERVER_CLUSTER_WIRE_KIT_H
#define TESTS_UNIT_SERVER_CLUSTER_WIRE_KIT_H

#include "server/cluster/link/peer.h"
#include "server/cluster/replica/lag.h"
#include "server/cluster/replica/order.h"
#include "server/cluster/replica/replica.h"
#include "tests/lib/fixture.h"

#define WIRE_TABLE_BYTES (16ull << 20)
#define WIRE_ME 0xb2ull
#define WIRE_EPOCH 5u
#define WIRE_REIGN 3u
#define WIRE_LANES (REPLICA_PEERS_MAX + 1)
#define WIRE_SENT_MAX 8u
#define WIRE_READS_MAX 8u

/* A connection. */
struct wire {
	const char *name;
	unsigned room, reads_room; /* for so many more */
	unsigned sent_count;       /* the latest WIRE_SENT_MAX are kept */
	uint8_t sent[WIRE_SENT_MAX][LINK_BYTES_MAX] __attribute__((aligned(8)));
	struct link_read reads[WIRE_READS_MAX];
	unsigned read_count;
	char closed[160]; /* why; "": it is not */
};
extern struct wire wires[WIRE_LANES];

extern struct fixture wire_fixture;
extern struct replica *wire_replica;
extern struct replica_worker *wire_worker;
extern char wire_unfit[160];
extern unsigned wire_wakes, wire_completed;
extern struct durable_fate wire_fate; /* the latest */
extern uint64_t wire_fate_reign;

/* Of seats "anna" and "carl", with these incarnations; nothing is connected. */
#define WIRE_ANNA 0xa1ull
#define WIRE_CARL 0xc3ull
int wire_setup(void **state);
int wire_teardown(void **state);

struct link_peer *wire_link(unsigned i);
/* A connection to the member of that name. */
void wire_up(unsigned i, const char *name);
void wire_order(struct replica_order order);
/* That epoch; as a backup it takes records then. */
void wire_epoch(uint64_t epoch, uint64_t reign, enum records_role role, uint32_t members);

/* All up to that number is visible at its primary. */
void wire_see(uint64_t up_to);

/* The next message to it, from anna unless its header is changed. */
extern struct link_writer wire_message;
void wire_begin(enum link_kind kind);
void wire_end_record(void);
bool wire_hear(unsigned i);
/* What it sent, the latest last; ends the test if there is none, or it is of another kind. */
struct link_reader wire_sent(unsigned i, unsigned which, enum link_kind kind);

struct store_change wire_change_of(const char *key);
uint32_t wire_stripe(const void *key, size_t key_bytes);
/* WIRE_OK, with what the key has. */
int wire_get(const char *key, char *value, size_t bytes, struct store_result *result);
void wire_expect(const char *key, const char *value);

#endif

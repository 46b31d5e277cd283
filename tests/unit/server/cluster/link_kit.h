/* SPDX-License-Identifier: BSD-2-Clause */
/* link_kit.h -- two members in one process, on the software device, and a clock to set. */
#ifndef TESTS_UNIT_SERVER_CLUSTER_LINK_KIT_H
#define TESTS_UNIT_SERVER_CLUSTER_LINK_KIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/addr.h"
#include "common/rdma/device.h"
#include "server/cluster/link/door.h"
#include "server/cluster/link/peer.h"
#include "server/cluster/link/port.h"

#define KIT_LIMIT_NS 60000000000ull

struct side {
	struct device device;
	struct rdma_cm_id *id; /* what the protection domain is of */
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct link_key key;
	struct link_door *door;
	struct link_port *port;
	struct link_events events; /* also hears of them; all zero: nobody */
	bool is_frozen; /* its port is not polled */

	struct link_peer *peer; /* the latest that is up */
	unsigned ups, downs, fails, rooms, refusals;
	char why[1024]; /* of the latest end */
};

extern uint64_t kit_later_ns; /* beside the real time */
uint64_t kit_now_ns(void);

extern const char *kit_address; /* of who is opened next: of the loopback, any port */

/* `name`: of the member; listens there if it is to. */
void kit_open(struct side *s, const char *name, const struct link_key *key, bool listens);
/* A program that speaks those versions of the protocol. */
void kit_open_of(struct side *s, const char *name, const struct link_key *key, bool listens,
		 struct link_versions versions);
void kit_close(struct side *a, struct side *b);
void kit_connect(struct side *from, const struct addr *to, uint32_t lane);
/* Polls both (b may be NULL) until it is true; fails after a minute. */
void kit_until(struct side *a, struct side *b, bool (*is_so)(void *arg), void *arg,
	       const char *what);
void kit_poll(struct side *a, struct side *b);
void kit_key(struct link_key *key);

#endif

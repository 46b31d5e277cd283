/* SPDX-License-Identifier: BSD-2-Clause */
/* world.h -- what happens in a world: kvd, its clients, what they do and what they saw. */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "tests/lib/linear.h"
#include "tests/sim/sim.h"

#define CLIENTS_MAX 6
#define KEYS_MAX 4
#define LOG_MAX 1024
#define SECTIONS_MAX 256
#define ACCOUNTS 4
#define MONEY 100

/* What a client may do; which of it is drawn for each world. */
enum deed {
	DEED_GET,
	DEED_PUT,
	DEED_DEL,
	DEED_LOCK,     /* read, write, read again under a lock */
	DEED_UPDATE,   /* of a counter, which counts */
	DEED_TRANSFER, /* a transaction */
	DEED_AUDIT,    /* one that reads */
	DEED_FILL,     /* a new key, so that the index grows */
	DEED_READ_FILLED,
	DEEDS,
};

struct plan {
	int clients, operations, keys;
	int workers, lease_ms;
	uint32_t weight[DEEDS];
	uint64_t value_bytes_max;
	int kill_ms, stop_ms; /* about so often; 0: never */
	int kills;            /* at most */
	bool no_mirror, noncoherent, is_faulty;
	bool batches; /* a half of the deeds are several operations at once */
	char faults[128], server_faults[128]; /* SOFTVERBS_FAULT */
	/* A walk: one client's changes, kvd stopped at one access, the other reads, or takes
	 * the lock of the key, which is there or not; or kvd killed there, and another started. */
	bool is_walk, walk_kills, walk_locks, walk_absent;
	enum deed walk_deed;
};

/* What was read and written under one lock. */
struct section {
	uint64_t key, read_version, put_version;
};

struct board {
	struct plan plan;
	const char *log_file; /* of kvd's and the clients' words; NULL: nowhere */
	uint64_t next_value;
	uint64_t filled;
	uint64_t counted, maybe_counted;
	uint64_t deeds, errors, kills;
	bool is_beside;         /* the other client of a walk is connected, and has read */
	bool is_stopped;        /* kvd is, for the walk */
	uint64_t read_stopped;  /* GETs that ended meanwhile */
	bool walked;             /* the change is through */
	bool walk_reached;
	bool granted;            /* the lock is, to the other client */
	int done[CLIENTS_MAX];  /* operations */
	unsigned sections;
	struct section section[SECTIONS_MAX];
	uint32_t logged[CLIENTS_MAX];
	struct linear_op log[CLIENTS_MAX][LOG_MAX];
};

extern struct board *board;

/* world.c: the first thread of a world. */
void world_run(void);

/* client.c: whole processes. */
void client_run(void *number);
void client_prepare(void *unused);  /* what is there at first */
void client_conclude(void *unused); /* whether it is right at the end */

/* walker.c: whole processes. */
void walk_change(void *number);
void walk_read(void *number);
void walk_lock(void *number);

#endif

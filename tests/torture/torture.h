/* SPDX-License-Identifier: BSD-2-Clause */
/* torture.h -- between the parent, which kills and checks, and its clients. */
#ifndef TESTS_TORTURE_TORTURE_H
#define TESTS_TORTURE_TORTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/torture/effort.h"

#define THREADS_MAX 16
#define CLIENTS_MAX 64
#define KEYS_MAX 1024
#define VALUE_BYTES_LIMIT (4u << 20)
#define RECORDS_MAX (1u << 22)

struct settings {
	const char *server;
	const char *device;
	const char *dir; /* of the histories */
	int run_id;
	int clients;
	int threads;
	int readers; /* of the clients, so many only GET */
	int keys;
	int seconds;
	uint64_t seed;
	uint64_t value_bytes_min;
	uint64_t value_bytes_max;
	int kill_ms;
	bool fill;
	bool no_mirror;
	bool is_faulty; /* the device is, on purpose: calls may fail */
	/* Bits are flipped in what is READ.  Neither the index nor a state has a
	 * checksum, so a key may seem absent and a change early; but no byte of a
	 * value may be wrong. */
	bool is_flipping;
};

/* What a reader tells of itself, for the time in which kvd is stopped. */
struct reading {
	_Atomic int tid; /* 0: it is not connected */
	/* The GET that it is in, a number of its own; 0: none. */
	_Atomic uint64_t get;
	struct effort began; /* with it; all zeros: before kvd was stopped */
	_Atomic bool is_blamed; /* the GET, for waiting */
};

/* Memory that all processes share. */
struct board {
	_Atomic bool stop;
	_Atomic uint64_t next_value[CLIENTS_MAX][THREADS_MAX];
	_Atomic uint64_t filled;    /* keys of the filler that are there */
	_Atomic bool table_is_full;
	_Atomic uint64_t gets, fallbacks, retries, reconnects, reads;
	_Atomic uint64_t errors;    /* calls that failed as they may */
	_Atomic uint64_t wrong;     /* as they may not; each is told */
	/* kvd is stopped: its number, the time it began, GETs of readers since. */
	_Atomic uint64_t stop_began_ns;
	_Atomic uint64_t gets_while_stopped;
	_Atomic uint64_t blocked; /* GETs that waited for it */
	struct reading reading[CLIENTS_MAX][THREADS_MAX];
};

/* One client process: never returns. */
void client_main(const struct settings *settings, struct board *board, int client,
		 unsigned incarnation) __attribute__((noreturn));

/* The file of a thread's history. */
void history_path(const struct settings *settings, int client, int thread, char *path,
		  unsigned path_bytes);

#endif

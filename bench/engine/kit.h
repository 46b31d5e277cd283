/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kit.h -- what the cases of enginebench share: one client and session, keys by
 * number, and figures that bench/engine/run reads.
 *
 * One thread.  Whatever fails ends the program with a sentence.
 */
#ifndef BENCH_ENGINE_KIT_H
#define BENCH_ENGINE_KIT_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/workload/random.h"
#include "client/kvd.h"

#define ENGINE_KEY_BYTES 16u
#define ENGINE_DEPTH 64
#define ENGINE_NO_MIRROR SIZE_MAX

struct engine {
	const char *address;
	kvd_client *client;
	kvd_session *session;
	int depth; /* 0: ENGINE_DEPTH */
	uint64_t keys;
	uint64_t value_bytes;
	struct random random;
};

/* A client and a session in place of those before; mirror_bytes as in kvd_options. */
void engine_connect(struct engine *e, size_t mirror_bytes, bool ahead);
void engine_disconnect(struct engine *e);

/* 16 bytes without order; keys from `keys` on are absent. */
void engine_key(uint64_t n, char key[ENGINE_KEY_BYTES]);

/* Stores the keys from `first` on, `count` of them, with many in flight. */
void engine_load(struct engine *e, uint64_t first, uint64_t count);

/* GETs with `depth` in flight, of key next(arg); each must be found. */
void engine_gets(struct engine *e, uint64_t count, int depth, uint64_t (*next)(void *arg),
		 void *arg);
uint64_t engine_in_turn(void *arg); /* arg: uint64_t, counts */
uint64_t engine_uniform(void *arg); /* arg: struct engine */

/* Nanoseconds of a kvd_get() that must find the key with a value of the right length. */
uint64_t engine_time_get(struct engine *e, uint64_t n, void *value);

struct kvd_counters engine_counters(const struct engine *e);

/* Of kvd's statistics the number at this path, "memory.used_bytes"; -1: there is none. */
double engine_stat(struct engine *e, const char *path);

/* KiB of memory of the kvd whose process is $KVD_PID: a field of /proc/PID/status, "VmRSS". */
uint64_t engine_server_kib(const char *field);

/* Prints a line "name value". */
void figure(const char *name, double value);

#define ENGINE_CHECK(condition, ...)                                                             \
	do {                                                                                     \
		if (!(condition))                                                                \
			errx(1, __VA_ARGS__);                                                    \
	} while (0)

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shard.h -- a kvd's part in a shard: its thread, and what its workers do between requests.
 *
 * Happy path: the member listens for others, tells the agreement that it is there, and waits
 * for a configuration that names it.  From then on server/cluster/member says what is to be
 * done, and this does it: messages, connections, orders to the workers, conditional writes.
 *
 * Failure: the agreement is away: what is, goes on.  Another member is gone: fail-over, by
 * server/cluster/member.  This one lacks a change: it serves no more, and says so.
 *
 * Threads: the shard's own, which waits in poll(); the workers, each in its struct crew; any thread
 * for shard_status().  Main makes, starts, stops and deletes it.
 */
#ifndef SERVER_CLUSTER_SHARD_SHARD_H
#define SERVER_CLUSTER_SHARD_SHARD_H

#include "server/cluster/shard/options.h"

struct crew;
struct shard;

/* 0, or -1 after setting err. */
int shard_new(const struct shard_options *options, struct shard **shard, struct err *err);
/* From now on it takes part. */
int shard_start(struct shard *shard, struct err *err);
/* Before the workers are stopped: it takes part no more. */
void shard_stop(struct shard *shard);
/* The workers have ended.  Takes NULL. */
void shard_delete(struct shard **shard);

/* By which others know it: where it listens for them. */
const char *shard_name(const struct shard *shard);
/* What it is and knows, as JSON; the length, 0 if that has no room.  Any thread, also the next. */
size_t shard_status(struct shard *shard, char *buf, size_t buf_bytes);
/* The same in figures. */
struct shard_figures {
	uint64_t epoch, in_sync, copies, lag_records;
	uint64_t lease_left_ns, failovers, failover_ns;
	bool serves, is_reached, is_fit;
};
void shard_figures(struct shard *shard, struct shard_figures *figures);
/* Where the set's members listen for clients: a line for each address, the primary's first; "-": not
 * known.  The length, 0 if that has no room. */
struct shard_where {
	uint64_t epoch;
	uint32_t heard_us; /* how long ago this one heard of the primary; UINT32_MAX: it does not */
	uint16_t ports;    /* so many lines are the primary's */
};
size_t shard_where(struct shard *shard, struct shard_where *where, char *buf, size_t buf_bytes);

/* A worker's part: guest.h. */
struct crew *shard_crew(struct shard *shard, unsigned worker);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* stats.h -- kvd's figures as JSON, and sums over its workers.  Any thread. */
#ifndef SERVER_METRICS_STATS_H
#define SERVER_METRICS_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "server/worker/stats.h"

struct server;

/* The sum of a member of struct worker_stats over all workers. */
uint64_t stats_sum(const struct server *server, size_t offset);
#define STATS_SUM(server, member) stats_sum(server, offsetof(struct worker_stats, member))

/* The length. */
size_t stats_json(const struct server *server, char *buf, size_t buf_bytes);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* parts.h -- the parts of a worker that pulls and rewrites need.  Its thread, all of it. */
#ifndef SERVER_WORKER_REQUEST_PARTS_H
#define SERVER_WORKER_REQUEST_PARTS_H

struct owed_list;
struct rail;
struct rewrites;
struct server;
struct store_worker;
struct timings;
struct tx;
struct worker_stats;

/* What those use of their worker who answer later than they are asked. */
struct request_parts {
	const struct server *server;
	const struct rail *rail;
	struct store_worker *store;
	struct tx *tx;
	struct owed_list *owed;
	struct timings *timings;
	struct worker_stats *stats;
	struct rewrites *rewrites;
};

#endif

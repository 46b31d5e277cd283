/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * commands.h -- what other threads ask of a worker, in the order in which they asked.
 *
 * Any thread posts and wakes, without waiting; the worker's takes, and obeys (obey.c).
 */
#ifndef SERVER_WORKER_COMMANDS_H
#define SERVER_WORKER_COMMANDS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/layout.h"
#include "common/wire.h"

struct conn;

enum command_kind {
	CMD_ADOPT,     /* a new connection */
	CMD_ANSWER,    /* a request that the locker took */
	CMD_READ_HELD, /* what a connection says it holds, for the locker */
	CMD_FENCE,     /* cuts a connection off */
	CMD_DENY,      /* tells a connection that its hello was denied */
	CMD_NOTICE,    /* to every client that takes notices; what can't be sent now is not */
};

struct command {
	struct command *next;
	enum command_kind kind;
	struct conn *conn;
	uint64_t connection; /* its id; CMD_DENY: its number */
	uint64_t look;       /* CMD_READ_HELD */
	/* CMD_FENCE: 0, or the connection's own, of its hello: otherwise it stays. */
	uint64_t secret;
	struct wire_request request;
	enum wire_status status;
	enum wire_notice notice;
};

struct commands {
	pthread_mutex_t lock; /* a leaf */
	struct command *first, **end;
	int wake_fd; /* eventfd: readable after a wake */
	atomic_bool poked;
	atomic_bool trim; /* its heap gives back what it keeps unused, when it is poked */
	atomic_bool stopping;
};

/* 0 or an errno value. */
int commands_init(struct commands *commands);
void commands_fini(struct commands *commands);

/* A copy.  False: no memory. */
bool commands_post(struct commands *commands, const struct command *command);
/* Makes the worker look. */
void commands_wake(struct commands *commands);
/* All there are, to be freed by who takes them; NULL: none. */
struct command *commands_take(struct commands *commands);

/* Those of all workers: a connection that is known by its token is one of theirs. */
#define COMMANDS_MAX LAYOUT_WORKERS_MAX
struct commands_all {
	struct commands *of[COMMANDS_MAX];
	unsigned count;
};

void commands_post_all(const struct commands_all *all, const struct command *command);
void commands_wake_all(const struct commands_all *all);
void commands_trim_all(const struct commands_all *all);

#endif

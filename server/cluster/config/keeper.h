/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * keeper.h -- a shard's configuration as it stands in the agreement: read, watched, and
 * changed by conditional writes only.
 *
 * One thread owns a keeper: the one that polls its struct agree.  Answers come by callbacks,
 * from agree_poll() and keeper_tick(); these may call the keeper.  At most one read and one
 * write are under way.
 */
#ifndef SERVER_CLUSTER_CONFIG_KEEPER_H
#define SERVER_CLUSTER_CONFIG_KEEPER_H

#include "server/cluster/agree/agree.h"
#include "server/cluster/config/config.h"

enum keeper_outcome {
	KEEPER_WRITTEN,
	KEEPER_LOST,    /* its epoch is over: it was not carried out, and never will be */
	KEEPER_UNKNOWN, /* it may be carried out as long as its epoch lasts */
};

struct keeper_events {
	/* What was read, each time: also what is known already. */
	void (*config)(void *arg, const struct config *c);
	/* The write that was under way; WRITTEN: `c` is the configuration now, otherwise NULL. */
	void (*wrote)(void *arg, enum keeper_outcome outcome, const struct config *c);
	void (*reached)(void *arg, bool is_reached); /* the agreement can be asked */
	void (*failed)(void *arg, const char *why);  /* a sentence for the log */
	void *arg;
};

struct keeper {
	struct agree *agree; /* the caller's; set when it is open, NULL before it is closed */
	const char *path;    /* the caller's */
	struct keeper_events events;
	bool is_reading, is_stale; /* stale: it has to be read, by the next tick at the latest */
	bool is_writing;
	struct config writing;
};

/* What agree's open has to be given. */
struct agree_events keeper_agree_events(struct keeper *k);

/* Reads it now, or as soon as that can be. */
void keeper_read(struct keeper *k);
/* As c->epoch, in the place of the one before.  False: one is under way, or there is no room. */
bool keeper_write(struct keeper *k, const struct config *c);
/* Every some milliseconds: what could not be asked is asked again. */
void keeper_tick(struct keeper *k);

#endif

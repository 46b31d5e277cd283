/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * admin.h -- commands for the cluster that people give to any of its members.
 *
 * Happy path: a command is handed in with a number of its sender's, the shard's thread begins
 * it, and whoever asks again with that number is told how far it is.  One is under way at a time.
 * What changes the configuration is a conditional write of this member's.
 *
 * Failure: what can't be done is refused with a sentence; what takes too long is given up, and
 * may have happened all the same: that is said.
 */
#ifndef SERVER_CLUSTER_SHARD_ADMIN_H
#define SERVER_CLUSTER_SHARD_ADMIN_H

#include <stddef.h>
#include <stdint.h>

#include "server/cluster/shard/command.h"

struct shard;

/*
 * Any thread.  Begins a command, or says how far that one is: ADMIN_RUNNING, _DONE or _FAILED, and
 * a sentence.  ADMIN_NONE: it is the primary's to do, which this one is not.
 */
enum admin_state admin_command(struct shard *s, const struct admin_command *command, char *text,
			       size_t text_bytes);
/* The shard's thread, every some milliseconds. */
void admin_look(struct shard *s, uint64_t now_ns);

#endif

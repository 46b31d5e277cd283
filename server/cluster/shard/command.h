/* SPDX-License-Identifier: BSD-2-Clause */
/* command.h -- a command for the cluster, and how far it is: admin.h carries it out. */
#ifndef SERVER_CLUSTER_SHARD_COMMAND_H
#define SERVER_CLUSTER_SHARD_COMMAND_H

#include <stdint.h>

#include "server/cluster/config/config.h"

#define ADMIN_TEXT_BYTES 512u

enum admin_what { ADMIN_INIT = 1, ADMIN_PROMOTE, ADMIN_REMOVE, ADMIN_FORCE };

struct admin_command {
	enum admin_what what;
	uint64_t id; /* another one for each command, never 0 */
	unsigned copies;
	char member[CONFIG_NAME_BYTES]; /* "": none */
};

enum admin_state { ADMIN_NONE, ADMIN_ASKED, ADMIN_RUNNING, ADMIN_DONE, ADMIN_FAILED };

struct admin {
	struct admin_command command;
	enum admin_state state;
	uint64_t begun_ns;
	uint64_t epoch; /* as it began */
	char text[ADMIN_TEXT_BYTES];
};

#endif

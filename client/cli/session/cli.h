/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cli.h -- one kvcli: what its command line said, its connection, and the exit statuses.
 *
 * kvcli is one thread.  It works on <kvd.h> only, and on neutral helpers of common/.
 */
#ifndef CLIENT_CLI_SESSION_CLI_H
#define CLIENT_CLI_SESSION_CLI_H

#include <stdbool.h>

#include "client/kvd.h"

/* Exit statuses, and what a command returns.  The larger is the worse. */
#define CLI_DONE 0
#define CLI_FALSE 1  /* not found, or a condition was false */
#define CLI_USAGE 2  /* wrong use, or a local file that can't be read or written */
#define CLI_SERVER 3 /* trouble with the server or with the connection */

struct cli {
	/* Of the command line. */
	const char *server;
	const char *device;
	const char *credentials; /* or NULL */
	int timeout_ms;
	bool stop_on_error;
	/* Both NULL until cli_session(). */
	kvd_client *client;
	kvd_session *session;
	/* Commands come from a shell or a batch: every one of them answers. */
	bool shell;
	/* Standard output failed: EPIPE if its reader left, else EIO. */
	int output_error;
};

#endif

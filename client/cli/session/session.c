/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/session/session.h"

#include <stdio.h>

#include "client/cli/session/answer.h"

static int connect_new(struct cli *cli)
{
	struct kvd_options options = {
		.size = sizeof options,
		.device = cli->device,
		.timeout_ms = cli->timeout_ms,
		.credentials = cli->credentials,
	};
	int result;

	if (!cli->client) {
		result = kvd_client_new(cli->server, &options, &cli->client);
		if (result < 0)
			return result;
	}
	return kvd_session_new(cli->client, &cli->session);
}

kvd_session *cli_session(struct cli *cli, int *result, const char **error)
{
	static char text[1024];

	if (cli->session)
		return cli->session;
	*result = connect_new(cli);
	if (*result == KVD_OK)
		return cli->session;
	snprintf(text, sizeof text, "%s",
		 cli->client && kvd_client_error(cli->client)[0] ? kvd_client_error(cli->client) :
								   kvd_strerror(*result));
	*error = text;
	kvd_client_delete(&cli->client);
	return NULL;
}

kvd_session *cli_connect(struct cli *cli, int *status)
{
	const char *error;
	int result;
	kvd_session *session = cli_session(cli, &result, &error);

	if (!session)
		*status = cli_fail(cli, cli_status(result), "%s", error);
	return session;
}

void cli_disconnect(struct cli *cli)
{
	kvd_session_delete(&cli->session);
	kvd_client_delete(&cli->client);
}

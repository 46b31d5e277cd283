/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands on the server: ping, info, stats, backup, cluster. */
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cluster/command.h"
#include "client/cli/command/server.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/interrupt.h"
#include "client/cli/session/session.h"
#include "client/cli/text/group.h"
#include "client/cli/text/json.h"
#include "client/cli/text/json_write.h"
#include "common/opt.h"

#define PINGS 100
#define PINGS_MAX 1000000

enum { STATS_JSON };

static const struct cli_option stats_options[] = {
	[STATS_JSON] = { "json", 'j', NULL, "as one JSON object" },
	{ 0 },
};

enum { PING_COUNT };

static const struct cli_option ping_options[] = {
	[PING_COUNT] = { "count", 'n', "N", "how many round trips; default 100" },
	{ 0 },
};

static int compare_times(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static const char *show_time(uint64_t ns, char buf[32])
{
	if (ns < 1000000)
		snprintf(buf, 32, "%.1f us", (double)ns / 1e3);
	else
		snprintf(buf, 32, "%.2f ms", (double)ns / 1e6);
	return buf;
}

static void print_times(uint64_t *ns, uint64_t count)
{
	char min[32], median[32], max[32];

	qsort(ns, count, sizeof *ns, compare_times);
	printf("%" PRIu64 " round trip%s: min %s, median %s, max %s\n", count, count == 1 ? "" : "s",
	       show_time(ns[0], min), show_time(ns[count / 2], median),
	       show_time(ns[count - 1], max));
}

static int ping_times(struct cli *cli, kvd_session *session, uint64_t *ns, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		int result = kvd_ping(session, &ns[i]);
		if (cli_interrupted())
			return CLI_FALSE;
		if (result < 0)
			return cli_fail_session(cli, result);
	}
	return CLI_DONE;
}

static int run_ping(struct cli *cli, const struct cli_args *args)
{
	uint64_t count = PINGS, *ns;
	kvd_session *session;
	int status;

	if (args->given[PING_COUNT] &&
	    !cli_args_number(&args->option[PING_COUNT], 1, PINGS_MAX, &count))
		return cli_fail(cli, CLI_USAGE, "ping --count wants a whole number from 1 to %d",
				PINGS_MAX);
	session = cli_connect(cli, &status);
	if (!session)
		return status;
	ns = calloc(count, sizeof *ns);
	if (!ns)
		return cli_fail(cli, CLI_USAGE, "no memory for %" PRIu64 " times", count);
	status = ping_times(cli, session, ns, count);
	if (status == CLI_DONE)
		print_times(ns, count);
	free(ns);
	return status;
}

const struct cli_command cli_ping = {
	.name = "ping",
	.arguments = "",
	.summary = "measure the round trip",
	.help = "Measures round trips through a worker thread of kvd, one after another.",
	.options = ping_options,
	.run = run_ping,
};

static bool ends_in(const char *text, const char *end)
{
	size_t bytes = strlen(text), end_bytes = strlen(end);

	return bytes >= end_bytes && strcmp(text + bytes - end_bytes, end) == 0;
}

/* A value for people: sizes in units, long numbers in groups. */
static const char *show_figure(const char *path, const char *value, char *buf, size_t buf_bytes)
{
	size_t digits = strspn(value, "0123456789");
	uint64_t bytes;

	if (digits == 0 || value[digits] != '\0')
		return value;
	if (ends_in(path, "bytes") && opt_parse_size(value, &bytes))
		return opt_format_size(bytes, buf, buf_bytes);
	return cli_group(value, buf, buf_bytes);
}

struct columns {
	int path, value;
};

static void measure_figure(void *arg, const char *path, const char *value)
{
	struct columns *columns = arg;
	char buf[64];
	int path_length = (int)strlen(path);
	int value_length = (int)strlen(show_figure(path, value, buf, sizeof buf));

	columns->path = path_length > columns->path ? path_length : columns->path;
	if (value_length > columns->value && value_length <= 24)
		columns->value = value_length;
}

static void print_figure(void *arg, const char *path, const char *value)
{
	const struct columns *columns = arg;
	char buf[64];

	printf("%-*s  %*s\n", columns->path, path, columns->value,
	       show_figure(path, value, buf, sizeof buf));
}

static void ignore_figure(void *arg, const char *path, const char *value)
{
	(void)arg;
	(void)path;
	(void)value;
}

/* The server's figures; NULL after a failure. */
static char *stats_new(struct cli *cli, int *status)
{
	kvd_session *session = cli_connect(cli, status);
	char *json;
	int result;

	if (!session)
		return NULL;
	result = kvd_stats(session, &json);
	if (result < 0) {
		*status = cli_fail_session(cli, result);
		return NULL;
	}
	if (cli_json_each(json, ignore_figure, NULL))
		return json;
	*status = cli_fail(cli, CLI_SERVER, "stats: %s answered with what is no JSON; is kvcli of "
			   "the same version? (kvcli info)", cli->server);
	free(json);
	return NULL;
}

static int run_stats(struct cli *cli, const struct cli_args *args)
{
	struct columns columns = { 0, 0 };
	int status;
	char *json = stats_new(cli, &status);

	if (!json)
		return status;
	if (args->given[STATS_JSON]) {
		puts(json);
	} else {
		cli_json_each(json, measure_figure, &columns);
		cli_json_each(json, print_figure, &columns);
	}
	free(json);
	return CLI_DONE;
}

const struct cli_command cli_stats = {
	.name = "stats",
	.arguments = "",
	.summary = "show figures of kvd",
	.help = "Shows the figures that kvd keeps: keys, memory, operations, connections.",
	.options = stats_options,
	.run = run_stats,
};

static int run_backup(struct cli *cli, const struct cli_args *args)
{
	const struct cli_word *word = &args->operand[0];
	kvd_session *session;
	char path[1024];
	int status, result;

	if (word->bytes >= sizeof path || memchr(word->data, 0, word->bytes))
		return cli_fail(cli, CLI_USAGE, "backup: that is no path");
	memcpy(path, word->data, word->bytes);
	path[word->bytes] = '\0';
	session = cli_connect(cli, &status);
	if (!session)
		return status;
	result = kvd_backup(session, path);
	if (result < 0)
		return cli_fail_session(cli, result);
	puts("OK");
	return CLI_DONE;
}

const struct cli_command cli_backup = {
	.name = "backup",
	.arguments = "DIR",
	.summary = "copy what is durable",
	.help = "Copies all that kvd keeps in its --data-dir to a new folder. kvd serves\n"
		"meanwhile. DIR is a path of kvd's machine, from / on. To go back to the backup,\n"
		"start kvd with a copy of that folder as --data-dir.",
	.operands_min = 1,
	.operands_max = 1,
	.run = run_backup,
};

enum { INFO_JSON };

static const struct cli_option info_options[] = {
	[INFO_JSON] = { "json", 'j', NULL, "as one JSON object" },
	{ 0 },
};

struct info_row {
	const char *path; /* a pattern */
	const char *label;
	const char *name; /* in JSON; NULL: for people only */
	struct cli_json *json; /* NULL: for people */
};

static void print_row(void *arg, const char *path, const char *value)
{
	const struct info_row *row = arg;
	char buf[64];

	if (fnmatch(row->path, path, 0) != 0)
		return;
	if (!row->json)
		printf("%-12s %s\n", row->label, show_figure(path, value, buf, sizeof buf));
	else
		cli_json_figure(row->json, row->name, value);
}

static void print_rows(const char *stats, struct cli_json *json)
{
	static const struct info_row rows[] = {
		{ "server.version", "kvd", "kvd_version", NULL },
		{ "server.device", "its device", "kvd_device", NULL },
		{ "rails.[!0].device", "its device", NULL, NULL },
		{ "server.uptime_seconds", "seconds up", "uptime_seconds", NULL },
		{ "connections", "connections", "connections", NULL },
		{ "keys", "keys", "keys", NULL },
		{ "memory.used_bytes", "memory used", "memory_used_bytes", NULL },
		{ "memory.budget_bytes", "of at most", "memory_budget_bytes", NULL },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct info_row row = rows[i];

		if (json && !row.name)
			continue;
		row.json = json;
		cli_json_each(stats, print_row, &row);
	}
}

static void info_json(struct cli *cli, const char *stats)
{
	struct cli_json json = { .to = stdout };
	uint64_t ns;

	cli_json_open(&json, NULL, '{');
	cli_json_text(&json, "server", cli->server);
	cli_json_text(&json, "device", kvd_client_device(cli->client));
	cli_json_text(&json, "libkvd_version", kvd_version());
	print_rows(stats, &json);
	if (kvd_ping(cli->session, &ns) == KVD_OK)
		cli_json_number(&json, "round_trip_ns", ns);
	cli_json_end(&json);
}

static void info_text(struct cli *cli, const char *stats)
{
	char buf[32];
	uint64_t ns;

	printf("%-12s %s\n", "server", cli->server);
	printf("%-12s %s\n", "device", kvd_client_device(cli->client));
	printf("%-12s %s\n", "libkvd", kvd_version());
	print_rows(stats, NULL);
	if (kvd_ping(cli->session, &ns) == KVD_OK)
		printf("%-12s %s\n", "round trip", show_time(ns, buf));
}

static int run_info(struct cli *cli, const struct cli_args *args)
{
	int status;
	char *stats = stats_new(cli, &status);

	if (!stats)
		return status;
	if (args->given[INFO_JSON])
		info_json(cli, stats);
	else
		info_text(cli, stats);
	free(stats);
	return CLI_DONE;
}

const struct cli_command cli_info = {
	.name = "info",
	.arguments = "",
	.summary = "show server and device",
	.help = "Shows the server, the RDMA device that leads to it and why it was chosen.",
	.options = info_options,
	.run = run_info,
};

const struct cli_command cli_cluster = {
	.name = "cluster",
	.arguments = "init|status|promote|remove|force [MEMBER]",
	.summary = "several kvds with one set",
	.help = "Of kvds that were started with --cluster; any of them can be asked. init\n"
		"makes the cluster, once. status shows its members, and says in plain words\n"
		"what is wrong and what helps; its status is 1 then. promote hands over to\n"
		"MEMBER, or the first that is in sync. remove takes MEMBER out. force makes\n"
		"the member that is asked (-s) primary though it is not in sync: it says what\n"
		"is lost by that, and asks. MEMBER is a name or an address for clients, as\n"
		"status has them.",
	.options = cluster_options,
	.operands_min = 1,
	.operands_max = 2,
	.run = cluster_run,
};

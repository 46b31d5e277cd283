/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/options.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/opt.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

static void print_help(const struct opt *table)
{
	printf("kvd - key-value store for RDMA networks\n"
	       "usage: kvd [OPTION]...\n       kvd init --users FILE [--user NAME]\n\n");
	opt_print_help(table);
	printf("\nTry it: kvd & kvcli put name Ada; kvcli get name.  Manual: kvd(8).\n");
}

#ifdef HAVE_LIBMICROHTTPD
#define METRICS "yes"
#else
#define METRICS "no, built without libmicrohttpd"
#endif
#ifdef HAVE_ROCKSDB
#define DURABILITY "yes"
#else
#define DURABILITY "no, built without RocksDB"
#endif

static void print_version(void)
{
	printf("kvd %s\n  metrics: %s\n  durability: %s\n", PACKAGE_VERSION, METRICS, DURABILITY);
}

int options_parse(struct options *o, int argc, char **argv, int *status)
{
	static const char *const polls[] = { "adaptive", "busy", "event", NULL };
	static const char *const durabilities[] = { "async", "sync", NULL };
	static const char *const levels[] = { "error", "warn", "info", "debug", NULL };
	bool help = false, version = false;
	char error[512];

	*o = (struct options){ .listen = "127.0.0.1:7480", .memory_bytes = 1ull << 30,
			       .connections = 2500, .handshakes = 1000, .lease_ms = 10000, .log_level = LOG_LEVEL_INFO,
			       .durable = { .durability = DURABILITY_SYNC, .lag_ms = 100 } };
	const struct opt table[] = {
		{ "listen", 'l', OPT_STRING, &o->listen, 0, 0, NULL, "ADDR[:PORT]",
		  "serve this address (127.0.0.1:7480; port 0: any)" },
		{ "device", 'd', OPT_STRING, &o->device, 0, 0, NULL, "NAME",
		  "RDMA device; soft: the software one (by the address)" },
		{ "memory", 'm', OPT_SIZE, &o->memory_bytes, TABLE_BYTES_MIN,
		  (int64_t)LAYOUT_TABLE_BYTES_MAX, NULL, "SIZE",
		  "for index and values; registered (1G)" },
		{ "workers", 'w', OPT_INT, &o->workers, 0, LAYOUT_WORKERS_MAX, NULL, "N",
		  "threads; 0: half the node's CPUs, at most 4 (0)" },
		{ "poll", 'p', OPT_CHOICE, &o->poll, 0, 0, polls, "HOW",
		  "adaptive, busy or event (adaptive)" },
		{ "connections", 'c', OPT_INT, &o->connections, 1, 100000, NULL, "N",
		  "connections at the most (2500)" },
		{ "lease", 0, OPT_INT, &o->lease_ms, 10, 3600000, NULL, "MS",
		  "of a lock that others wait for (10000)" },
		{ "users", 'u', OPT_STRING, &o->users, 0, 0, NULL, "FILE",
		  "only its users may connect (see kvd init)" },
		{ "insecure", 0, OPT_FLAG, &o->insecure, 0, 0, NULL, NULL,
		  "serve other machines without users" },
		{ "handshakes", 0, OPT_INT, &o->handshakes, 0, 1000000, NULL, "N",
		  "a second and address; 0: any number (1000)" },
		{ "data-dir", 0, OPT_STRING, &o->durable.dir, 0, 0, NULL, "DIR",
		  "keep all on disk there, and load it at start (not kept)" },
		{ "durability", 0, OPT_CHOICE, &o->durable.durability, 0, 0, durabilities, "HOW",
		  "sync: on disk before it is answered; async: soon after (sync)" },
		{ "durability-lag", 0, OPT_INT, &o->durable.lag_ms, 1, 60000, NULL, "MS",
		  "async: sync the disk so often: what may be lost (100)" },
		{ "ready-file", 0, OPT_STRING, &o->ready_file, 0, 0, NULL, "PATH",
		  "write ADDR:PORT there once it serves" },
		{ "config", 0, OPT_STRING, &o->config, 0, 0, NULL, "FILE",
		  "read options from a file: NAME = VALUE lines" },
		{ "log-level", 0, OPT_CHOICE, &o->log_level, 0, 0, levels, "LEVEL",
		  "error, warn, info or debug (info)" },
		{ "metrics", 0, OPT_STRING, &o->metrics, 0, 0, NULL, "ADDR:PORT",
		  "serve figures for Prometheus there, by HTTP (none)" },
		{ "slow", 0, OPT_INT, &o->slow_ms, 0, 3600000, NULL, "MS",
		  "log requests that take so long in kvd; 0: none (0)" },
		{ "help", 'h', OPT_FLAG, &help, 0, 0, NULL, NULL, "show this help" },
		{ "version", 'V', OPT_FLAG, &version, 0, 0, NULL, NULL, "show the version" },
		{ 0 },
	};

	*status = 2;
	int first = opt_parse(table, argc, argv, error, sizeof error);
	if (first >= 0 && (help || version)) {
		if (help)
			print_help(table);
		else
			print_version();
		*status = 0;
		return 1;
	}
	if (first >= 0 && first < argc) {
		snprintf(error, sizeof error, "'%s' is not an option; kvd takes no other arguments",
			 argv[first]);
		first = -1;
	}
	/* Again, for the command line to win over the file. */
	if (first < 0 || (o->config && (opt_read_file(table, o->config, error, sizeof error) < 0 ||
					opt_parse(table, argc, argv, error, sizeof error) < 0))) {
		fprintf(stderr, "kvd: %s\nTry 'kvd --help'.\n", error);
		return 1;
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/options.h"

#include "config.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/kvd.h"
#include "common/log.h"

#define TABLE_MAX 48

/* What is taken only to be refused, or looked at, with a word. */
struct flags {
	bool help, version, no_flush, tls, verbose;
	const char *mode, *memory, *udp, *protocol;
};

static void print_help(const struct opt *table)
{
	printf("kvfront - memcached's protocol for kvd, on the machine of the clients\n"
	       "usage: kvfront [OPTION]...\n\n");
	opt_print_help(table);
	printf("\nTry it: kvd & kvfront -s /tmp/kv.sock &  Manual: kvfront(8).\n");
}

static const char *const targets[] = { "stderr", "syslog", "journal", NULL };

static void make_table(struct opt *table, struct options *o, struct flags *f)
{
	static const char *const levels[] = { "error", "warn", "info", "debug", NULL };

	const struct opt all[] = {
		{ "port", 'p', OPT_INT, &o->port, -1, 65535, NULL, "N",
		  "TCP port; 0: none, -1: any (11211; with -s: 0)" },
		{ "unix-socket", 's', OPT_STRING, &o->socket, 0, 0, NULL, "PATH",
		  "listen on this Unix socket" },
		{ "unix-mask", 'a', OPT_STRING, &f->mode, 0, 0, NULL, "MODE",
		  "its mode, in octal (700)" },
		{ "listen", 'l', OPT_STRING, &o->listen, 0, 0, NULL, "ADDR",
		  "address of the TCP port (127.0.0.1)" },
		{ "conn-limit", 'c', OPT_INT, &o->connections, 1, 1000000, NULL, "N",
		  "connections at the most (1024)" },
		{ "threads", 't', OPT_INT, &o->threads, 1, OPTIONS_THREADS_MAX, NULL, "N",
		  "event loops (4)" },
		{ "max-item-size", 'I', OPT_SIZE, &o->item_bytes_max, 1024,
		  (int64_t)KVD_VALUE_BYTES_MAX, NULL, "SIZE", "the largest item (1m)" },
		{ "listen-backlog", 'b', OPT_INT, &o->backlog, 1, 65535, NULL, "N",
		  "connections that wait to be taken (1024)" },
		{ "auth-file", 'Y', OPT_STRING, &o->auth_file, 0, 0, NULL, "FILE",
		  "clients say first who they are: lines NAME:PASSWORD" },
		{ "enable-shutdown", 'A', OPT_FLAG, &o->may_shut_down, 0, 0, NULL, NULL,
		  "clients may end kvfront by \"shutdown\"" },
		{ "disable-flush-all", 'F', OPT_FLAG, &f->no_flush, 0, 0, NULL, NULL,
		  "clients may not delete everything" },
		{ "user", 'u', OPT_STRING, &o->user, 0, 0, NULL, "NAME",
		  "started as root, become this user" },
		{ "idle-timeout", 0, OPT_TIME, &o->idle_s, 0, 0, NULL, "TIME",
		  "close connections that say nothing for so long (never)" },
		{ "stall", 0, OPT_TIME, &o->stall_s, 3600, 3600, NULL, "TIME",
		  "close those that take no answer for so long (60)" },
		{ "buffers", 0, OPT_SIZE, &o->buffer_bytes, 1 << 20, 1ll << 40, NULL, "SIZE",
		  "values on their way, at the most (256m)" },
		{ "server", 'S', OPT_STRING, &o->server, 0, 0, NULL, "HOST[:PORT]",
		  "kvd; /NAME behind it: its namespace (127.0.0.1:7480)" },
		{ "device", 'd', OPT_STRING, &o->device, 0, 0, NULL, "NAME",
		  "RDMA device; soft: the software one (by the address)" },
		{ "namespace", 'n', OPT_STRING, &o->namespace_name, 0, 0, NULL, "NAME",
		  "which of kvd's tables" },
		{ "credentials", 'k', OPT_STRING, &o->credentials, 0, 0, NULL, "FILE",
		  "who kvfront is to kvd" },
		{ "timeout", 0, OPT_TIME, &o->timeout_s, 3600, 3600, NULL, "TIME",
		  "how long kvd may take for a request (5)" },
		{ "mirror", 0, OPT_SIZE, &o->mirror_bytes, 0, 1ll << 40, NULL, "SIZE",
		  "what is kept of kvd's index (64m)" },
		{ "metrics", 0, OPT_STRING, &o->metrics, 0, 0, NULL, "ADDR:PORT",
		  "serve figures for Prometheus there (none)" },
		{ "ready-file", 0, OPT_STRING, &o->ready_file, 0, 0, NULL, "PATH",
		  "write where it listens there once it serves" },
		{ "log-level", 0, OPT_CHOICE, &o->log_level, 0, 0, levels, "LEVEL",
		  "error, warn, info or debug (info)" },
		{ "log-to", 0, OPT_CHOICE, &o->log_to, 0, 0, targets, "WHERE",
		  "stderr, syslog or journal (stderr)" },
		{ "verbose", 'v', OPT_FLAG, &f->verbose, 0, 0, NULL, NULL,
		  "the same as --log-level debug" },
		{ "memory-limit", 'm', OPT_STRING, &f->memory, 0, 0, NULL, "N",
		  "refused: kvd has the memory (kvd --memory)" },
		{ "udp-port", 'U', OPT_STRING, &f->udp, 0, 0, NULL, "0",
		  "there is no UDP: 0 is taken, others are refused" },
		{ "protocol", 'B', OPT_STRING, &f->protocol, 0, 0, NULL, "NAME",
		  "ascii or auto: there is no binary protocol" },
		{ "enable-ssl", 'Z', OPT_FLAG, &f->tls, 0, 0, NULL, NULL, "refused: there is no TLS" },
		{ "help", 'h', OPT_FLAG, &f->help, 0, 0, NULL, NULL, "show this help" },
		{ "version", 'V', OPT_FLAG, &f->version, 0, 0, NULL, NULL, "show the version" },
		{ 0 },
	};

	static_assert(sizeof all <= TABLE_MAX * sizeof all[0], "TABLE_MAX");
	memcpy(table, all, sizeof all);
}

#define PORT_UNSET (-2)

static int refuse(char *error, size_t error_bytes, const char *why)
{
	snprintf(error, error_bytes, "%s", why);
	return -1;
}

/* What memcached has and this has not. */
static int check_refused(const struct flags *f, char *error, size_t error_bytes)
{
	if (f->memory)
		return refuse(error, error_bytes,
			      "--memory-limit: kvfront keeps nothing itself; the memory is that of "
			      "kvd --memory");
	if (f->udp && strcmp(f->udp, "0"))
		return refuse(error, error_bytes, "--udp-port: there is no UDP; only 0 is taken");
	if (f->protocol && strcmp(f->protocol, "ascii") && strcmp(f->protocol, "auto"))
		return refuse(error, error_bytes,
			      "--protocol: there are the text and the meta protocol (ascii, auto)");
	if (f->tls)
		return refuse(error, error_bytes,
			      "--enable-ssl: there is no TLS; use the Unix socket (-s), or put a TLS "
			      "proxy such as stunnel before it");
	return 0;
}

static int settle(struct options *o, const struct flags *f, char *error, size_t error_bytes)
{
	char *end;

	if (check_refused(f, error, error_bytes))
		return -1;
	if (f->mode) {
		unsigned long mode = strtoul(f->mode, &end, 8);
		if (!*f->mode || *end || mode > 0777)
			return refuse(error, error_bytes, "--unix-mask: a mode such as 770, in octal");
		o->socket_mode = (int)mode;
	}
	if (o->port == PORT_UNSET)
		o->port = o->socket ? 0 : OPTIONS_PORT_DEFAULT;
	if (!o->port && !o->socket)
		return refuse(error, error_bytes, "--port 0: and no Unix socket (-s) to listen on");
	o->may_flush = !f->no_flush;
	if (f->verbose)
		o->log_level = LOG_LEVEL_DEBUG;
	return 0;
}

int options_parse(struct options *o, int argc, char **argv, int *status)
{
	struct opt table[TABLE_MAX];
	struct flags f = { 0 };
	char error[512];

	*o = (struct options){ .port = PORT_UNSET, .listen = "127.0.0.1", .socket_mode = 0700,
			       .backlog = 1024, .connections = 1024, .threads = 4,
			       .item_bytes_max = 1 << 20, .buffer_bytes = 256ull << 20,
			       .stall_s = 60, .timeout_s = 5, .mirror_bytes = 64ull << 20,
			       .log_level = LOG_LEVEL_INFO };
	make_table(table, o, &f);
	int first = opt_parse(table, argc, argv, error, sizeof error);
	if (first >= 0 && first < argc)
		first = refuse(error, sizeof error, "kvfront takes options only");
	if (first < 0 || (!f.help && !f.version && settle(o, &f, error, sizeof error))) {
		fprintf(stderr, "kvfront: %s\nTry 'kvfront --help'.\n", error);
		*status = 2;
		return 1;
	}
	*status = 0;
	if (f.help)
		print_help(table);
	else if (f.version)
		printf("kvfront %s\n", PACKAGE_VERSION);
	return f.help || f.version;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/options.h"

#include "config.h"

#include <assert.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/addr.h"
#include "common/auth/file.h"
#include "common/layout.h"
#include "common/log.h"
#include "common/opt.h"
#include "server/host/listener.h"
#include "server/table/table.h"

#include "config.h"

static void print_help(const struct opt *table)
{
	printf("kvd - key-value store for RDMA networks\n"
	       "usage: kvd [OPTION]...\n       kvd init --users FILE [--user NAME] [--output FILE]\n\n");
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

/* What options_parse() got. */
static int arg_count;
static char **args;

#define TABLE_MAX 44
#define LAG_MS_DEFAULT 100
#define UNSET (-1) /* the default, for what needs another option */

struct flags {
	bool help, version, check;
};

static const char *const targets[] = { "stderr", "syslog", "journal", NULL };

/* Of a member of a cluster. */
static void add_cluster(struct opt *table, struct options *o)
{
	const struct opt all[] = {
		{ "cluster", 0, OPT_STRING, &o->cluster, 0, 0, NULL, "ZK,.../NAME",
		  "be a member of that cluster, by ZooKeeper (none)" },
		{ "cluster-key", 0, OPT_STRING, &o->cluster_key, 0, 0, NULL, "FILE",
		  "the secret that its members share" },
		{ "cluster-listen", 0, OPT_STRING, &o->cluster_listen, 0, 0, NULL, "ADDR",
		  "for other members (first of --listen, any port)" },
		{ "cluster-copies", 0, OPT_INT, &o->cluster_copies, 0, 8, NULL, "N",
		  "of a cluster that is made by it; 0: 2 (0)" },
		{ 0 },
	};

	while (table->name)
		table++;
	memcpy(table, all, sizeof all);
}

/* The options' one table, with targets in o and f. */
static void make_table(struct opt *table, struct options *o, struct flags *f)
{
	static const char *const polls[] = { "adaptive", "busy", "event", NULL };
	static const char *const durabilities[] = { "async", "sync", NULL };
	static const char *const levels[] = { "error", "warn", "info", "debug", NULL };

	*o = (struct options){ .listen = "127.0.0.1:7480", .memory_bytes = 1ull << 30,
			       .handshakes = 1000, .lease_ms = 10000, .log_level = LOG_LEVEL_INFO,
			       .durable = { .durability = UNSET, .lag_ms = UNSET } };
	const struct opt all[] = {
		{ "listen", 'l', OPT_STRING, &o->listen, 0, 0, NULL, "ADDR[:PORT],...",
		  "serve these addresses (127.0.0.1:7480; port 0: any)" },
		{ "device", 'd', OPT_STRING, &o->device, 0, 0, NULL, "NAME",
		  "RDMA device; soft: the software one (by the address)" },
		{ "bootstrap", 0, OPT_STRING, &o->bootstrap, 0, 0, NULL, "HOW",
		  "cm; tcp: for networks without IP addresses (cm)" },
		{ "memory", 'm', OPT_SIZE, &o->memory_bytes, TABLE_BYTES_MIN,
		  (int64_t)LAYOUT_TABLE_BYTES_MAX, NULL, "SIZE",
		  "for index and values, all of it registered (1G)" },
		{ "workers", 'w', OPT_INT, &o->workers, 0, LAYOUT_WORKERS_MAX, NULL, "N",
		  "worker threads; 0: half the CPUs, at most 4 (0)" },
		{ "poll", 'p', OPT_CHOICE, &o->poll, 0, 0, polls, "HOW",
		  "workers wait: adaptive, busy or event (adaptive)" },
		{ "connections", 'c', OPT_INT, &o->connections, 1, 100000, NULL, "N",
		  "connections at the most (2500, or fewer)" },
		{ "user-connections", 0, OPT_INT, &o->user_connections, 0, 100000, NULL, "N",
		  "of one user; 0: all but an eighth (0)" },
		{ "lease", 0, OPT_INT, &o->lease_ms, 10, 3600000, NULL, "MS",
		  "how long a wanted lock is held (10000)" },
		{ "users", 'u', OPT_STRING, &o->users, 0, 0, NULL, "FILE",
		  "only its users may connect (see kvd init)" },
		{ "user", 0, OPT_STRING, &o->user, 0, 0, NULL, "NAME",
		  "started as root, become this user, without privileges" },
		{ "insecure", 0, OPT_FLAG, &o->insecure, 0, 0, NULL, NULL,
		  "serve other machines even without users" },
		{ "handshakes", 0, OPT_INT, &o->handshakes, 0, 1000000, NULL, "N",
		  "of one address a second; 0: any number (1000)" },
		{ "namespace", 0, OPT_LIST, &o->namespace_list, 0, 0, NULL, "SPEC",
		  "one more table: NAME:memory=SIZE,users=FILE,workers=N" },
		{ "data-dir", 0, OPT_STRING, &o->durable.dir, 0, 0, NULL, "DIR",
		  "keep everything on disk there (not kept)" },
		{ "durability", 0, OPT_CHOICE, &o->durable.durability, 0, 0, durabilities, "HOW",
		  "sync: on disk before it is answered; async: soon after (sync)" },
		{ "durability-lag", 0, OPT_INT, &o->durable.lag_ms, 1, 60000, NULL, "MS",
		  "async: how often the disk is synced; so much may be lost (100)" },
		{ "evict", 0, OPT_FLAG, &o->evict, 0, 0, NULL, NULL,
		  "when memory is full, remove the keys used least" },
		{ "wipe", 0, OPT_FLAG, &o->wipe, 0, 0, NULL, NULL,
		  "zero what is deleted, evicted or overwritten" },
		{ "ready-file", 0, OPT_STRING, &o->ready_file, 0, 0, NULL, "PATH",
		  "write ADDR:PORT there once it serves" },
		{ "check", 0, OPT_FLAG, &o->check, 0, 0, NULL, NULL,
		  "look at this machine, say what to put right" },
		{ "config", 0, OPT_STRING, &o->config, 0, 0, NULL, "FILE",
		  "read options from a file: NAME = VALUE lines" },
		{ "log-level", 0, OPT_CHOICE, &o->log_level, 0, 0, levels, "LEVEL",
		  "error, warn, info or debug (info)" },
		{ "log-to", 0, OPT_CHOICE, &o->log_to, 0, 0, targets, "WHERE",
		  "stderr, syslog or journal (stderr)" },
		{ "metrics", 0, OPT_STRING, &o->metrics, 0, 0, NULL, "ADDR:PORT",
		  "serve figures for Prometheus there (none)" },
		{ "slow", 0, OPT_INT, &o->slow_ms, 0, 3600000, NULL, "MS",
		  "log requests slower than that; 0: none (0)" },
		{ "check-config", 0, OPT_FLAG, &f->check, 0, 0, NULL, NULL,
		  "tell whether options and files are right" },
		{ "help", 'h', OPT_FLAG, &f->help, 0, 0, NULL, NULL, "show this help" },
		{ "version", 'V', OPT_FLAG, &f->version, 0, 0, NULL, NULL, "show the version" },
		{ 0 },
	};
	static_assert(sizeof all <= (TABLE_MAX - 4) * sizeof all[0], "TABLE_MAX");
	memcpy(table, all, sizeof all);
	add_cluster(table, o);
}

/* A member with a disk has an address of its own, which is the same after a restart. */
static int settle_cluster_listen(struct options *o, struct err *err)
{
	if (o->cluster_listen && addr_parse(&o->cluster_addr, o->cluster_listen, err))
		return -1;
	if (o->durable.dir &&
	    (!o->cluster_listen || !strcmp(strrchr(o->cluster_addr.text, ':'), ":0")))
		return err_set(err, -1, "--data-dir with --cluster: give --cluster-listen ADDR:PORT, by which the "
			       "others know this member again when it was restarted");
	return 0;
}

/* What a member of a cluster can't be yet. */
static int settle_cluster(struct options *o, char *error, size_t error_bytes)
{
	struct err err;
	const char *with = !o->cluster ? NULL :
			   o->namespace_list.count ? "--namespace" : NULL;

	if (!o->cluster && (o->cluster_key || o->cluster_listen || o->cluster_copies))
		snprintf(error, error_bytes, "--cluster-key, --cluster-listen and --cluster-copies are for "
			 "a member of a cluster: give --cluster, too");
	else if (o->cluster && !o->cluster_key)
		snprintf(error, error_bytes, "--cluster: give the cluster's key (--cluster-key FILE)");
	else if (with)
		snprintf(error, error_bytes, "--cluster and %s exclude each other, for now", with);
	else if (o->cluster && settle_cluster_listen(o, &err))
		snprintf(error, error_bytes, "%s", err.text);
	else
		return 0;
	return -1;
}

/* Says what can only be a mistake, and sets the defaults of what was told nothing of. */
static int settle(struct options *o, char *error, size_t error_bytes)
{
	struct durable_options *d = &o->durable;

	if (!d->dir && (d->durability != UNSET || d->lag_ms != UNSET)) {
		snprintf(error, error_bytes, "%s: nothing is durable without --data-dir: say in which "
			 "folder to keep it",
			 d->durability != UNSET ? "--durability" : "--durability-lag");
		return -1;
	}
	if (settle_cluster(o, error, error_bytes))
		return -1;
	if (d->durability == UNSET)
		d->durability = DURABILITY_SYNC;
	if (d->lag_ms == UNSET)
		d->lag_ms = LAG_MS_DEFAULT;
	return 0;
}

/* All tables against the memory of this machine: more of it can't be registered. */
static int check_memory(const struct options *o, char *error, size_t error_bytes)
{
	uint64_t wanted = options_memory_bytes(o);
	uint64_t there = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	char size[32], all[32];

	if (wanted <= there)
		return 0;
	snprintf(error, error_bytes, "--memory: this machine has %s, and %s %s wanted",
		 opt_format_size(there, all, sizeof all), opt_format_size(wanted, size, sizeof size),
		 o->namespace_count ? "for all namespaces are" : "are");
	return -1;
}

/* The command line, then the file that it names, then it again, so that it wins. */
static int read_table(const struct opt *table, const struct options *o, const struct flags *f,
		      char *error, size_t error_bytes)
{
	int first = opt_parse(table, arg_count, args, error, error_bytes);

	if (first < 0 || f->help || f->version)
		return first < 0 ? -1 : 0;
	if (first < arg_count) {
		snprintf(error, error_bytes, "'%s' is not an option; kvd takes no other arguments",
			 args[first]);
		return -1;
	}
	if (o->config && (opt_read_file(table, o->config, error, error_bytes) < 0 ||
			  opt_parse(table, arg_count, args, error, error_bytes) < 0))
		return -1;
	return 0;
}

static int read_all(const struct opt *table, struct options *o, const struct flags *f,
		    char *error, size_t error_bytes)
{
	return read_table(table, o, f, error, error_bytes) || settle(o, error, error_bytes);
}

static int read_namespaces(struct options *o, char *error, size_t error_bytes)
{
	struct err err;

	if (!namespaces_parse(&o->namespace_list, o->namespaces, &o->namespace_count, &err))
		return 0;
	snprintf(error, error_bytes, "%s", err.text);
	return -1;
}

uint64_t options_memory_bytes(const struct options *o)
{
	uint64_t n = o->memory_bytes;

	for (unsigned i = 0; i < o->namespace_count; i++)
		n += o->namespaces[i].memory_bytes;
	return n;
}

/* The users of namespaces. */
static int check_namespaces(const struct options *o)
{
	struct users *users;
	struct err err;

	for (unsigned i = 0; i < o->namespace_count; i++) {
		const struct namespace_options *n = &o->namespaces[i];
		users = NULL;
		if (!n->users != !o->users)
			err_set(&err, -1, "either all tables have users or none (see --users)");
		else if (!n->users || !users_load(n->users, &users, &err)) {
			users_delete(&users);
			continue;
		}
		fprintf(stderr, "kvd: --namespace %s: %s\n", n->name, err.text);
		return 1;
	}
	return 0;
}

/* What can be found out without serving anybody; the status. */
static int check(const struct options *o)
{
	struct users *users = NULL;
	struct addr addr;
	struct err err;

	const char *what = NULL;
	if (listeners_check(o->listen, &err))
		what = "--listen: ";
	else if (o->metrics && addr_parse(&addr, o->metrics, &err))
		what = "--metrics: ";
	else if (o->user && !getpwnam(o->user))
		what = "--user: ", err_set(&err, -1, "there is no user %.100s", o->user);
	else if (o->users && o->insecure)
		err_set(&err, -1, "exclude each other"), what = "--users and --insecure ";
	else if (o->evict && o->durable.dir)
		err_set(&err, -1, "exclude each other: what a cache removed would be on disk still"),
			what = "--evict and --data-dir ";
	else if (o->users && users_load(o->users, &users, &err))
		what = "--users: ";
	if (what) {
		fprintf(stderr, "kvd: %s%s\n", what, err.text);
		return 1;
	}
	users_delete(&users);
	if (check_namespaces(o))
		return 1;
	printf("kvd: %s%sthe configuration is right\n", o->config ? o->config : "",
	       o->config ? ": " : "");
	return 0;
}

int options_parse(struct options *o, int argc, char **argv, int *status)
{
	struct opt table[TABLE_MAX];
	struct flags f = { false };
	char error[512];

	arg_count = argc;
	args = argv;
	make_table(table, o, &f);
	if (read_all(table, o, &f, error, sizeof error) ||
	    read_namespaces(o, error, sizeof error) ||
	    (!f.help && !f.version && check_memory(o, error, sizeof error))) {
		fprintf(stderr, "kvd: %s\nTry 'kvd --help'.\n", error);
		*status = 2;
		return 1;
	}
	*status = 0;
	if (f.help)
		print_help(table);
	else if (f.version)
		print_version();
	else if (f.check)
		*status = check(o);
	return f.help || f.version || f.check;
}

int options_again(struct options *o, struct err *err)
{
	struct opt table[TABLE_MAX];
	struct flags f = { false };
	char error[400];

	make_table(table, o, &f);
	if (read_all(table, o, &f, error, sizeof error))
		return err_set(err, -1, "%s", error);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/run/options.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/workload/find.h"
#include "common/addr.h"

#define THREADS_MAX 1024
#define DEPTH_MAX 128 /* of a session of libkvd */
#define TIMEOUT_SECONDS_MAX 3600
#define MIRROR_BYTES_DEFAULT (64u << 20)

struct options options_values;

static const char *const gets[] = { "read", "message", NULL };
static const char *const rmws[] = { "apart", "locked", NULL };
static const char *const polls[] = { "adaptive", "busy", "event", NULL };

/* Taken out before opt_parse() sees the arguments, as they may come many times. */
static const char *property_file, *property, *stores_socket;

#define V (&options_values)

#define OPTIONS_WORKLOAD                                                                           \
	{ .name = "", .help = "Workload:" },                                                       \
	{ "properties", 'P', OPT_STRING, &property_file, 0, 0, NULL, "FILE",                       \
	  "YCSB property file, or workloada to workloadf" },                                         \
	{ "property", 'p', OPT_STRING, &property, 0, 0, NULL, "NAME=VALUE",                        \
	  "one property, over those of the files" },                                               \
	{ "seed", 0, OPT_INT, &V->seed, 0, INT_MAX, NULL, "N",                                     \
	  "another sequence of operations (1)" }

#define OPTIONS_SERVER                                                                             \
	{ .name = "", .help = "Server:" },                                                         \
	{ "server", 's', OPT_STRING, &V->server, 0, 0, NULL, "ADDR[:PORT]",                        \
	  "kvd ($KVD_SERVER, 127.0.0.1:7480), or noop: for none" },                                             \
	{ "device", 0, OPT_STRING, &V->device, 0, 0, NULL, "NAME",                                 \
	  "RDMA device; soft: the software device" },                                              \
	{ "credentials", 0, OPT_STRING, &V->credentials, 0, 0, NULL, "FILE",                       \
	  "who you are, for kvd ($KVD_CREDENTIALS_FILE)" },                                        \
	{ "timeout", 0, OPT_TIME, &V->timeout_seconds, 0, TIMEOUT_SECONDS_MAX, NULL, "TIME",       \
	  "of each operation: 2, 2s, 500ms (5s)" }

#define OPTIONS_LOAD                                                                               \
	{ .name = "", .help = "Load on the server:" },                                             \
	{ "threads", 't', OPT_INT, &V->threads, 1, THREADS_MAX, NULL, "N",                         \
	  "threads, with a connection each (threadcount, 1)" },                                    \
	{ "depth", 'd', OPT_INT, &V->depth, 1, DEPTH_MAX, NULL, "N",                               \
	  "operations under way on each connection (1)" },                                         \
	{ "target", 0, OPT_INT, &V->target, 1, INT_MAX, NULL, "OPS",                               \
	  "operations a second, of all threads (no limit)" },                                      \
	{ "poll", 0, OPT_CHOICE, &V->poll, 0, 0, polls, "adaptive|busy|event",                     \
	  "how to wait for answers" },                                                             \
	{ "mirror", 0, OPT_SIZE, &V->mirror_bytes, 0, INT64_MAX, NULL, "SIZE",                     \
	  "mirror of the index (64M); 0: none" }

#define OPTIONS_LENGTH                                                                             \
	{ "duration", 0, OPT_TIME, &V->seconds, 0, OPTIONS_SECONDS_MAX, NULL, "S",                 \
	  "seconds to run (or 2m, 1h), not operationcount" },                                      \
	{ "warmup", 0, OPT_INT, &V->warmup, 0, INT_MAX, NULL, "OPS",                               \
	  "operations before the measurement (0)" }

#define OPTIONS_GET                                                                                \
	{ "get", 0, OPT_CHOICE, &V->get, 0, 0, gets, "read|message",                               \
	  "GETs by one-sided READs, or answered by the server" }

#define OPTIONS_OUTPUT                                                                             \
	{ .name = "", .help = "Reports:" },                                                        \
	{ "json", 0, OPT_STRING, &V->json_path, 0, 0, NULL, "FILE", "everything, as JSON" },       \
	{ "hdr", 0, OPT_STRING, &V->hdr_path, 0, 0, NULL, "FILE", "HdrHistogram log" },            \
	{ "csv", 0, OPT_STRING, &V->csv_path, 0, 0, NULL, "FILE", "a line a second and kind" },    \
	{ "history", 0, OPT_STRING, &V->history_path, 0, 0, NULL, "FILE",                          \
	  "every operation, as JSON lines" },                                                      \
	{ "quiet", 'q', OPT_FLAG, &V->quiet, 0, 0, NULL, NULL, "no progress" },                    \
	{ "help", 'h', OPT_FLAG, &V->help, 0, 0, NULL, NULL, "this list" }

const struct opt options_load_table[] = {
	OPTIONS_WORKLOAD,
	OPTIONS_SERVER,
	OPTIONS_LOAD,
	OPTIONS_OUTPUT,
	{ .name = NULL },
};

const struct opt options_run_table[] = {
	OPTIONS_WORKLOAD,
	OPTIONS_LENGTH,
	OPTIONS_SERVER,
	OPTIONS_LOAD,
	OPTIONS_GET,
	{ "rmw", 0, OPT_CHOICE, &V->rmw, 0, 0, rmws, "apart|locked",
	  "a read-modify-write: GET and PUT, or in one, locked" },
	{ "with-raw", 0, OPT_FLAG, &V->with_raw, 0, 0, NULL, NULL,
	  "hold each GET and PUT against the verb alone" },
	OPTIONS_OUTPUT,
	{ .name = NULL },
};

const struct opt options_compare_table[] = {
	OPTIONS_WORKLOAD,
	OPTIONS_LENGTH,
	OPTIONS_SERVER,
	{ "socket", 0, OPT_STRING, &stores_socket, 0, 0, NULL, "PATH",
	  "where a store is: a socket or HOST:PORT; once for each" },
	OPTIONS_LOAD,
	OPTIONS_OUTPUT,
	{ .name = NULL },
};

/* ------------------------------------------------------------------ arguments */

/* The value of a repeatable option at argv[i], "-pX", "-p X", "--property=X" or
 * "--property X", or NULL; *used: how many arguments it takes. */
static const char *repeated(char **argv, int i, int argc, char letter, const char *name, int *used)
{
	const char *text = argv[i], *rest = NULL;
	size_t bytes = strlen(name);

	if (text[0] != '-')
		return NULL;
	if (letter != 0 && text[1] == letter)
		rest = text + 2;
	else if (text[1] == '-' && strncmp(text + 2, name, bytes) == 0 &&
		 (text[2 + bytes] == '=' || text[2 + bytes] == '\0'))
		rest = text + 2 + bytes + (text[2 + bytes] == '=');
	if (rest == NULL)
		return NULL;
	*used = 1;
	if (*rest != '\0')
		return rest;
	*used = 2;
	return i + 1 < argc ? argv[i + 1] : NULL;
}

/* Does argv[i] take the next argument as its value? */
static bool takes_next(const struct opt *table, const char *text)
{
	if (text[0] != '-' || strchr(text, '=') != NULL)
		return false;
	for (const struct opt *o = table; o->name != NULL; o++) {
		if (*o->name == '\0' || o->kind == OPT_FLAG)
			continue;
		if ((text[1] == '-' && strcmp(text + 2, o->name) == 0) ||
		    (o->letter != 0 && text[1] == o->letter && text[2] == '\0'))
			return true;
	}
	return false;
}

static char letter_of(const struct opt *table, const char *name)
{
	for (const struct opt *o = table; o->name != NULL; o++) {
		if (strcmp(o->name, name) == 0)
			return o->letter;
	}
	return 0;
}

/* Which of the names argv[i] gives a value to, with the value; NULL: none. */
static const char *repeated_any(const struct opt *table, const char *const *names, int argc,
				char **argv, int i, const char **value, int *used)
{
	for (; *names != NULL; names++) {
		*value = repeated(argv, i, argc, letter_of(table, *names), *names, used);
		if (*value != NULL)
			return *names;
	}
	return NULL;
}

int options_take(const struct opt *table, const char *const *names, int argc, char **argv,
		 int (*take)(void *arg, const char *name, const char *value, struct err *err),
		 void *arg, struct err *err)
{
	int kept = 1, used;

	for (int i = 1; i < argc; i += used) {
		const char *value, *name;
		name = repeated_any(table, names, argc, argv, i, &value, &used);
		if (name != NULL) {
			if (take(arg, name, value, err) < 0)
				return -1;
			continue;
		}
		used = 1 + (takes_next(table, argv[i]) && i + 1 < argc);
		for (int k = 0; k < used; k++)
			argv[kept++] = argv[i + k];
	}
	return kept;
}

/* Reads property files and properties. */
static int take_property(void *arg, const char *name, const char *value, struct err *err)
{
	char path[4096];

	(void)arg;
	if (strcmp(name, "properties") == 0)
		return properties_read(V->properties, workload_find(value, path, sizeof path), err);
	return properties_set(V->properties, value, err);
}

int options_parse(const struct opt *table, int argc, char **argv, struct err *err)
{
	static const char *const repeatable[] = { "properties", "property", NULL };
	int operand;

	memset(V, 0, sizeof *V);
	V->server = addr_server_default();
	V->depth = 1;
	V->seed = 1;
	V->timeout_seconds = 5;
	V->mirror_bytes = MIRROR_BYTES_DEFAULT;
	V->properties = properties_new();
	if (V->properties == NULL)
		return err_set(err, -1, "out of memory");
	argc = options_take(table, repeatable, argc, argv, take_property, NULL, err);
	if (argc < 0)
		return -1;
	operand = opt_parse(table, argc, argv, err->text, sizeof err->text);
	if (operand < 0)
		return -1;
	if (operand < argc)
		return err_set(err, -1, "'%s' is not an option", argv[operand]);
	return 0;
}

/* ------------------------------------------------------------------- workload */

static void warn_unknown(void *arg, const char *key, const char *value, bool known)
{
	(void)arg;
	(void)value;
	if (!known && !workload_ignores(key))
		fprintf(stderr, "kvbench: warning: unknown property %s\n", key);
}

int options_workload(const struct options *o, struct workload *w, struct err *err)
{
	int rc = workload_init(w, o->properties, (uint64_t)o->seed, err);

	if (rc < 0)
		return rc;
	properties_each(o->properties, warn_unknown, NULL);
	if (o->threads > 0)
		w->threads = (uint64_t)o->threads;
	if (o->target > 0)
		w->target = (uint64_t)o->target;
	return 0;
}

void options_store_config(const struct options *o, struct store_config *config)
{
	*config = (struct store_config){
		.server = o->server,
		.device = o->device,
		.credentials = o->credentials,
		.timeout_ms = (int)ceil(o->timeout_seconds * 1e3),
		.depth = o->depth,
		.poll = o->poll,
		.mirror_bytes = o->mirror_bytes > 0 ? (size_t)o->mirror_bytes : SIZE_MAX,
		.get = (enum store_get)o->get,
	};
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* kvbench compare: the same workload on several stores, one table side by side. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/command/command.h"
#include "bench/command/compare.h"
#include "bench/command/outputs.h"
#include "bench/format/json.h"
#include "bench/format/outfile.h"
#include "bench/report/report.h"
#include "bench/run/driver.h"
#include "bench/run/options.h"
#include "bench/store/open.h"

#define COLUMNS_MAX 8
#define NAME_BYTES 300

/* One store and what came of it. */
struct column {
	const char *title;
	const char *name;        /* as compare takes it */
	char server[NAME_BYTES]; /* as --server takes it */
	enum store_get get;
	const char *place; /* of --socket; NULL: where it usually is */
	struct workload workload;
	struct store *store;
	struct result *loaded, *result;
	struct timeline timeline;
	struct outputs outputs;
	time_t started;
};

struct compare {
	struct column columns[COLUMNS_MAX];
	unsigned count;
	unsigned sockets;
	double own_ns;
};

/* ------------------------------------------------------------------ arguments */

static const struct {
	const char *name, *title;
	enum store_get get;
	bool elsewhere; /* has a --socket */
} kinds[] = {
	{ "message", "kvd, by message", STORE_GET_MESSAGE, false },
	{ "redis", "Redis", STORE_GET_READ, true },
	{ "memcached", "memcached", STORE_GET_READ, true },
};

static int add_column(struct compare *c, const char *name, struct err *err)
{
	struct column *column = &c->columns[c->count];

	if (c->count == COLUMNS_MAX)
		return err_set(err, -1, "more than %d stores", COLUMNS_MAX);
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		if (strcmp(name, kinds[i].name) != 0)
			continue;
		column->title = kinds[i].title;
		column->name = kinds[i].name;
		column->get = kinds[i].get;
		if (kinds[i].elsewhere)
			snprintf(column->server, sizeof column->server, "%s:", name);
		c->count++;
		return 0;
	}
	return err_set(err, -1, "'%s' is none of redis, memcached, message", name);
}

/* The n-th --socket belongs to the n-th store that is not a kvd. */
static int take_socket(void *arg, const char *name, const char *value, struct err *err)
{
	struct compare *c = arg;
	unsigned at = c->sockets++;

	(void)name;
	for (unsigned i = 0; i < c->count; i++) {
		if (c->columns[i].server[0] == '\0' || at-- > 0)
			continue;
		c->columns[i].place = value;
		return 0;
	}
	return err_set(err, -1, "--socket %s: there is no store for it", value);
}

/* Takes the stores' names from the front of the arguments; the new argc. */
static int take_names(struct compare *c, int argc, char **argv, struct err *err)
{
	int names = 0;

	for (; names + 1 < argc && argv[names + 1][0] != '-'; names++) {
		if (add_column(c, argv[names + 1], err) < 0)
			return -1;
	}
	memmove(argv + 1, argv + 1 + names, (size_t)(argc - names) * sizeof *argv);
	return argc - names;
}

static int parse(struct compare *c, int argc, char **argv, struct err *err)
{
	static const char *const repeatable[] = { "socket", NULL };

	c->columns[0] = (struct column){ .title = "kvd", .name = "kvd" };
	c->count = 1;
	argc = take_names(c, argc, argv, err);
	if (argc > 0)
		argc = options_take(options_compare_table, repeatable, argc, argv, take_socket, c,
				    err);
	if (argc < 0 || options_parse(options_compare_table, argc, argv, err) < 0)
		return -1;
	if (c->count == 1 && !options_values.help)
		return err_set(err, -1, "with what? kvbench compare redis, memcached, message");
	for (unsigned i = 0; i < c->count; i++) {
		struct column *column = &c->columns[i];
		if (column->server[0] == '\0')
			snprintf(column->server, sizeof column->server, "%s",
				 options_values.server);
		else if (column->place != NULL)
			strncat(column->server, column->place,
				sizeof column->server - strlen(column->server) - 1);
	}
	return 0;
}

/* ----------------------------------------------------------------------- runs */

static void tick(void *arg, const struct driver_tick *t)
{
	struct column *column = arg;

	timeline_add(&column->timeline, t);
	outputs_tick(&column->outputs, t);
}

static struct driver_config config_of(struct column *column, bool load)
{
	const struct options *o = &options_values;
	struct workload *w = &column->workload;
	double seconds = o->seconds > 0 ? o->seconds : (double)w->seconds_max;

	return (struct driver_config){
		.workload = w,
		.store = column->store,
		.load = load,
		.verify = w->record.integrity && !load,
		.threads = (unsigned)w->threads,
		.depth = (unsigned)o->depth,
		.warmup = load ? 0 : (uint64_t)o->warmup,
		.operations = load ? w->insert_count : o->seconds > 0 ? 0 : w->operation_count,
		.seconds = load ? 0 : seconds,
		.target = load ? 0 : w->target,
		.history = column->outputs.history,
		.tick = load ? NULL : tick,
		.arg = column,
	};
}

static int drive(struct column *column, bool load, struct result **result, struct err *err)
{
	struct driver_config config = config_of(column, load);

	*result = malloc(sizeof **result);
	if (*result == NULL)
		return err_set(err, -1, "out of memory");
	if (!options_values.quiet)
		fprintf(stderr, "%s: %s\n", column->title, load ? "loading" : "running");
	return driver_run(&config, *result, err);
}

/* Says so itself where it fails. */
static int run_column(struct compare *c, struct column *column)
{
	struct store_config config;
	struct err err = { "" };

	options_values.server = column->server;
	options_values.get = column->get;
	options_store_config(&options_values, &config);
	if (options_workload(&options_values, &column->workload, &err) < 0)
		return command_fail(EXIT_USAGE, &err);
	if (column->workload.operation_count == 0 && column->workload.seconds_max == 0 &&
	    options_values.seconds <= 0) {
		err_set(&err, -1, "how long? give --duration S or -p operationcount=N");
		return command_fail(EXIT_USAGE, &err);
	}
	if (c->own_ns == 0)
		c->own_ns = driver_cost(&column->workload, (unsigned)options_values.depth);
	column->started = time(NULL);
	if (store_open(&config, &column->store, &err) < 0 ||
	    drive(column, true, &column->loaded, &err) < 0)
		return command_fail(EXIT_TROUBLE, &err);
	if (outputs_open(&column->outputs, &options_values, column->name, &err) < 0)
		return command_fail(EXIT_USAGE, &err);
	if (drive(column, false, &column->result, &err) < 0)
		return command_fail(EXIT_TROUBLE, &err);
	outputs_total(&column->outputs, column->result);
	return outputs_close(&column->outputs, &err) < 0 ? command_fail(EXIT_USAGE, &err) : EXIT_DONE;
}

/* ---------------------------------------------------------------------- table */

/* A row: `figure` of each column; negative and NAN: not told. */
static void print_row(const struct compare *c, const char *name, int decimals,
		      double (*figure)(const struct column *column, int kind, double percentile),
		      int kind, double percentile)
{
	printf("%-28s", name);
	for (unsigned i = 0; i < c->count; i++) {
		double value = figure(&c->columns[i], kind, percentile);
		if (isfinite(value) && value >= 0)
			printf(" %16.*f", decimals, value);
		else
			printf(" %16s", "-");
	}
	printf("\n");
}

static double throughput(const struct result *r)
{
	return r->seconds > 0 ? (double)r->operations / r->seconds : 0;
}

static double load_rate(const struct column *column, int kind, double percentile)
{
	(void)kind;
	(void)percentile;
	return throughput(column->loaded);
}

static double run_rate(const struct column *column, int kind, double percentile)
{
	(void)kind;
	(void)percentile;
	return throughput(column->result);
}

static double latency_us(const struct column *column, int kind, double percentile)
{
	const struct histogram *h = &column->result->op[kind].latency;

	if (h->count == 0)
		return NAN;
	return percentile > 0 ? (double)histogram_percentile(h, percentile) / 1e3
			      : histogram_mean(h) / 1e3;
}

static double server_cpu_us(const struct column *column, int kind, double percentile)
{
	const struct result *r = column->result;

	(void)kind;
	(void)percentile;
	return r->server.cpu_seconds < 0 ? NAN
					 : r->server.cpu_seconds * 1e6 / (double)r->operations;
}

static double client_cpu_us(const struct column *column, int kind, double percentile)
{
	(void)kind;
	(void)percentile;
	return column->result->client_cpu_seconds * 1e6 / (double)column->result->operations;
}

static double memory_mb(const struct column *column, int kind, double percentile)
{
	double bytes = column->result->server.memory_used_bytes;

	(void)kind;
	(void)percentile;
	return bytes < 0 ? NAN : bytes / 1e6;
}

static double right_values(const struct column *column, int kind, double percentile)
{
	(void)kind;
	(void)percentile;
	return column->workload.record.integrity ? (double)column->result->verify.ok : NAN;
}

static double wrong_values(const struct column *column, int kind, double percentile)
{
	const struct result *r = column->result;
	double errors = 0;

	(void)kind;
	(void)percentile;
	for (int i = 0; i < OP_KINDS; i++)
		errors += (double)r->op[i].errors;
	return errors + (double)(r->verify.wrong + r->verify.missing);
}

static const struct {
	const char *name;
	double percentile; /* 0: the mean */
} latencies[] = { { "mean", 0 }, { "p50", 50 }, { "p95", 95 }, { "p99", 99 }, { "p99.9", 99.9 } };

#define LATENCIES (sizeof latencies / sizeof *latencies)

static void print_table(const struct compare *c)
{
	char name[64];

	printf("%-28s", "");
	for (unsigned i = 0; i < c->count; i++)
		printf(" %16s", c->columns[i].title);
	printf("\n");
	print_row(c, "loading, operations/s", 0, load_rate, 0, 0);
	print_row(c, "running, operations/s", 0, run_rate, 0, 0);
	for (int kind = 0; kind < OP_KINDS; kind++) {
		for (size_t i = 0; i < LATENCIES; i++) {
			if (c->columns[0].result->op[kind].latency.count == 0)
				continue;
			snprintf(name, sizeof name, "%s %s, us", op_names[kind],
				 latencies[i].name);
			print_row(c, name, 2, latency_us, kind, latencies[i].percentile);
		}
	}
	print_row(c, "server CPU, us/operation", 3, server_cpu_us, 0, 0);
	print_row(c, "kvbench CPU, us/operation", 3, client_cpu_us, 0, 0);
	print_row(c, "server memory, MB", 1, memory_mb, 0, 0);
	print_row(c, "values checked and right", 0, right_values, 0, 0);
	print_row(c, "errors and wrong values", 0, wrong_values, 0, 0);
	printf("\n");
	for (unsigned i = 0; i < c->count; i++)
		printf("%s: %s\n", c->columns[i].title,
		       c->columns[i].store->ops->device(c->columns[i].store));
}

static const struct column *by_message(const struct compare *c)
{
	for (unsigned i = 1; i < c->count; i++) {
		if (c->columns[i].get == STORE_GET_MESSAGE)
			return &c->columns[i];
	}
	return NULL;
}

/* Where asking the server is better than reading its memory. */
struct losses {
	unsigned gets; /* figures of them that are worse */
	unsigned puts; /* and of what changes something beside them */
};

static struct losses print_lost_latencies(const struct column *one, const struct column *two)
{
	struct losses lost = { 0, 0 };

	for (size_t i = 0; i < OP_KINDS * LATENCIES; i++) {
		int kind = (int)(i / LATENCIES);
		bool get = kind == OP_READ;
		double of = latency_us(one, kind, latencies[i % LATENCIES].percentile);
		double to = latency_us(two, kind, latencies[i % LATENCIES].percentile);
		if (!(of > to))
			continue;
		lost.gets += get;
		lost.puts += !get;
		printf("%s at %s %s: %.2f us, by message %.2f us\n",
		       get ? "One-sided GETs lose" : "PUTs beside one-sided GETs lose", op_names[kind],
		       latencies[i % LATENCIES].name, of, to);
	}
	return lost;
}

static void print_losses(const struct compare *c)
{
	const struct column *one = &c->columns[0], *two = by_message(c);

	if (two == NULL)
		return;
	struct losses lost = print_lost_latencies(one, two);
	double rate = throughput(one->result), rate_by_message = throughput(two->result);
	if (rate < rate_by_message)
		printf("One-sided GETs lose in operations/s: %.0f, by message %.0f\n", rate,
		       rate_by_message);
	else if (lost.gets + lost.puts == 0)
		printf("One-sided GETs lose nowhere in this run.\n");
	if (lost.puts > 0)
		printf("Why PUTs lose: one-sided GETs ask nothing of kvd's workers, which sleep until a PUT\n"
		       "comes. It waits until one is awake and has a core, while the clients keep the cores\n"
		       "busy with GETs. GETs by message keep the workers awake for the PUTs, too.\n");
}

/* --------------------------------------------------------------------- reports */

static void json_column(struct json *j, const struct compare *c, const struct column *column)
{
	struct report report = {
		.command = "run",
		.options = &options_values,
		.workload = &column->workload,
		.store = column->store,
		.result = column->result,
		.timeline = &column->timeline,
		.own_ns = c->own_ns,
		.started = column->started,
	};

	options_values.server = column->server;
	options_values.get = column->get;
	report_json_object(&report, j, column->title, throughput(column->loaded));
}

static int write_json(const struct compare *c, const char *path, struct err *err)
{
	struct outfile out;
	struct json j = { 0 };

	if (outfile_open(&out, path, err) < 0)
		return -1;
	j.file = out.file;
	json_open(&j, NULL, '{');
	json_open(&j, "compare", '[');
	for (unsigned i = 0; i < c->count; i++)
		json_column(&j, c, &c->columns[i]);
	json_close(&j, '[');
	json_close(&j, '{');
	return outfile_close(&out, err);
}

static int run_all(struct compare *c)
{
	struct err err = { "" };
	bool failed = false;

	for (unsigned i = 0; i < c->count; i++) {
		int status = run_column(c, &c->columns[i]);
		if (status != EXIT_DONE)
			return status;
		failed |= c->columns[i].result->failed || c->columns[i].loaded->failed;
		if (c->columns[i].result->err.text[0] != '\0')
			fprintf(stderr, "kvbench: %s: %s\n", c->columns[i].title,
				c->columns[i].result->err.text);
	}
	print_table(c);
	print_losses(c);
	if (options_values.json_path != NULL &&
	    write_json(c, options_values.json_path, &err) < 0)
		return command_fail(EXIT_USAGE, &err);
	return failed ? EXIT_WRONG : EXIT_DONE;
}

static void clear(struct compare *c)
{
	struct err ignored;

	for (unsigned i = 0; i < c->count; i++) {
		struct column *column = &c->columns[i];
		workload_clear(&column->workload);
		timeline_clear(&column->timeline);
		outputs_close(&column->outputs, &ignored);
		store_delete(&column->store);
		free(column->loaded);
		free(column->result);
	}
	properties_delete(&options_values.properties);
}

int command_compare(int argc, char **argv)
{
	struct compare *c = calloc(1, sizeof *c);
	struct err err = { "out of memory" };
	int status;

	if (c == NULL)
		return command_fail(EXIT_TROUBLE, &err);
	if (parse(c, argc, argv, &err) < 0) {
		status = command_fail(EXIT_USAGE, &err);
	} else if (options_values.help) {
		printf("usage: kvbench compare redis|memcached|message... [--socket PATH]... "
		       "-P WORKLOAD [options]\n");
		opt_print_help(options_compare_table);
		status = EXIT_DONE;
	} else {
		status = run_all(c);
	}
	clear(c);
	free(c);
	return status;
}

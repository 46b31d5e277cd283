/* SPDX-License-Identifier: BSD-2-Clause */
/* kvbench load and kvbench run. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/command/command.h"
#include "bench/command/outputs.h"
#include "bench/command/run.h"
#include "bench/report/progress.h"
#include "bench/report/report.h"
#include "bench/run/driver.h"
#include "bench/run/options.h"
#include "bench/store/open.h"

struct run {
	const struct options *options;
	bool load;
	struct workload workload;
	struct store *store;
	struct outputs outputs;
	struct timeline timeline;
	struct progress progress;
	struct result *result;
};

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
	(void)number;
	interrupted = 1;
}

/* The first signal ends the run and lets it report, a second one the program. */
static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static void tick(void *arg, const struct driver_tick *t)
{
	struct run *run = arg;

	timeline_add(&run->timeline, t);
	outputs_tick(&run->outputs, t);
	if (!run->options->quiet)
		progress_tick(&run->progress, t);
}

/* ----------------------------------------------------------------------- set-up */

static int check_length(const struct run *run, struct err *err)
{
	const struct workload *w = &run->workload;

	if (run->load || w->operation_count > 0 || w->seconds_max > 0 ||
	    run->options->seconds > 0)
		return 0;
	return err_set(err, -1, "nothing says how long: give --duration S, or "
		       "-p operationcount=N, or -p maxexecutiontime=S");
}

static int check_integrity(const struct run *run, struct err *err)
{
	if (!run->workload.record.integrity || strcmp(run->store->ops->name, "noop") != 0 ||
	    run->load)
		return 0;
	return err_set(err, -1, "property dataintegrity: the store noop: keeps no values to check");
}

static int check_raw(const struct run *run, struct err *err)
{
	const struct options *o = run->options;

	if (!o->with_raw)
		return 0;
	if (run->store->ops->raw_read == NULL)
		return err_set(err, -1, "--with-raw: only a kvd has verbs to compare with");
	if (o->depth != 1 || run->workload.target > 0)
		return err_set(err, -1, "--with-raw: an operation and its verb take turns, one at a "
			       "time, so it excludes --depth above 1 and --target");
	if (o->mirror_bytes == 0 && o->get == STORE_GET_READ)
		return err_set(err, -1, "--with-raw: without a mirror nobody knows what a GET READs");
	return 0;
}

static int check_rmw(const struct run *run, struct err *err)
{
	const struct options *o = run->options;

	if (!o->rmw)
		return 0;
	if (run->store->ops->update == NULL)
		return err_set(err, -1, "--rmw locked: only a kvd has locks");
	if (o->depth != 1 || o->history_path != NULL)
		return err_set(err, -1, "--rmw locked: it does one operation at a time, in no history, "
			       "so it excludes --depth above 1 and --history");
	return 0;
}

/* The operations that end the run; 0: only time does. */
static uint64_t planned(const struct run *run)
{
	if (run->load)
		return run->workload.insert_count;
	return run->options->seconds > 0 ? 0 : run->workload.operation_count;
}

static double planned_seconds(const struct run *run)
{
	if (run->options->seconds > 0)
		return run->options->seconds;
	return (double)run->workload.seconds_max;
}

/* ---------------------------------------------------------------------- reports */

static int write_reports(struct run *run, double own_ns, time_t started, struct err *err)
{
	struct report report = {
		.command = run->load ? "load" : "run",
		.options = run->options,
		.workload = &run->workload,
		.store = run->store,
		.result = run->result,
		.timeline = &run->timeline,
		.own_ns = own_ns,
		.started = started,
	};

	report_text(&report, stdout);
	outputs_total(&run->outputs, run->result);
	if (run->options->json_path == NULL)
		return 0;
	return report_json(&report, run->options->json_path, err);
}

static uint64_t count_errors(const struct result *r)
{
	uint64_t errors = 0;

	for (int kind = 0; kind < OP_KINDS; kind++)
		errors += r->op[kind].errors;
	return errors;
}

/* What was wrong with the run, on standard error. */
static int judge(const struct run *run)
{
	const struct result *r = run->result;
	uint64_t errors = count_errors(r);

	if (r->interrupted)
		fprintf(stderr, "kvbench: interrupted; the figures tell what was done until then\n");
	if (r->verify.wrong > 0)
		fprintf(stderr, "kvbench: data integrity: %" PRIu64 " values were not what "
				"belongs to their keys\n", r->verify.wrong);
	if (r->verify.missing > 0)
		fprintf(stderr, "kvbench: data integrity: %" PRIu64 " keys had no value. Was the "
				"store loaded with the same properties?\n", r->verify.missing);
	if (r->err.text[0] != '\0')
		fprintf(stderr, "kvbench: %" PRIu64 " operations failed; the first: %s\n", errors,
			r->err.text);
	if (!r->failed && r->op[OP_READ].not_found > 0)
		fprintf(stderr, "kvbench: warning: %" PRIu64 " READs found no value. Was the store "
				"loaded with the same recordcount?\n", r->op[OP_READ].not_found);
	return r->failed ? EXIT_WRONG : EXIT_DONE;
}

/* --------------------------------------------------------------------- the run */

static int drive(struct run *run, struct err *err)
{
	struct driver_config config = {
		.workload = &run->workload,
		.store = run->store,
		.load = run->load,
		.with_raw = run->options->with_raw,
		.locked_rmw = run->options->rmw != 0,
		.verify = run->workload.record.integrity && !run->load,
		.threads = (unsigned)run->workload.threads,
		.depth = (unsigned)run->options->depth,
		.warmup = run->load ? 0 : (uint64_t)run->options->warmup,
		.operations = planned(run),
		.seconds = run->load ? 0 : planned_seconds(run),
		.target = run->workload.target,
		.history = run->outputs.history,
		.tick = tick,
		.arg = run,
		.interrupted = &interrupted,
	};

	progress_init(&run->progress, run->load, config.operations);
	catch_signals();
	return driver_run(&config, run->result, err);
}

static int run_and_report(struct run *run, struct err *err)
{
	double own_ns = driver_cost(&run->workload, (unsigned)run->options->depth);
	time_t started = time(NULL);

	run->result = malloc(sizeof *run->result);
	if (run->result == NULL) {
		err_set(err, -1, "out of memory");
		return command_fail(EXIT_TROUBLE, err);
	}
	if (drive(run, err) < 0)
		return command_fail(EXIT_TROUBLE, err);
	if (write_reports(run, own_ns, started, err) < 0)
		return command_fail(EXIT_USAGE, err);
	return judge(run);
}

static int open_and_run(struct run *run, struct err *err)
{
	struct store_config config;

	options_store_config(run->options, &config);
	if (options_workload(run->options, &run->workload, err) < 0 || check_length(run, err) < 0)
		return command_fail(EXIT_USAGE, err);
	if (store_open(&config, &run->store, err) < 0)
		return command_fail(EXIT_TROUBLE, err);
	if (check_integrity(run, err) < 0 || check_raw(run, err) < 0 || check_rmw(run, err) < 0 ||
	    outputs_open(&run->outputs, run->options, NULL, err) < 0)
		return command_fail(EXIT_USAGE, err);
	return run_and_report(run, err);
}

static int command(bool load, const struct opt *table, int argc, char **argv)
{
	struct run run = { .options = &options_values, .load = load };
	struct err err = { "" };
	int status;

	if (options_parse(table, argc, argv, &err) < 0) {
		status = command_fail(EXIT_USAGE, &err);
	} else if (options_values.help) {
		printf("usage: kvbench %s -P WORKLOAD [-p NAME=VALUE]... [options]\n", argv[0]);
		opt_print_help(table);
		status = EXIT_DONE;
	} else {
		status = open_and_run(&run, &err);
	}
	if (outputs_close(&run.outputs, &err) < 0 && status == EXIT_DONE)
		status = command_fail(EXIT_USAGE, &err);
	workload_clear(&run.workload);
	timeline_clear(&run.timeline);
	store_delete(&run.store);
	free(run.result);
	properties_delete(&options_values.properties);
	return status;
}

int command_load(int argc, char **argv)
{
	return command(true, options_load_table, argc, argv);
}

int command_run(int argc, char **argv)
{
	return command(false, options_run_table, argc, argv);
}

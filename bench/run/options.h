/* SPDX-License-Identifier: BSD-2-Clause */
/* options.h -- the options of kvbench load, run and compare. */
#ifndef BENCH_RUN_OPTIONS_H
#define BENCH_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/store/store.h"
#include "bench/workload/property.h"
#include "bench/workload/workload.h"
#include "common/err.h"
#include "common/opt.h"

#define OPTIONS_SECONDS_MAX (366 * 24 * 3600)

struct options {
	/* As given; 0 and NULL: not given. */
	const char *server;
	const char *device;
	const char *credentials;
	int threads;
	int depth;
	int target;
	double seconds; /* --duration; 0: none given */
	int operations;
	int warmup;
	int seed;
	double timeout_seconds;
	int poll;
	uint64_t mirror_bytes;
	int get; /* enum store_get */
	bool with_raw;
	int rmw; /* 1: locked */
	bool quiet;
	bool help;
	const char *json_path;
	const char *hdr_path;
	const char *csv_path;
	const char *history_path;

	/* What came of them */
	struct properties *properties;
};

/* The table of a command, for opt_parse(), --help and the documentation's test.
 * It refers to the one `options_values`. */
extern struct options options_values;
extern const struct opt options_load_table[];
extern const struct opt options_run_table[];
extern const struct opt options_compare_table[];

/*
 * Parses a command's arguments: argv[0] is its name.  Reads property files.
 * 0 or -1 with err.  With --help only options_values.help is set.
 */
int options_parse(const struct opt *table, int argc, char **argv, struct err *err);

/* The workload that the properties and the options make.  0 or -1 with err;
 * warns of unknown properties on standard error. */
int options_workload(const struct options *o, struct workload *w, struct err *err);

void options_store_config(const struct options *o, struct store_config *config);

/*
 * Takes options that may come many times (long names, NULL-terminated) out of the
 * arguments and gives each to `take` in order; the new argc, or -1 with err.  They
 * stand in the table too, for --help.
 */
int options_take(const struct opt *table, const char *const *names, int argc, char **argv,
		 int (*take)(void *arg, const char *name, const char *value, struct err *err),
		 void *arg, struct err *err);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/workload/workload.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *const op_names[OP_KINDS] = {
	[OP_READ] = "READ",
	[OP_UPDATE] = "UPDATE",
	[OP_INSERT] = "INSERT",
	[OP_READ_MODIFY_WRITE] = "READ-MODIFY-WRITE",
};

#define COUNT_MAX (UINT64_C(1) << 40)
#define THREADS_MAX 1024

/* Inserts can come twice as many as are to be expected. */
#define GROWTH 2.0

/* YCSB's own properties that mean nothing to this driver. */
static const char *const ignored[] = {
	"core_workload_insertion_retry_interval",
	"core_workload_insertion_retry_limit",
	"db",
	"dotransactions",
	"exporter",
	"exportfile",
	"hdrhistogram.fileoutput",
	"hdrhistogram.output.path",
	"hdrhistogram.percentiles",
	"histogram.buckets",
	"label",
	"maxscanlength",
	"measurement.histogram.verbose",
	"measurement.interval",
	"measurement.raw.output_file",
	"measurement.trackjvm",
	"measurementtype",
	"minscanlength",
	"readallfieldsbyname",
	"reportlatencyforeacherror",
	"latencytrackederrors",
	"scanlengthdistribution",
	"status",
	"status.interval",
	"table",
	"timeseries.granularity",
};

bool workload_ignores(const char *key)
{
	for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
		if (strcmp(ignored[i], key) == 0)
			return true;
	}
	return false;
}

/* ------------------------------------------------------------------ settings */

static int read_class(struct properties *p, struct err *err)
{
	const char *name = properties_get(p, "workload");
	const char *last;

	if (name == NULL)
		return 0;
	last = strrchr(name, '.');
	last = last != NULL ? last + 1 : name;
	if (strcmp(last, "CoreWorkload") != 0)
		return err_set(err, -1, "property workload: '%s' is not the core workload "
			       "(site.ycsb.workloads.CoreWorkload), which is all that kvbench runs",
			       name);
	return 0;
}

static int read_counts(struct workload *w, struct properties *p, struct err *err)
{
	w->threads = 1;
	if (properties_get_number(p, "recordcount", 1, COUNT_MAX, &w->record_count, err) < 0 ||
	    properties_get_number(p, "operationcount", 0, COUNT_MAX, &w->operation_count, err) < 0 ||
	    properties_get_number(p, "maxexecutiontime", 0, COUNT_MAX, &w->seconds_max, err) < 0 ||
	    properties_get_number(p, "target", 0, COUNT_MAX, &w->target, err) < 0 ||
	    properties_get_number(p, "threadcount", 1, THREADS_MAX, &w->threads, err) < 0 ||
	    properties_get_number(p, "insertstart", 0, COUNT_MAX, &w->insert_start, err) < 0)
		return -1;
	if (w->record_count == 0)
		return err_set(err, -1, "property recordcount is missing. It says how many records "
			       "there are, for example -p recordcount=100000");
	if (w->insert_start >= w->record_count)
		return err_set(err, -1, "property insertstart: %" PRIu64 " is not below recordcount "
			       "(%" PRIu64 ")", w->insert_start, w->record_count);
	w->insert_count = w->record_count - w->insert_start;
	return properties_get_number(p, "insertcount", 1, w->insert_count, &w->insert_count, err);
}

static int read_proportions(struct workload *w, struct properties *p, struct err *err)
{
	double scan = 0, sum = 0;

	w->proportion[OP_READ] = 0.95;
	w->proportion[OP_UPDATE] = 0.05;
	if (properties_get_real(p, "readproportion", 0, 1, &w->proportion[OP_READ], err) < 0 ||
	    properties_get_real(p, "updateproportion", 0, 1, &w->proportion[OP_UPDATE], err) < 0 ||
	    properties_get_real(p, "insertproportion", 0, 1, &w->proportion[OP_INSERT], err) < 0 ||
	    properties_get_real(p, "readmodifywriteproportion", 0, 1,
				&w->proportion[OP_READ_MODIFY_WRITE], err) < 0 ||
	    properties_get_real(p, "scanproportion", 0, 1, &scan, err) < 0)
		return -1;
	if (scan > 0)
		return err_set(err, -1, "property scanproportion: %g: scans (workload E) are "
			       "refused. kvd finds keys by their hash and keeps no order of them, "
			       "so there is no next key to go on to. Run A, B, C, D or F", scan);
	for (int i = 0; i < OP_KINDS; i++)
		sum += w->proportion[i];
	if (sum <= 0)
		return err_set(err, -1, "all proportions are 0, so there is nothing to do");
	for (int i = 0; i < OP_KINDS; i++)
		w->proportion[i] /= sum;
	return 0;
}

static int read_keys(struct workload *w, struct properties *p, struct err *err)
{
	static const char *const orders[] = { "hashed", "ordered", NULL };
	uint64_t padding = 1;
	int order = 0;

	if (properties_get_choice(p, "insertorder", orders, &order, err) < 0 ||
	    properties_get_number(p, "zeropadding", 0, KEY_PADDING_MAX, &padding, err) < 0)
		return -1;
	w->key.ordered = order == 1;
	w->key.padding = (int)padding;
	return 0;
}

static int read_fields(struct workload *w, struct properties *p, struct err *err)
{
	struct record_format *f = &w->record;
	uint64_t fields = 10;
	int lengths = RECORD_CONSTANT;

	f->field_bytes = 100;
	f->field_bytes_min = 1;
	if (properties_get_number(p, "fieldcount", 1, RECORD_FIELDS_MAX, &fields, err) < 0 ||
	    properties_get_number(p, "fieldlength", 0, COUNT_MAX, &f->field_bytes, err) < 0 ||
	    properties_get_choice(p, "fieldlengthdistribution", record_length_names, &lengths,
				  err) < 0 ||
	    properties_get_number(p, "minfieldlength", 0, COUNT_MAX, &f->field_bytes_min, err) < 0 ||
	    properties_get_bool(p, "writeallfields", &f->write_all, err) < 0 ||
	    properties_get_bool(p, "dataintegrity", &f->integrity, err) < 0)
		return -1;
	f->field_count = (uint32_t)fields;
	f->lengths = (enum record_lengths)lengths;
	f->prefix = properties_get(p, "fieldnameprefix");
	f->histogram_path = properties_get(p, "fieldlengthhistogram");
	if (f->prefix == NULL)
		f->prefix = "field";
	if (f->histogram_path == NULL)
		f->histogram_path = "hist.txt";
	if (strlen(f->prefix) > RECORD_PREFIX_BYTES_MAX)
		return err_set(err, -1, "property fieldnameprefix: longer than %d bytes",
			       RECORD_PREFIX_BYTES_MAX);
	if (f->field_bytes_min > f->field_bytes &&
	    (lengths == RECORD_UNIFORM || lengths == RECORD_ZIPFIAN))
		return err_set(err, -1, "property minfieldlength: %" PRIu64 " is over fieldlength "
			       "(%" PRIu64 ")", f->field_bytes_min, f->field_bytes);
	if (f->integrity && lengths != RECORD_CONSTANT)
		return err_set(err, -1, "property dataintegrity: needs fields of one length "
			       "(fieldlengthdistribution=constant)");
	return 0;
}

/* The records that requests are for, as YCSB counts them. */
static uint64_t request_count(const struct workload *w)
{
	double growth;

	if (w->distribution != GENERATOR_ZIPFIAN)
		return w->insert_count;
	/* So that the popular records stay the same while records are added. */
	growth = (double)w->operation_count * w->proportion[OP_INSERT] * GROWTH;
	return w->insert_count + (uint64_t)growth + 1;
}

static int read_requests(struct workload *w, struct properties *p, struct err *err)
{
	double hot_data = 0.2, hot_draws = 0.8, percentile = 95, fraction = 0.8571428571;
	struct generator *g = &w->generator;

	w->read_all_fields = true;
	if (properties_get_choice(p, "requestdistribution", generator_names, &w->distribution,
				  err) < 0 ||
	    properties_get_real(p, "hotspotdatafraction", 0, 1, &hot_data, err) < 0 ||
	    properties_get_real(p, "hotspotopnfraction", 0, 1, &hot_draws, err) < 0 ||
	    properties_get_real(p, "exponential.percentile", 0.001, 99.999999, &percentile,
				err) < 0 ||
	    properties_get_real(p, "exponential.frac", 0.000001, 1000, &fraction, err) < 0 ||
	    properties_get_bool(p, "readallfields", &w->read_all_fields, err) < 0)
		return -1;
	generator_init(g, (enum generator_kind)w->distribution, w->insert_start, request_count(w));
	g->hot_count = (uint64_t)((double)g->count * hot_data);
	g->hot_proportion = hot_draws;
	g->mean = -(double)w->record_count * fraction / log(1 - percentile / 100);
	return 0;
}

int workload_init(struct workload *w, struct properties *p, uint64_t seed, struct err *err)
{
	memset(w, 0, sizeof *w);
	w->seed = seed;
	w->random_base = random_base(seed);
	if (read_class(p, err) < 0 || read_counts(w, p, err) < 0 ||
	    read_proportions(w, p, err) < 0 || read_keys(w, p, err) < 0 ||
	    read_fields(w, p, err) < 0 || read_requests(w, p, err) < 0)
		return -1;
	if (record_format_init(&w->record, err) < 0)
		return -1;
	w->inserts = sequence_new(w->record_count);
	if (w->inserts == NULL)
		return err_set(err, -1, "out of memory");
	return 0;
}

void workload_clear(struct workload *w)
{
	record_format_clear(&w->record);
	sequence_delete(&w->inserts);
}

/* ---------------------------------------------------------------- operations */

static enum op_kind choose(const struct workload *w, struct random *r)
{
	double at = random_double(r);
	int last = 0;

	for (int kind = 0; kind < OP_KINDS; kind++) {
		if (w->proportion[kind] <= 0)
			continue;
		last = kind;
		if (at < w->proportion[kind])
			break;
		at -= w->proportion[kind];
	}
	return (enum op_kind)last;
}

void workload_operation(struct workload *w, struct generator *g, uint64_t index,
			struct operation *op)
{
	op->random = random_stream(w->random_base, index);
	op->kind = choose(w, &op->random);
	if (op->kind == OP_INSERT)
		op->number = sequence_next(w->inserts);
	else
		op->number = generator_next(g, &op->random, index, sequence_newest(w->inserts));
}

void workload_load_operation(const struct workload *w, uint64_t index, struct operation *op)
{
	op->kind = OP_INSERT;
	op->number = w->insert_start + index;
	op->random = random_stream(w->random_base, op->number);
}

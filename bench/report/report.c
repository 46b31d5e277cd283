/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/report/report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/utsname.h>

#include "bench/format/json.h"
#include "bench/format/outfile.h"

/* Is the device the software one? */
static bool is_soft(const struct report *r)
{
	return strstr(r->store->ops->device(r->store), "software device") != NULL;
}

static double us(uint64_t ns)
{
	return (double)ns / 1e3;
}

static double per_operation(const struct report *r, uint64_t n)
{
	return r->result->operations > 0 ? (double)n / (double)r->result->operations : 0;
}

static double throughput(const struct report *r)
{
	return r->result->seconds > 0 ? (double)r->result->operations / r->result->seconds : 0;
}

static const char *measured_from(const struct report *r)
{
	return r->workload->target > 0 ? "intended start" : "submission";
}

/* The costs that are told, under the names of the JSON. */
struct verb {
	const char *name;
	uint64_t count;
};

#define VERBS 10

static void list_verbs(const struct report *r, struct verb list[VERBS])
{
	const struct kvd_counters *c = &r->result->counters;
	const struct verb all[VERBS] = {
		{ "read", c->reads },
		{ "atomic", c->atomics },
		{ "send", c->messages },
		{ "bytes_read", c->read_bytes },
		{ "bytes_sent", c->message_bytes },
		{ "retries", c->retries },
		{ "mirror_hits", c->mirror_hits },
		{ "fallbacks", c->fallbacks },
		{ "reconnects", c->reconnects },
		{ "busy", r->result->busy },
	};

	memcpy(list, all, sizeof all);
}

/* -------------------------------------------------------------------- config */

struct config_writer {
	void (*each)(void *arg, const char *name, const char *value, bool number);
	void *arg;
};

static void set_text(const struct config_writer *w, const char *name, const char *value)
{
	w->each(w->arg, name, value, false);
}

static void set_count(const struct config_writer *w, const char *name, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof text, "%" PRIu64, value);
	w->each(w->arg, name, text, true);
}

static void set_real(const struct config_writer *w, const char *name, double value)
{
	char text[32];

	snprintf(text, sizeof text, "%.10g", value);
	w->each(w->arg, name, text, true);
}

static void set_bool(const struct config_writer *w, const char *name, bool value)
{
	w->each(w->arg, name, value ? "true" : "false", true);
}

static void config_run(const struct config_writer *w, const struct report *r)
{
	const struct options *o = r->options;
	static const char *const polls[] = { "adaptive", "busy", "event" };

	set_text(w, "command", r->command);
	set_text(w, "version", kvd_version());
	set_text(w, "store", r->store->ops->name);
	set_text(w, "server", o->server);
	set_count(w, "threads", r->workload->threads);
	set_count(w, "depth", (uint64_t)o->depth);
	set_count(w, "target", r->workload->target);
	set_real(w, "duration_seconds", o->seconds);
	set_count(w, "warmup", (uint64_t)o->warmup);
	set_count(w, "seed", r->workload->seed);
	set_text(w, "poll", polls[o->poll]);
	set_count(w, "mirror_bytes", o->mirror_bytes);
	set_text(w, "get", o->get == STORE_GET_MESSAGE ? "message" : "read");
	set_bool(w, "with_raw", o->with_raw);
	set_text(w, "latency_from", measured_from(r));
}

static void config_workload(const struct config_writer *w, const struct workload *l)
{
	const struct record_format *f = &l->record;

	set_count(w, "recordcount", l->record_count);
	set_count(w, "operationcount", l->operation_count);
	set_count(w, "maxexecutiontime", l->seconds_max);
	set_count(w, "insertstart", l->insert_start);
	set_count(w, "insertcount", l->insert_count);
	set_real(w, "readproportion", l->proportion[OP_READ]);
	set_real(w, "updateproportion", l->proportion[OP_UPDATE]);
	set_real(w, "insertproportion", l->proportion[OP_INSERT]);
	set_real(w, "readmodifywriteproportion", l->proportion[OP_READ_MODIFY_WRITE]);
	set_text(w, "requestdistribution", generator_names[l->distribution]);
	set_text(w, "insertorder", l->key.ordered ? "ordered" : "hashed");
	set_count(w, "zeropadding", (uint64_t)l->key.padding);
	set_count(w, "fieldcount", f->field_count);
	set_count(w, "fieldlength", f->field_bytes);
	set_text(w, "fieldlengthdistribution", record_length_names[f->lengths]);
	set_bool(w, "readallfields", l->read_all_fields);
	set_bool(w, "writeallfields", f->write_all);
	set_bool(w, "dataintegrity", f->integrity);
}

static void config_machine(const struct config_writer *w, const struct report *r)
{
	char date[32], machine[256];
	struct utsname name;
	struct tm tm;

	strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&r->started, &tm));
	set_text(w, "started", date);
	if (uname(&name) == 0) {
		snprintf(machine, sizeof machine, "%.60s %.120s %.60s", name.sysname, name.release,
			 name.machine);
		set_text(w, "machine", machine);
	}
}

/* Calls `each` for everything that was set, in order.  number: the value is one,
 * or true or false; else it is a text. */
static void each_setting(const struct report *r,
			 void (*each)(void *arg, const char *name, const char *value, bool number),
			 void *arg)
{
	struct config_writer w = { each, arg };

	config_run(&w, r);
	config_workload(&w, r->workload);
	config_machine(&w, r);
}

/* ---------------------------------------------------------------------- text */

static void text_percentiles(FILE *file, const char *name, const struct histogram *h)
{
	static const struct {
		const char *name;
		double percentile;
	} list[] = {
		{ "50th", 50 }, { "90th", 90 }, { "95th", 95 }, { "99th", 99 },
		{ "99.9", 99.9 }, { "99.99", 99.99 },
	};

	for (size_t i = 0; i < sizeof list / sizeof *list; i++)
		fprintf(file, "[%s], %sPercentileLatency(us), %.3f\n", name, list[i].name,
			us(histogram_percentile(h, list[i].percentile)));
}

static void text_operation(FILE *file, const char *name, const struct op_result *op)
{
	const struct histogram *h = &op->latency;

	fprintf(file, "[%s], Operations, %" PRIu64 "\n", name, op_result_count(op));
	fprintf(file, "[%s], AverageLatency(us), %.3f\n", name, histogram_mean(h) / 1e3);
	fprintf(file, "[%s], MinLatency(us), %.3f\n", name, h->count > 0 ? us(h->min_ns) : 0);
	fprintf(file, "[%s], MaxLatency(us), %.3f\n", name, us(h->max_ns));
	text_percentiles(file, name, h);
	fprintf(file, "[%s], Return=OK, %" PRIu64 "\n", name, op->ok);
	if (op->not_found > 0)
		fprintf(file, "[%s], Return=NOT_FOUND, %" PRIu64 "\n", name, op->not_found);
	if (op->errors > 0)
		fprintf(file, "[%s], Return=ERROR, %" PRIu64 "\n", name, op->errors);
}

static void text_operations(const struct report *r, FILE *file)
{
	char name[32];

	for (int kind = 0; kind < OP_KINDS; kind++) {
		const struct op_result *op = &r->result->op[kind];
		if (op_result_count(op) == 0)
			continue;
		text_operation(file, op_names[kind], op);
		if (r->workload->target == 0 || op->service.count == 0)
			continue;
		snprintf(name, sizeof name, "%s-SERVICE", op_names[kind]);
		fprintf(file, "[%s], AverageLatency(us), %.3f\n", name,
			histogram_mean(&op->service) / 1e3);
		text_percentiles(file, name, &op->service);
	}
}

static void text_verify(const struct verify_result *v, FILE *file)
{
	if (v->ok + v->wrong + v->missing == 0)
		return;
	fprintf(file, "[VERIFY], Operations, %" PRIu64 "\n", v->ok + v->wrong + v->missing);
	fprintf(file, "[VERIFY], Return=OK, %" PRIu64 "\n", v->ok);
	if (v->wrong > 0)
		fprintf(file, "[VERIFY], Return=UNEXPECTED_STATE, %" PRIu64 "\n", v->wrong);
	if (v->missing > 0)
		fprintf(file, "[VERIFY], Return=ERROR, %" PRIu64 "\n", v->missing);
}

static void text_costs(const struct report *r, FILE *file)
{
	const struct result *s = r->result;
	struct verb verbs[VERBS];

	list_verbs(r, verbs);
	for (int i = 0; i < VERBS; i++) {
		fprintf(file, "[VERBS], %s, %" PRIu64 "\n", verbs[i].name, verbs[i].count);
		fprintf(file, "[VERBS], %s/operation, %.4f\n", verbs[i].name,
			per_operation(r, verbs[i].count));
	}
	if (s->server.cpu_seconds >= 0)
		fprintf(file, "[SERVER], CPUTime(s), %.6f\n", s->server.cpu_seconds);
	if (s->server.gets_served >= 0)
		fprintf(file, "[SERVER], GetsServed, %.0f\n", s->server.gets_served);
	if (s->server.memory_used_bytes >= 0)
		fprintf(file, "[SERVER], MemoryUsed(bytes), %.0f\n", s->server.memory_used_bytes);
	fprintf(file, "[KVBENCH], CPUTime(s), %.6f\n", s->client_cpu_seconds);
	if (r->own_ns >= 0)
		fprintf(file, "[KVBENCH], OwnCost(ns/op), %.1f\n", r->own_ns);
	fprintf(file, "[KVBENCH], LatencyFrom, %s\n", measured_from(r));
	fprintf(file, "[DEVICE], %s\n", r->store->ops->device(r->store));
}

static double ratio(double of, double to)
{
	return to > 0 ? of / to : NAN;
}

static void text_pair(FILE *file, int kind, const struct pair *p)
{
	const char *raw = pair_raw_names[kind], *store = pair_store_names[kind];
	static const struct {
		const char *name;
		double percentile;
	} list[] = { { "50th", 50 }, { "95th", 95 }, { "99th", 99 } };

	fprintf(file, "[RAW-%s], Operations, %" PRIu64 "\n", raw, p->raw.count);
	fprintf(file, "[RAW-%s], AverageLatency(us), %.3f\n", raw, histogram_mean(&p->raw) / 1e3);
	fprintf(file, "[RAW-%s], %sAverageLatency(us), %.3f\n", raw, store,
		histogram_mean(&p->store) / 1e3);
	fprintf(file, "[RAW-%s], Average%s/%s, %.3f\n", raw, store, raw,
		ratio(histogram_mean(&p->store), histogram_mean(&p->raw)));
	for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
		double of = us(histogram_percentile(&p->store, list[i].percentile));
		double to = us(histogram_percentile(&p->raw, list[i].percentile));
		fprintf(file, "[RAW-%s], %sPercentileLatency(us), %.3f\n", raw, list[i].name, to);
		fprintf(file, "[RAW-%s], %s%sPercentileLatency(us), %.3f\n", raw, store,
			list[i].name, of);
		fprintf(file, "[RAW-%s], %sPercentile%s/%s, %.3f\n", raw, list[i].name, store, raw,
			ratio(of, to));
	}
}

static void text_pairs(const struct report *r, FILE *file)
{
	for (int kind = 0; kind < PAIR_KINDS; kind++) {
		if (r->result->pair[kind].raw.count > 0)
			text_pair(file, kind, &r->result->pair[kind]);
	}
}

static void text_config(void *arg, const char *name, const char *value, bool number)
{
	(void)number;
	fprintf(arg, "[CONFIG], %s, %s\n", name, value);
}

void report_text(const struct report *r, FILE *file)
{
	fprintf(file, "[OVERALL], RunTime(ms), %.3f\n", r->result->seconds * 1e3);
	fprintf(file, "[OVERALL], Throughput(ops/sec), %.3f\n", throughput(r));
	text_operations(r, file);
	text_verify(&r->result->verify, file);
	text_pairs(r, file);
	text_costs(r, file);
	each_setting(r, text_config, file);
	fflush(file);
}

/* ---------------------------------------------------------------------- JSON */

static void json_config(void *arg, const char *name, const char *value, bool number)
{
	if (number)
		json_literal(arg, name, value);
	else
		json_string(arg, name, value);
}

static void json_property(void *arg, const char *key, const char *value, bool known)
{
	(void)known;
	json_string(arg, key, value);
}

static void json_latencies(struct json *j, const struct histogram *h)
{
	json_real(j, "mean_us", histogram_mean(h) / 1e3, 3);
	json_real(j, "min_us", h->count > 0 ? us(h->min_ns) : 0, 3);
	json_real(j, "p50_us", us(histogram_percentile(h, 50)), 3);
	json_real(j, "p90_us", us(histogram_percentile(h, 90)), 3);
	json_real(j, "p95_us", us(histogram_percentile(h, 95)), 3);
	json_real(j, "p99_us", us(histogram_percentile(h, 99)), 3);
	json_real(j, "p999_us", us(histogram_percentile(h, 99.9)), 3);
	json_real(j, "p9999_us", us(histogram_percentile(h, 99.99)), 3);
	json_real(j, "max_us", us(h->max_ns), 3);
}

/* The whole distribution: points [percentile, us], eight for each halving of what
 * is left to 100, as far as there are values. */
static void json_curve(struct json *j, const struct histogram *h)
{
	json_open_flat(j, "percentiles", '[');
	for (int i = 0; h->count > 0; i++) {
		double left = pow(0.5, i / 8.0);
		double percentile = left * (double)h->count < 1 ? 100 : 100 * (1 - left);
		json_open(j, NULL, '[');
		json_real(j, NULL, percentile, 6);
		json_real(j, NULL, us(histogram_percentile(h, percentile)), 3);
		json_close(j, '[');
		if (percentile >= 100)
			break;
	}
	json_close(j, '[');
}

static void json_operation(struct json *j, const struct report *r, int kind)
{
	const struct op_result *op = &r->result->op[kind];

	json_open(j, op_names[kind], '{');
	json_count(j, "count", op_result_count(op));
	json_count(j, "ok", op->ok);
	json_count(j, "not_found", op->not_found);
	json_count(j, "errors", op->errors);
	json_latencies(j, &op->latency);
	if (r->workload->target > 0) {
		json_open(j, "service", '{');
		json_latencies(j, &op->service);
		json_close(j, '{');
	}
	json_curve(j, &op->latency);
	json_close(j, '{');
}

static void json_operations(struct json *j, const struct report *r)
{
	json_open(j, "operations", '{');
	for (int kind = 0; kind < OP_KINDS; kind++) {
		if (op_result_count(&r->result->op[kind]) > 0)
			json_operation(j, r, kind);
	}
	json_close(j, '{');
}

static void json_verbs(struct json *j, const struct report *r)
{
	struct verb verbs[VERBS];

	list_verbs(r, verbs);
	json_open(j, "verbs", '{');
	for (int i = 0; i < VERBS; i++)
		json_count(j, verbs[i].name, verbs[i].count);
	json_open(j, "per_operation", '{');
	for (int i = 0; i < VERBS; i++)
		json_real(j, verbs[i].name, per_operation(r, verbs[i].count), 6);
	json_close(j, '{');
	json_close(j, '{');
}

/* What a server doesn't tell is null. */
static double told(double value)
{
	return value < 0 ? NAN : value;
}

static void json_server(struct json *j, const struct result *s)
{
	json_open(j, "server", '{');
	json_real(j, "cpu_seconds", told(s->server.cpu_seconds), 6);
	json_real(j, "gets_served", told(s->server.gets_served), 0);
	json_real(j, "memory_used_bytes", told(s->server.memory_used_bytes), 0);
	json_real(j, "keys", told(s->server.keys), 0);
	json_close(j, '{');
}

static void json_verify(struct json *j, const struct report *r)
{
	const struct verify_result *v = &r->result->verify;

	json_open(j, "integrity", '{');
	json_bool(j, "checked", r->workload->record.integrity);
	json_count(j, "ok", v->ok);
	json_count(j, "wrong", v->wrong);
	json_count(j, "missing", v->missing);
	json_close(j, '{');
}

static void json_timeline(struct json *j, const struct timeline *t)
{
	json_open(j, "timeline", '[');
	for (size_t i = 0; i < t->count; i++) {
		const struct timeline_point *p = &t->points[i];
		double seconds = p->to_seconds - p->from_seconds;
		json_open_flat(j, NULL, '{');
		json_real(j, "from_seconds", p->from_seconds, 3);
		json_real(j, "to_seconds", p->to_seconds, 3);
		json_count(j, "operations", p->operations);
		json_real(j, "throughput", (double)p->operations / seconds, 1);
		json_real(j, "p50_us", us(p->p50_ns), 3);
		json_real(j, "p99_us", us(p->p99_ns), 3);
		json_real(j, "max_us", us(p->max_ns), 3);
		json_close(j, '{');
	}
	json_close(j, '[');
}

static void json_pair(struct json *j, int kind, const struct pair *p)
{
	json_open(j, pair_raw_names[kind], '{');
	json_count(j, "count", p->raw.count);
	json_open(j, "raw", '{');
	json_latencies(j, &p->raw);
	json_close(j, '{');
	json_open(j, pair_store_names[kind], '{');
	json_latencies(j, &p->store);
	json_close(j, '{');
	json_open_flat(j, "ratio", '{');
	json_real(j, "mean", ratio(histogram_mean(&p->store), histogram_mean(&p->raw)), 4);
	json_real(j, "p50", ratio(us(histogram_percentile(&p->store, 50)),
				  us(histogram_percentile(&p->raw, 50))), 4);
	json_real(j, "p99", ratio(us(histogram_percentile(&p->store, 99)),
				  us(histogram_percentile(&p->raw, 99))), 4);
	json_close(j, '{');
	json_close(j, '{');
}

static void json_pairs(struct json *j, const struct report *r)
{
	json_open(j, "with_raw", '{');
	for (int kind = 0; kind < PAIR_KINDS; kind++) {
		if (r->result->pair[kind].raw.count > 0)
			json_pair(j, kind, &r->result->pair[kind]);
	}
	json_close(j, '{');
}

static void json_overall(struct json *j, const struct report *r)
{
	json_open(j, "overall", '{');
	json_count(j, "operations", r->result->operations);
	json_real(j, "seconds", r->result->seconds, 6);
	json_real(j, "throughput", throughput(r), 3);
	json_bool(j, "interrupted", r->result->interrupted);
	json_bool(j, "failed", r->result->failed);
	if (r->result->err.text[0] != '\0')
		json_string(j, "error", r->result->err.text);
	json_close(j, '{');
}

static void json_members(struct json *j, const struct report *r)
{
	json_open(j, "config", '{');
	each_setting(r, json_config, j);
	json_open(j, "properties", '{');
	properties_each(r->options->properties, json_property, j);
	json_close(j, '{');
	json_close(j, '{');
	json_string(j, "device", r->store->ops->device(r->store));
	json_bool(j, "software_device", is_soft(r));
	json_overall(j, r);
	json_operations(j, r);
	json_verbs(j, r);
	json_server(j, r->result);
	json_open(j, "kvbench", '{');
	json_real(j, "cpu_seconds", r->result->client_cpu_seconds, 6);
	json_real(j, "own_ns_per_operation", told(r->own_ns), 1);
	json_close(j, '{');
	json_verify(j, r);
	if (r->options->with_raw)
		json_pairs(j, r);
	json_timeline(j, r->timeline);
}

void report_json_object(const struct report *r, struct json *j, const char *name,
			double load_rate)
{
	json_open(j, NULL, '{');
	json_string(j, "name", name);
	json_real(j, "load_throughput", load_rate, 3);
	json_members(j, r);
	json_close(j, '{');
}

int report_json(const struct report *r, const char *path, struct err *err)
{
	struct outfile out;
	struct json j = { 0 };

	if (outfile_open(&out, path, err) < 0)
		return -1;
	j.file = out.file;
	json_open(&j, NULL, '{');
	json_members(&j, r);
	json_close(&j, '{');
	return outfile_close(&out, err);
}

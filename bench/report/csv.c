/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/report/csv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/format/outfile.h"

struct csv {
	struct outfile out;
};

int csv_new(const char *path, struct csv **csv, struct err *err)
{
	struct csv *c = calloc(1, sizeof *c);

	if (c == NULL)
		return err_set(err, -1, "out of memory");
	if (outfile_open(&c->out, path, err) < 0) {
		free(c);
		return -1;
	}
	fputs("scope,operation,from_seconds,to_seconds,operations,operations_per_second,"
	      "mean_us,min_us,p50_us,p90_us,p95_us,p99_us,p999_us,p9999_us,max_us\n", c->out.file);
	*csv = c;
	return 0;
}

static void write_line(struct csv *c, const char *scope, int kind, double from, double to,
		       const struct histogram *h)
{
	static const double percentiles[] = { 50, 90, 95, 99, 99.9, 99.99 };

	if (h->count == 0)
		return;
	fprintf(c->out.file, "%s,%s,%.3f,%.3f,%" PRIu64 ",%.1f,%.3f,%.3f", scope, op_names[kind], from,
		to, h->count, (double)h->count / (to - from), histogram_mean(h) / 1e3,
		(double)h->min_ns / 1e3);
	for (size_t i = 0; i < sizeof percentiles / sizeof *percentiles; i++)
		fprintf(c->out.file, ",%.3f", (double)histogram_percentile(h, percentiles[i]) / 1e3);
	fprintf(c->out.file, ",%.3f\n", (double)h->max_ns / 1e3);
}

void csv_tick(struct csv *c, const struct driver_tick *t)
{
	for (int kind = 0; kind < OP_KINDS; kind++)
		write_line(c, "second", kind, t->from_seconds, t->to_seconds, t->interval[kind]);
}

void csv_total(struct csv *c, const struct result *r)
{
	for (int kind = 0; kind < OP_KINDS; kind++)
		write_line(c, "total", kind, 0, r->seconds, &r->op[kind].latency);
}

int csv_delete(struct csv **csv, struct err *err)
{
	struct csv *c = *csv;
	int rc;

	if (c == NULL)
		return 0;
	rc = outfile_close(&c->out, err);
	free(c);
	*csv = NULL;
	return rc;
}

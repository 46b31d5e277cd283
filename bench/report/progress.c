/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/report/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define BAR_WIDTH 24

void progress_init(struct progress *p, bool load, uint64_t operations)
{
	*p = (struct progress){
		.load = load,
		.terminal = isatty(STDERR_FILENO) == 1,
		.operations = operations,
	};
}

/* "1:02:03", "2:03" or "3 s", into buf. */
static const char *show_time(double seconds, char *buf, size_t buf_bytes)
{
	unsigned long long s = (unsigned long long)(seconds + 0.5);

	if (s >= 3600)
		snprintf(buf, buf_bytes, "%llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
	else if (s >= 60)
		snprintf(buf, buf_bytes, "%llu:%02llu", s / 60, s % 60);
	else
		snprintf(buf, buf_bytes, "%llu s", s);
	return buf;
}

static void print_bar(const struct progress *p, const struct driver_tick *t)
{
	char bar[BAR_WIDTH + 1];

	for (int i = 0; i < BAR_WIDTH; i++)
		bar[i] = (double)i < t->done * BAR_WIDTH ? '#' : '.';
	bar[BAR_WIDTH] = '\0';
	fprintf(stderr, "loading [%s] %3.0f %%  %" PRIu64 " of %" PRIu64 " records", bar,
		100 * t->done, t->operations, p->operations);
}

static void print_latencies(const struct driver_tick *t)
{
	for (int kind = 0; kind < OP_KINDS; kind++) {
		const struct histogram *h = t->interval[kind];
		if (h->count == 0)
			continue;
		fprintf(stderr, "  %s p50 %.1f p99 %.1f us", op_names[kind],
			(double)histogram_percentile(h, 50) / 1e3,
			(double)histogram_percentile(h, 99) / 1e3);
	}
}

static void print_remaining(const struct driver_tick *t)
{
	char left[32];

	if (t->last)
		fprintf(stderr, "  in %s", show_time(t->to_seconds, left, sizeof left));
	else if (t->done > 0)
		fprintf(stderr, "  %s left",
			show_time(t->to_seconds * (1 - t->done) / t->done, left, sizeof left));
}

void progress_tick(struct progress *p, const struct driver_tick *t)
{
	double seconds = t->to_seconds - t->from_seconds;
	double rate = seconds > 0 ? (double)(t->operations - p->before) / seconds : 0;

	if (t->last && t->to_seconds > 0) /* of the whole */
		rate = (double)t->operations / t->to_seconds;
	p->before = t->operations;
	if (p->terminal)
		fputs("\r\033[K", stderr);
	if (p->load)
		print_bar(p, t);
	else
		fprintf(stderr, "running %3.0f %%  %" PRIu64 " operations", 100 * t->done,
			t->operations);
	fprintf(stderr, "  %.0f/s", rate);
	print_remaining(t);
	if (t->errors > 0)
		fprintf(stderr, "  %" PRIu64 " errors", t->errors);
	if (!p->load && !t->last)
		print_latencies(t);
	if (!p->terminal || t->last)
		fputc('\n', stderr);
	fflush(stderr);
}

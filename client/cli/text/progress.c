/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/text/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/text/group.h"
#include "common/opt.h"

#define REDRAW_NS 100000000
#define BAR_COLUMNS 16

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static const char *show_count(uint64_t count, char buf[32])
{
	char digits[24];

	snprintf(digits, sizeof digits, "%" PRIu64, count);
	return cli_group(digits, buf, 32);
}

static uint64_t per_second(uint64_t amount, uint64_t ns)
{
	return (uint64_t)((double)amount * 1e9 / (double)(ns ? ns : 1));
}

void cli_progress_begin(struct cli_progress *p, const char *what, size_t count_total,
			uint64_t bytes_total)
{
	*p = (struct cli_progress){
		.what = what,
		.unit = "file",
		.to = stdout,
		.bar = isatty(2),
		.count_total = count_total,
		.bytes_total = bytes_total,
		.begin_ns = now_ns(),
	};
}

static double part_done(const struct cli_progress *p)
{
	uint64_t bytes = p->bytes_read ? p->bytes_read : p->bytes;
	double part = p->bytes_total	? (double)bytes / (double)p->bytes_total :
		      p->count_total ? (double)p->count / (double)p->count_total :
				       0;

	return part < 1 ? part : 1;
}

static void make_bar(char bar[BAR_COLUMNS + 1], double part)
{
	memset(bar, '.', BAR_COLUMNS);
	memset(bar, '#', (size_t)(part * BAR_COLUMNS));
	bar[BAR_COLUMNS] = '\0';
}

static void draw(struct cli_progress *p)
{
	char bar[BAR_COLUMNS + 1], count[32], total[32], bytes[32], rate[32], line[160];
	double part = part_done(p);

	make_bar(bar, part);
	opt_format_size(p->bytes, bytes, sizeof bytes);
	opt_format_size(per_second(p->bytes, p->drawn_ns - p->begin_ns), rate, sizeof rate);
	if (!p->bytes_total && !p->count_total)
		snprintf(line, sizeof line, "%s  %s %ss  %s  %s/s", p->what,
			 show_count(p->count, count), p->unit, bytes, rate);
	else if (!p->count_total)
		snprintf(line, sizeof line, "%s [%s] %3d %%  %s %ss  %s  %s/s", p->what, bar,
			 (int)(part * 100), show_count(p->count, count), p->unit, bytes, rate);
	else
		snprintf(line, sizeof line, "%s [%s] %3d %%  %s of %s  %s  %s/s", p->what, bar,
			 (int)(part * 100), show_count(p->count, count),
			 show_count(p->count_total, total), bytes, rate);
	fprintf(stderr, "\r%-.79s\033[K", line);
	fflush(stderr);
}

void cli_progress_add(struct cli_progress *p, uint64_t bytes)
{
	p->count++;
	p->bytes += bytes;
	if (!p->bar || now_ns() - p->drawn_ns < REDRAW_NS)
		return;
	p->drawn_ns = now_ns();
	draw(p);
}

static void draw_value(const struct cli_progress *p)
{
	char bar[BAR_COLUMNS + 1], bytes[32], total[32], line[160];
	double part = part_done(p);

	make_bar(bar, part);
	opt_format_size(p->bytes, bytes, sizeof bytes);
	if (p->bytes_total)
		snprintf(line, sizeof line, "%s [%s] %3d %%  %s of %s", p->what, bar,
			 (int)(part * 100), bytes,
			 opt_format_size(p->bytes_total, total, sizeof total));
	else
		snprintf(line, sizeof line, "%s  %s  %.1f s", p->what, bytes,
			 (double)(p->drawn_ns - p->begin_ns) / 1e9);
	fprintf(stderr, "\r%-.79s\033[K", line);
	fflush(stderr);
}

void cli_progress_value(struct cli_progress *p, uint64_t bytes)
{
	uint64_t now = now_ns();

	p->bytes = bytes;
	if (!p->bar || now - (p->drawn_ns ? p->drawn_ns : p->begin_ns) < REDRAW_NS)
		return;
	p->drawn_ns = now;
	draw_value(p);
}

void cli_progress_hide(struct cli_progress *p)
{
	if (p->bar && p->drawn_ns)
		fputs("\r\033[K", stderr);
	p->drawn_ns = 0;
}

void cli_progress_end(struct cli_progress *p)
{
	uint64_t ns = now_ns() - p->begin_ns;
	char count[32], bytes[32], byte_rate[32], rate[32];

	cli_progress_hide(p);
	fprintf(p->to, "%s: %s %s%s, %s in %.2f s (%s/s, %s %ss/s)", p->what,
		show_count(p->count, count), p->unit, p->count == 1 ? "" : "s",
		opt_format_size(p->bytes, bytes, sizeof bytes), (double)ns / 1e9,
		opt_format_size(per_second(p->bytes, ns), byte_rate, sizeof byte_rate),
		show_count(per_second(p->count, ns), rate), p->unit);
}

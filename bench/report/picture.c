/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/report/picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Told apart by people who see fewer colours, too; then in dashes. */
static const char *const colours[] = { "#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7",
				       "#56b4e9", "#e69f00" };

#define COLOURS (sizeof colours / sizeof *colours)
#define COLUMNS_MAX 2u
#define PANEL_WIDTH 560u
#define PANEL_HEIGHT 460u
#define CHARACTER_WIDTH 8u
#define NAME_GAP 0.05   /* between names, of the panel's height */
#define MARKED_MAX 12u  /* a line of so few points shows them */

struct range {
	double least, most;
};

/* ------------------------------------------------------------------- gathering */

static bool ends_with(const char *text, const char *end)
{
	size_t bytes = strlen(text), end_bytes = strlen(end);

	return bytes > end_bytes && strcmp(text + bytes - end_bytes, end) == 0;
}

int picture_begin(struct picture *p, const struct picture_config *config, struct err *err)
{
	memset(p, 0, sizeof *p);
	p->config = *config;
	if (!ends_with(config->path, ".svg") && !ends_with(config->path, ".png"))
		return err_set(err, -1, "%s: must end in .svg or .png", config->path);
	if (system("command -v gnuplot >/dev/null") != 0)
		return err_set(err, -1, "gnuplot is not installed: package gnuplot-nox (Debian, "
			       "Ubuntu) or gnuplot-minimal (Fedora)");
	return 0;
}

/* Room for one more of `bytes` each; the array, or NULL after noting the failure. */
static void *grow(struct picture *p, void *array, unsigned count, unsigned *room, size_t bytes)
{
	if (count < *room)
		return array;
	unsigned wanted = *room > 0 ? 2 * *room : 16;
	void *grown = realloc(array, wanted * bytes);
	if (grown == NULL)
		p->failed = true;
	else
		*room = wanted;
	return grown;
}

void picture_panel(struct picture *p, const char *title)
{
	void *grown = realloc(p->panels, (p->panel_count + 1) * sizeof *p->panels);

	if (grown == NULL) {
		p->failed = true;
		return;
	}
	p->panels = grown;
	snprintf(p->panels[p->panel_count++], sizeof *p->panels, "%s", title);
}

void picture_series(struct picture *p, const char *name)
{
	void *grown;

	if (p->panel_count == 0)
		picture_panel(p, "");
	grown = grow(p, p->series, p->series_count, &p->series_room, sizeof *p->series);
	if (p->failed)
		return;
	p->series = grown;
	struct picture_series *s = &p->series[p->series_count++];
	*s = (struct picture_series){ .panel = p->panel_count - 1 };
	snprintf(s->name, sizeof s->name, "%s", name);
}

void picture_point(struct picture *p, double x, double y)
{
	const struct picture_config *c = &p->config;

	if (p->failed || !isfinite(x) || !isfinite(y) || (c->log_x && x <= 0) || (c->log_y && y <= 0))
		return;
	struct picture_series *s = &p->series[p->series_count - 1];
	void *grown = grow(p, s->points, s->count, &s->room, sizeof *s->points);
	if (p->failed)
		return;
	s->points = grown;
	s->points[s->count++] = (struct picture_point){ x, y };
}

/* --------------------------------------------------------------------- drawing */

/* In quotes for gnuplot, without what it would take as markup. */
static void put_text(FILE *file, const char *text)
{
	fputc('"', file);
	for (; *text != '\0'; text++) {
		if (strchr("\"\\`\n", *text) == NULL)
			fputc(*text, file);
	}
	fputc('"', file);
}

/* Series of one name have one colour: the number of the first of them, among names. */
static unsigned colour_of(const struct picture *p, unsigned at)
{
	unsigned names = 0;

	for (unsigned i = 0; i < p->series_count; i++) {
		bool first = true;
		if (strcmp(p->series[i].name, p->series[at].name) == 0)
			return names;
		for (unsigned k = 0; k < i && first; k++)
			first = strcmp(p->series[i].name, p->series[k].name) != 0;
		names += first;
	}
	return names;
}

static double coordinate(const struct picture_point *point, bool y)
{
	return y ? point->y : point->x;
}

/* Of all panels, so that they can be compared: never empty, which gnuplot complains of. */
static struct range range_of(const struct picture *p, bool y)
{
	struct range r = { INFINITY, -INFINITY };
	bool log = y ? p->config.log_y : p->config.log_x;

	for (unsigned i = 0; i < p->series_count; i++) {
		for (unsigned k = 0; k < p->series[i].count; k++) {
			double v = coordinate(&p->series[i].points[k], y);
			r.least = fmin(r.least, v);
			r.most = fmax(r.most, v);
		}
	}
	if (r.least > r.most)
		return (struct range){ 1, 2 };
	if (!log)
		return (struct range){ fmin(r.least, 0), r.most > 0 ? 1.05 * r.most : 1 };
	if (!y && r.least < r.most)
		return r;
	return (struct range){ r.least / 1.4, r.most * 1.4 };
}

/* Where on the axis, from 0 to 1. */
static double fraction(double value, const struct range *r, bool log)
{
	return log ? (log10(value) - log10(r->least)) / (log10(r->most) - log10(r->least))
		   : (value - r->least) / (r->most - r->least);
}

struct name {
	unsigned series;
	double at; /* height in the panel, from 0 to 1 */
};

static int compare_names(const void *a, const void *b)
{
	const struct name *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

/* Apart from each other, each as near to its line's end as that allows. */
static void spread(struct name *names, unsigned count)
{
	double gap = count * NAME_GAP > 1 ? 1.0 / count : NAME_GAP;

	qsort(names, count, sizeof *names, compare_names);
	for (unsigned i = 1; i < count; i++)
		names[i].at = fmax(names[i].at, names[i - 1].at + gap);
	for (unsigned i = count; i-- > 0;)
		names[i].at = fmin(names[i].at, 1 - gap * (count - 1 - i));
}

/* Of a panel's series that have points; how many. */
static unsigned find_names(const struct picture *p, unsigned panel, const struct range *y,
			   struct name *names)
{
	unsigned count = 0;

	for (unsigned i = 0; i < p->series_count; i++) {
		const struct picture_series *s = &p->series[i];
		if (s->panel == panel && s->count > 0)
			names[count++] = (struct name){
				i, fraction(s->points[s->count - 1].y, y, p->config.log_y) };
	}
	spread(names, count);
	return count;
}

static void put_name(const struct picture *p, FILE *out, const struct name *name)
{
	const struct picture_series *s = &p->series[name->series];
	const struct picture_point *end = &s->points[s->count - 1];
	const char *colour = colours[colour_of(p, name->series) % COLOURS];

	fprintf(out, "set arrow from first %.9g,%.9g to graph 1.02,graph %.4f nohead lw 0.7 dt 3 "
		"lc rgb '%s'\n", end->x, end->y, name->at, colour);
	fputs("set label ", out);
	put_text(out, s->name);
	fprintf(out, " at graph 1.03,graph %.4f left textcolor rgb '%s'\n", name->at, colour);
}

static void put_line(const struct picture *p, FILE *out, unsigned at, bool first)
{
	const struct picture_series *s = &p->series[at];
	unsigned colour = colour_of(p, at);

	fprintf(out, "%s $d%u using 1:2 with %s dt %u lw 2 lc rgb '%s' notitle", first ? "plot" : ",",
		at, s->count > MARKED_MAX ? "lines" : "linespoints pt 7 ps 0.5",
		colour / (unsigned)COLOURS % 4 + 1, colours[colour % COLOURS]);
}

static void put_panel(const struct picture *p, FILE *out, unsigned panel, const struct range *y,
		      struct name *names)
{
	unsigned count = find_names(p, panel, y, names);

	if (count == 0)
		return;
	fputs("unset label\nunset arrow\nset title ", out);
	put_text(out, p->panels[panel]);
	fputc('\n', out);
	for (unsigned i = 0; i < count; i++)
		put_name(p, out, &names[i]);
	for (unsigned i = 0; i < count; i++)
		put_line(p, out, names[i].series, i == 0);
	fputc('\n', out);
}

static unsigned longest_name(const struct picture *p)
{
	size_t longest = 0;

	for (unsigned i = 0; i < p->series_count; i++) {
		size_t bytes = strlen(p->series[i].name);
		longest = bytes > longest ? bytes : longest;
	}
	return (unsigned)longest;
}

static void put_frame(const struct picture *p, FILE *out)
{
	const struct picture_config *c = &p->config;
	unsigned columns = p->panel_count < COLUMNS_MAX ? p->panel_count : COLUMNS_MAX;
	unsigned rows = (p->panel_count + columns - 1) / columns, name = longest_name(p);
	unsigned width = columns * (PANEL_WIDTH + CHARACTER_WIDTH * name);
	unsigned height = rows * PANEL_HEIGHT + 40;

	if (ends_with(c->path, ".svg"))
		fprintf(out, "set terminal svg size %u,%u enhanced font 'Helvetica,14' "
			"background '#ffffff'\n", width, height);
	else
		fprintf(out, "set terminal pngcairo size %u,%u enhanced font 'Helvetica,11'\n", width,
			height);
	fputs("set termoption noenhanced\nset output ", out);
	put_text(out, c->path);
	fprintf(out, "\nset multiplot layout %u,%u title ", rows, columns);
	put_text(out, c->title);
	fputs("\nset xlabel ", out);
	put_text(out, c->x_label);
	fputs("\nset ylabel ", out);
	put_text(out, c->y_label);
	fprintf(out, "\nset grid lc rgb '#cccccc' lw 0.6\nset border 3\nset tics nomirror out\n"
		"set format y '%%.10g'\nset rmargin %u\n%s%s", name + 4,
		c->log_x ? "set logscale x\n" : "", c->log_y ? "set logscale y\n" : "");
}

static void put_data(const struct picture *p, FILE *out)
{
	for (unsigned i = 0; i < p->series_count; i++) {
		const struct picture_series *s = &p->series[i];
		if (s->count == 0)
			continue;
		fprintf(out, "$d%u << EOD\n", i);
		for (unsigned k = 0; k < s->count; k++)
			fprintf(out, "%.9g %.9g\n", s->points[k].x, s->points[k].y);
		fputs("EOD\n", out);
	}
}

static int draw(const struct picture *p, struct name *names, struct err *err)
{
	struct range x = range_of(p, false), y = range_of(p, true);
	FILE *out = popen("gnuplot", "we");

	if (out == NULL)
		return err_set(err, -1, "gnuplot can't be started");
	put_data(p, out);
	put_frame(p, out);
	fprintf(out, "set xrange [%.9g:%.9g]\nset yrange [%.9g:%.9g]\n%s\n", x.least, x.most, y.least,
		y.most, p->config.settings != NULL ? p->config.settings : "");
	for (unsigned i = 0; i < p->panel_count; i++)
		put_panel(p, out, i, &y, names);
	fputs("unset multiplot\n", out);
	int rc = pclose(out);
	return rc == 0 ? 0 : err_set(err, -1, "gnuplot failed (status %d)", rc);
}

int picture_end(struct picture *p, struct err *err)
{
	struct name *names = calloc(p->series_count + 1, sizeof *names);
	int rc = p->failed || names == NULL ? err_set(err, -1, "out of memory") : draw(p, names, err);

	for (unsigned i = 0; i < p->series_count; i++)
		free(p->series[i].points);
	free(p->series);
	free(p->panels);
	free(names);
	memset(p, 0, sizeof *p);
	return rc;
}

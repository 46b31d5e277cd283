/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/report/picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of different lightness too. */
static const char *const colours[] = { "#000000", "#0060a8", "#c04800", "#5a9fd4", "#7a7a7a",
				       "#8a2be2" };

#define COLOURS (sizeof colours / sizeof *colours)
#define DASHES 5

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

static bool ends_with(const char *text, const char *end)
{
	size_t bytes = strlen(text), end_bytes = strlen(end);

	return bytes > end_bytes && strcmp(text + bytes - end_bytes, end) == 0;
}

int picture_begin(struct picture *p, const struct picture_config *config, struct err *err)
{
	const char *terminal;

	memset(p, 0, sizeof *p);
	p->every = config->every;
	if (ends_with(config->path, ".svg"))
		terminal = "svg size 900,600 enhanced font 'Helvetica,17' background '#ffffff'";
	else if (ends_with(config->path, ".png"))
		terminal = "pngcairo size 1200,800 enhanced font 'Helvetica,16'";
	else
		return err_set(err, -1, "%s: must end in .svg or .png", config->path);
	if (system("command -v gnuplot >/dev/null") != 0)
		return err_set(err, -1, "gnuplot is not installed: package gnuplot-nox (Debian, "
			       "Ubuntu) or gnuplot-minimal (Fedora)");
	p->script = popen("gnuplot", "we");
	if (p->script == NULL)
		return err_set(err, -1, "gnuplot can't be started");
	fprintf(p->script, "set terminal %s\nset termoption noenhanced\nset output ", terminal);
	put_text(p->script, config->path);
	fputs("\nset title ", p->script);
	put_text(p->script, config->title);
	fputs("\nset ylabel ", p->script);
	put_text(p->script, config->y_label);
	fputs("\nset xlabel ", p->script);
	put_text(p->script, config->x_label);
	fputs(" offset 0,0.4\nset grid lc rgb '#bbbbbb' lw 0.7\nset border 3\n"
	      "set tics nomirror out\nset format y '%.10g'\nset rmargin 6\n"
	      "set key outside below Left reverse samplen 3 width -1 maxrows 6 font ',14'\n",
	      p->script);
	if (config->settings != NULL)
		fprintf(p->script, "%s\n", config->settings);
	return 0;
}

static void end_series(struct picture *p)
{
	if (p->open)
		fputs("EOD\n", p->script);
	p->open = false;
}

void picture_series(struct picture *p, const char *title)
{
	end_series(p);
	if (p->series == PICTURE_SERIES_MAX)
		return;
	snprintf(p->titles[p->series], sizeof p->titles[0], "%s", title);
	fprintf(p->script, "$d%d << EOD\n", p->series++);
	p->open = true;
}

void picture_point(struct picture *p, double x, double y)
{
	if (p->open && isfinite(x) && isfinite(y))
		fprintf(p->script, "%.9g %.9g\n", x, y);
}

int picture_end(struct picture *p, struct err *err)
{
	int rc;

	end_series(p);
	for (int i = 0; i < p->series; i++) {
		fprintf(p->script, "%s $d%d using 1:2 with linespoints dt %d pt %d pi %d ps 1.1 "
				   "lw 2 lc rgb '%s' title ", i == 0 ? "plot" : ",", i,
			i % DASHES + 1, i % 13 + 4, p->every > 1 ? -p->every : 1,
			colours[i % (int)COLOURS]);
		put_text(p->script, p->titles[i]);
	}
	fputc('\n', p->script);
	rc = pclose(p->script);
	return rc == 0 ? 0 : err_set(err, -1, "gnuplot failed (status %d)", rc);
}

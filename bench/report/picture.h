/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * picture.h -- lines in one panel or several side by side, drawn by gnuplot.
 *
 * A series of one name has one colour in all panels, and its name stands beside its line.
 * Points are kept until the end, as the axes and the places of the names depend on all of
 * them.
 */
#ifndef BENCH_REPORT_PICTURE_H
#define BENCH_REPORT_PICTURE_H

#include <stdbool.h>

#include "common/err.h"

#define PICTURE_NAME_BYTES 128

struct picture_point {
	double x, y;
};

struct picture_series {
	char name[PICTURE_NAME_BYTES];
	unsigned panel;
	struct picture_point *points;
	unsigned count, room;
};

struct picture_config {
	const char *path; /* *.svg or *.png; it lives as long as the picture */
	const char *title, *x_label, *y_label; /* labels with their units */
	bool log_x, log_y;    /* else the axis begins at 0 */
	const char *settings; /* more of gnuplot's, a line each; or NULL */
};

struct picture {
	struct picture_config config;
	struct picture_series *series;
	unsigned series_count, series_room;
	char (*panels)[PICTURE_NAME_BYTES]; /* titles */
	unsigned panel_count;
	bool failed; /* no memory */
};

/* 0, or -1 with err: no gnuplot, or a path that ends otherwise.  Then nothing is to be ended. */
int picture_begin(struct picture *p, const struct picture_config *config, struct err *err);
/* Of the series that follow; without one they are in one panel without a title. */
void picture_panel(struct picture *p, const char *title);
void picture_series(struct picture *p, const char *name); /* one without points is not drawn */
void picture_point(struct picture *p, double x, double y);
/* Draws and frees; 0, or -1 with err. */
int picture_end(struct picture *p, struct err *err);

#endif

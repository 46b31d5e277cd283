/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * picture.h -- a picture with lines and points, drawn by gnuplot.
 *
 * Lines differ in dashes and points, not in colour alone, so that they can be told apart
 * in grey.
 */
#ifndef BENCH_REPORT_PICTURE_H
#define BENCH_REPORT_PICTURE_H

#include <stdbool.h>
#include <stdio.h>

#include "common/err.h"

#define PICTURE_SERIES_MAX 24

struct picture {
	FILE *script; /* gnuplot's standard input */
	int series;
	int every;
	bool open; /* points of the last series may be added */
	char titles[PICTURE_SERIES_MAX][128];
};

struct picture_config {
	const char *path; /* *.svg or *.png */
	const char *title, *x_label, *y_label; /* labels with their units */
	int every;            /* a mark at every so many points; 0: at each */
	const char *settings; /* more of gnuplot's, a line each; or NULL */
};

/* 0, or -1 with err: no gnuplot, or a path that ends otherwise. */
int picture_begin(struct picture *p, const struct picture_config *config, struct err *err);
void picture_series(struct picture *p, const char *title); /* those beyond the most are left out */
void picture_point(struct picture *p, double x, double y);
/* Draws; 0, or -1 with err. */
int picture_end(struct picture *p, struct err *err);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* outfile.h -- a file that is written from the beginning to the end, or an error. */
#ifndef BENCH_FORMAT_OUTFILE_H
#define BENCH_FORMAT_OUTFILE_H

#include <stdio.h>

#include "common/err.h"

struct outfile {
	FILE *file;
	const char *path; /* must live as long */
};

/* 0 or -1 with err. */
int outfile_open(struct outfile *out, const char *path, struct err *err);

/* 0, or -1 with err if not all that was written is in the file. */
int outfile_close(struct outfile *out, struct err *err);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * progress.h -- a bar on standard error, if that is a terminal, and the line
 * that sums up at the end.
 */
#ifndef CLIENT_CLI_TEXT_PROGRESS_H
#define CLIENT_CLI_TEXT_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct cli_progress {
	const char *what;
	const char *unit; /* "file"; may be changed after the begin, as may `to` */
	FILE *to;         /* of the line at the end: standard output */
	uint64_t bytes_read; /* for the bar, where it is not `bytes` that have a total */
	bool bar;
	size_t count, count_total;
	uint64_t bytes, bytes_total;
	uint64_t begin_ns, drawn_ns;
};

void cli_progress_begin(struct cli_progress *progress, const char *what, size_t count_total,
			uint64_t bytes_total);
void cli_progress_add(struct cli_progress *progress, uint64_t bytes);
/* Of one value `bytes` are through.  bytes_total 0: nobody knows of how many; then it is the
 * time that is shown. */
void cli_progress_value(struct cli_progress *progress, uint64_t bytes);
/* Takes the bar away, so that something can be written; the next add draws it. */
void cli_progress_hide(struct cli_progress *progress);
/* With both totals 0 nobody knows how much there is.
 * "WHAT: 1,000 files, 1.5 MiB in 0.50 s (3.0 MiB/s, 2,000 files/s)" on standard
 * output, without a newline. */
void cli_progress_end(struct cli_progress *progress);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* stats.h -- figures, as memcached's STAT lines and for Prometheus.  Any thread. */
#ifndef FRONT_STATS_H
#define FRONT_STATS_H

#include "front/conn/impl.h"
#include "front/options.h"

/* Once, before there are threads; lives with the options. */
void stats_begin(const struct options *options);

/* What "stats" with these words is answered with; NULL: out of memory.  free() it.
 * kvd_json: kvd's own figures, or NULL. */
char *stats_text(const struct front *front, const char *words, size_t bytes,
		 const char *kvd_json);
/* For Prometheus; the same. */
char *stats_prometheus(const struct front *front);

#endif

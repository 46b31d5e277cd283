/* SPDX-License-Identifier: BSD-2-Clause */
/* prometheus.h -- figures of several namespaces as one text of Prometheus' format. */
#ifndef SERVER_METRICS_PROMETHEUS_H
#define SERVER_METRICS_PROMETHEUS_H

#include <stddef.h>

struct exposition_part {
	const char *name; /* of the namespace */
	char *text;
};

/*
 * `first` with the samples of the others behind its own of the same family, as the
 * format wants it, those with a label namespace="NAME".  Families stand in the same
 * order in all texts; one that `first` does not have is left out.  Allocated; NULL: no
 * memory.
 */
char *exposition_merge(const char *first, const struct exposition_part *parts, unsigned count,
		       size_t *bytes);

#endif

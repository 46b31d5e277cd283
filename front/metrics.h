/* SPDX-License-Identifier: BSD-2-Clause */
/* metrics.h -- GET /metrics, for Prometheus, answered by the main thread. */
#ifndef FRONT_METRICS_H
#define FRONT_METRICS_H

#include "common/err.h"
#include "front/conn/impl.h"

struct metrics;

/* Listens at "ADDR:PORT".  0, or -1 after setting err. */
int metrics_new(struct front *front, struct event_base *base, const char *address,
		struct metrics **metrics, struct err *err);
void metrics_delete(struct metrics **metrics);

#endif

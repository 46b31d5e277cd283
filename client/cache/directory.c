/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cache/directory.h"

#include <stddef.h>
#include <stdlib.h>

struct directory *directory_new(uint64_t instance, uint64_t entries)
{
	struct directory *d =
		calloc(1, offsetof(struct directory, offset) + entries * sizeof d->offset[0]);

	if (d) {
		d->instance = instance;
		d->entries = entries;
		atomic_init(&d->owners, 1);
	}
	return d;
}

struct directory *directory_share(struct directory *d)
{
	atomic_fetch_add_explicit(&d->owners, 1, memory_order_relaxed);
	return d;
}

void directory_leave(struct directory **directory)
{
	struct directory *d = *directory;

	*directory = NULL;
	/* acq_rel: whoever frees it does so behind everybody's last look. */
	if (d && atomic_fetch_sub_explicit(&d->owners, 1, memory_order_acq_rel) == 1)
		free(d);
}

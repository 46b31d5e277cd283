/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * namespace.h -- what --namespace says: tables beside the one without a name.
 *
 *	NAME:memory=SIZE[,users=FILE][,workers=N][,connections=N]
 *
 * Each is a table of its own in every respect: region, rkeys, protection domain, index,
 * locks, workers with their queues, users, folder on disk.  Nothing is shared but the
 * device, the listener and the main thread.  See doc/decisions.md.
 */
#ifndef SERVER_HOST_NAMESPACE_H
#define SERVER_HOST_NAMESPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/opt.h"
#include "common/auth/space.h"

#define NAMESPACES_MAX 16u

struct namespace_options {
	char name[SPACE_NAME_BYTES_MAX + 1];
	uint64_t memory_bytes;
	const char *users; /* NULL: none */
	int workers;
	int connections; /* 0: as many as kvd may have */
};

/*
 * Takes the texts apart; a later one of the same name replaces an earlier one.  Strings
 * of `list` must live as long as `options`, which has room for NAMESPACES_MAX.  0, or
 * -1 after setting err to what is wrong and how it is to be.
 */
int namespaces_parse(const struct opt_list *list, struct namespace_options *options,
		     unsigned *count, struct err *err);

#endif

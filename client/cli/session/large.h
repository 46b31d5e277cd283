/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * large.h -- one value, stored or read: a large one with a bar on standard error meanwhile, if
 * that is a terminal.
 *
 * How much kvd has taken of a value that is stored nobody knows here: then it is the time that
 * goes by.
 */
#ifndef CLIENT_CLI_SESSION_LARGE_H
#define CLIENT_CLI_SESSION_LARGE_H

#include "client/kvd.h"

/* As kvd_put_with(). */
int cli_large_put(kvd_session *session, const void *key, size_t key_bytes, const void *value,
		  size_t value_bytes, const struct kvd_change *change, uint64_t *version);
/* As kvd_get_alloc(). */
int cli_large_get(kvd_session *session, const void *key, size_t key_bytes, void **value,
		  size_t *value_bytes);

#endif

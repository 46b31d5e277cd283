/* SPDX-License-Identifier: BSD-2-Clause */
/* auth.h -- the names and passwords of option -Y: a line "NAME:PASSWORD" each.  Any thread. */
#ifndef FRONT_CONN_AUTH_H
#define FRONT_CONN_AUTH_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

#define AUTH_USERS_MAX 64u
#define AUTH_LINE_BYTES_MAX 256u

struct auth;

/* 0, or -1 after setting err: it can't be read, others may read it, or it has no such line. */
int auth_load(const char *path, struct auth **auth, struct err *err);
void auth_delete(struct auth **auth);

/* "NAME PASSWORD".  Takes as long whichever is wrong. */
bool auth_knows(const struct auth *auth, const char *text, size_t bytes);

#endif

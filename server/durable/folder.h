/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * folder.h -- whose folder it is that the data is in.
 *
 * A marker file says that it is kvd's, and the number of the newest log: a folder without
 * a file that belongs to it must not look like one that is empty.
 */
#ifndef SERVER_DURABLE_FOLDER_H
#define SERVER_DURABLE_FOLDER_H

#include <stdint.h>

#include "common/err.h"

/* 1: it is kvd's; 0: it is to be made; -1 after setting err.  *newest: the log that must
 * be there, if any. */
int folder_look(const char *dir, uint64_t *newest, struct err *err);

/* Marks it as being made, or as complete, with that log in it (0: there is none).  On
 * disk when this returns.  0, or -1 after setting err. */
int folder_begin(const char *dir, struct err *err);
int folder_complete(const char *dir, uint64_t newest, struct err *err);

/* Room on its disk; UINT64_MAX if that can't be told. */
uint64_t folder_free_bytes(const char *dir);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* backup.h -- copies of the database while it is used. */
#ifndef SERVER_DURABLE_BACKUP_H
#define SERVER_DURABLE_BACKUP_H

#include <stddef.h>

struct durable;

/*
 * A copy of the database at `path`, which must not exist, on the server.  The first
 * call begins it, others of the same path tell how it goes; *text is for people.
 */
enum durable_backup { BACKUP_RUNNING, BACKUP_DONE, BACKUP_FAILED };
enum durable_backup durable_backup(struct durable *durable, const char *path, char *text,
				   size_t text_bytes);

#endif

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

/*
 * Of a member of a cluster: which table it is that the folder has, in a file of its own, which no
 * backup has.  So a copy that was made earlier is not taken for the table that the cluster knows.
 */
struct folder_member {
	uint64_t incarnation;
	uint64_t stripes; /* of the table: notes name them */
	uint64_t cluster; /* what follows from its key */
};
/* 1; 0: it does not say, and is another table than any that the cluster knows; -1 after setting err. */
int folder_read_member(const char *dir, struct folder_member *member, struct err *err);
/* On disk when these return.  0, or -1 after setting err. */
int folder_write_member(const char *dir, const struct folder_member *member, struct err *err);
int folder_drop_member(const char *dir, struct err *err);

/* Room on its disk; UINT64_MAX if that can't be told. */
uint64_t folder_free_bytes(const char *dir);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * beside.h -- a new file beside another one, which it is to replace once it is whole.
 *
 * It is never one that is there already, and no link is followed: in a folder that others
 * may write to, they can't choose what is written over.  Any thread.
 */
#ifndef COMMON_BESIDE_H
#define COMMON_BESIDE_H

#include <stddef.h>
#include <sys/types.h>

#define BESIDE_BYTES 8u /* a name has at most so many more than its path, with the zero byte */

/*
 * Opens it for writing, with this mode less the umask.  `path` is from the folder `dir` (or
 * AT_FDCWD); the new one's is put into `name`.  A descriptor, or -1 with errno.
 */
int beside_create(int dir, const char *path, mode_t mode, char *name, size_t name_bytes);

#endif

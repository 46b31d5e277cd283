/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inside.h -- a file below a folder, written without leaving it: no symbolic link between
 * the folder and the file is followed, whoever made it and whenever.
 */
#ifndef CLIENT_CLI_FILE_INSIDE_H
#define CLIENT_CLI_FILE_INSIDE_H

#include <stddef.h>

/*
 * Writes `path`, which cli_files_stays_inside(), below the folder that is open as `root`.
 * Folders on the way are made.  The file is whole or as before, and keeps its mode.  0, or
 * an errno value: ELOOP: a link is in the way; EEXIST: what is there is no regular file.
 */
int cli_inside_save(int root, const char *path, const void *data, size_t bytes);

#endif

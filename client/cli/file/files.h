/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * files.h -- the regular files below a folder, or the keys that become such.
 */
#ifndef CLIENT_CLI_FILE_FILES_H
#define CLIENT_CLI_FILE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli_file {
	char *path; /* from the folder; a zero byte behind it */
	size_t path_bytes;
	uint64_t bytes;
};

struct cli_files {
	struct cli_file *file;
	size_t count, room;
	uint64_t bytes;
	size_t left_out; /* neither regular files nor folders */
};

/* Finds them, in the order of their names.  0, or an errno value, with what it
 * is about in `where`, cut to where_bytes. */
int cli_files_find(struct cli_files *files, const char *folder, char *where, size_t where_bytes);

/* False: no memory. */
bool cli_files_add(struct cli_files *files, const void *path, size_t path_bytes, uint64_t bytes);

/* Sorts them, and leaves one of equal paths. */
void cli_files_sort(struct cli_files *files);
void cli_files_free(struct cli_files *files);

/* True if folder/path stays in the folder: no "..", no empty part, no zero byte. */
bool cli_files_stays_inside(const char *path, size_t path_bytes);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dump_json.h -- a key with its value as a line of JSON:
 * {"key":"name","value":"Ada","ttl_ms":1000}.
 *
 * What is no UTF-8 stands in base64, as "key_base64" and "value_base64".  "ttl_ms" is
 * there only if the key has one.  A reader passes over other members, unless they are
 * objects or arrays.
 */
#ifndef CLIENT_CLI_FILE_DUMP_JSON_H
#define CLIENT_CLI_FILE_DUMP_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "client/cli/file/buffer.h"
#include "client/cli/file/dump_item.h"

/* Appends the line and its newline; false: no memory. */
bool dump_json_write(struct cli_buffer *buffer, const struct dump_item *item);

/*
 * Reads a line, which needs no newline.  The item's memory is in `text`, and good until the
 * next call with it.  False: `why` says what is wrong with the line, or that there is no
 * memory.
 */
bool dump_json_read(struct cli_buffer *text, const char *line, size_t line_bytes,
		    struct dump_item *item, char *why, size_t why_bytes);

#endif

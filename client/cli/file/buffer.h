/* SPDX-License-Identifier: BSD-2-Clause */
/* buffer.h -- memory that grows with what is put into it. */
#ifndef CLIENT_CLI_FILE_BUFFER_H
#define CLIENT_CLI_FILE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: empty, with no memory yet. */
struct cli_buffer {
	uint8_t *data;
	size_t used, room;
};

/* Makes room for so many bytes more behind `used`; `data` may move.  False: no memory,
 * and nothing has changed. */
bool cli_buffer_room(struct cli_buffer *buffer, size_t more);
void cli_buffer_free(struct cli_buffer *buffer);

#endif

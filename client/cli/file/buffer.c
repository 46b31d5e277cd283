/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/file/buffer.h"

#include <stdlib.h>

#define ROOM_MIN 4096

bool cli_buffer_room(struct cli_buffer *buffer, size_t more)
{
	size_t want = buffer->room ? buffer->room : ROOM_MIN;
	uint8_t *bigger;

	if (buffer->room - buffer->used >= more)
		return true;
	while (want - buffer->used < more)
		want *= 2;
	bigger = realloc(buffer->data, want);
	if (!bigger)
		return false;
	buffer->data = bigger;
	buffer->room = want;
	return true;
}

void cli_buffer_free(struct cli_buffer *buffer)
{
	free(buffer->data);
	*buffer = (struct cli_buffer){ 0 };
}

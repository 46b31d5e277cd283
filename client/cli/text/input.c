/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/text/input.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOM_MIN (64u << 10)

/* Makes room behind the end: moves what is left to the front, or grows. */
static int make_room(struct cli_input *input)
{
	size_t left = input->end - input->begin;
	size_t room = input->room ? 2 * input->room : ROOM_MIN;
	char *data;

	if (input->begin > 0) {
		memmove(input->data, input->data + input->begin, left);
		input->begin = 0;
		input->end = left;
	}
	if (input->end < input->room)
		return 0;
	if (left >= CLI_INPUT_LINE_MAX) {
		errno = EFBIG;
		return -1;
	}
	data = realloc(input->data, room);
	if (!data)
		return -1;
	input->data = data;
	input->room = room;
	return 0;
}

static bool would_wait(const struct cli_input *input)
{
	struct pollfd ready = { .fd = input->fd, .events = POLLIN };

	return poll(&ready, 1, 0) == 0;
}

static int read_more(struct cli_input *input, bool (*idle)(void *arg), void *arg)
{
	struct pollfd ready = { .fd = input->fd, .events = POLLIN };
	ssize_t got;

	if (make_room(input) < 0)
		return -1;
	if (would_wait(input) && !idle(arg)) {
		input->begin = input->end;
		input->ended = true;
		return 0;
	}
	do {
		got = read(input->fd, input->data + input->end, input->room - input->end);
		if (got < 0 && errno == EAGAIN) {
			poll(&ready, 1, -1); /* somebody made it non-blocking */
			errno = EINTR;
		}
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return -1;
	input->ended = got == 0;
	input->end += (size_t)got;
	return 0;
}

static int take_line(struct cli_input *input, size_t line_bytes, char **line, size_t *bytes)
{
	*line = input->data + input->begin;
	*bytes = line_bytes;
	input->begin += line_bytes + 1;
	if (input->begin > input->end)
		input->begin = input->end; /* the last one has no newline */
	input->searched = 0;
	return 1;
}

int cli_input_line(struct cli_input *input, bool (*idle)(void *arg), void *arg, char **line,
		   size_t *bytes)
{
	for (;;) {
		size_t left = input->end - input->begin;
		char *newline = NULL;
		if (left > input->searched)
			newline = memchr(input->data + input->begin + input->searched, '\n',
					 left - input->searched);
		if (newline)
			return take_line(input, (size_t)(newline - input->data) - input->begin, line,
					 bytes);
		input->searched = left;
		if (input->ended)
			return left > 0 ? take_line(input, left, line, bytes) : 0;
		if (read_more(input, idle, arg) < 0)
			return -1;
	}
}

void cli_input_free(struct cli_input *input)
{
	free(input->data);
	*input = (struct cli_input){ 0 };
}

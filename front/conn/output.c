/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/conn/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* An answer is a head, a value and the end of a line at the most. */
#define ANSWER_SEGMENTS 3u

bool output_is_empty(const struct output *out)
{
	return out->first == out->count;
}

bool output_has_room(struct output *out)
{
	if (!out->text) {
		out->text = malloc(OUT_TEXT_BYTES);
		out->text_bytes = 0;
	}
	return out->text && out->count + ANSWER_SEGMENTS <= OUT_SEGMENTS &&
	       out->text_bytes + OUTPUT_HEAD_BYTES_MAX + OUT_COPY_BYTES <= OUT_TEXT_BYTES;
}

void output_text(struct output *out, const void *text, size_t bytes)
{
	uint8_t *to = (uint8_t *)out->text + out->text_bytes;
	struct segment *last = out->count > out->first ? &out->segment[out->count - 1] : NULL;

	memcpy(to, text, bytes);
	out->text_bytes += bytes;
	if (last && last->at + last->bytes == to)
		last->bytes += bytes;
	else
		out->segment[out->count++] = (struct segment){ .at = to, .bytes = bytes };
}

void output_value(struct output *out, struct block *block, size_t bytes)
{
	if (bytes <= OUT_COPY_BYTES) {
		output_text(out, block->at, bytes);
		return;
	}
	out->segment[out->count++] =
		(struct segment){ .at = block->at, .bytes = bytes, .block = *block };
	*block = (struct block){ 0 };
}

static void give_back(struct segment *s, struct memory *memory)
{
	memory_give_back(memory, &s->block);
}

static void reset(struct output *out)
{
	free(out->text);
	out->text = NULL;
	out->text_bytes = 0;
	out->first = out->count = 0;
}

static void advance(struct output *out, size_t sent, struct memory *memory)
{
	while (out->first < out->count) {
		struct segment *s = &out->segment[out->first];
		if (sent < s->bytes) {
			s->at += sent;
			s->bytes -= sent;
			return;
		}
		sent -= s->bytes;
		give_back(s, memory);
		out->first++;
	}
	reset(out);
}

ssize_t output_send(struct output *out, int fd, struct memory *memory)
{
	struct iovec iov[OUT_SEGMENTS];
	struct msghdr message = { .msg_iov = iov };

	for (unsigned i = out->first; i < out->count; i++)
		iov[message.msg_iovlen++] = (struct iovec){ (void *)(uintptr_t)out->segment[i].at,
							    out->segment[i].bytes };
	ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent < 0)
		return errno == EAGAIN || errno == EINTR || errno == ENOBUFS ? 0 : -1;
	advance(out, (size_t)sent, memory);
	return sent;
}

void output_drop(struct output *out, struct memory *memory)
{
	for (unsigned i = out->first; i < out->count; i++)
		give_back(&out->segment[i], memory);
	reset(out);
}

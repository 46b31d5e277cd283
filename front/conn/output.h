/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * output.h -- what a connection's client has not taken yet: bounded; short texts together,
 * long values where they lie.  The loop's thread.
 */
#ifndef FRONT_CONN_OUTPUT_H
#define FRONT_CONN_OUTPUT_H

#include "front/conn/impl.h"

/* More than the longest head of an answer, or an error. */
#define OUTPUT_HEAD_BYTES_MAX 1024u

/* Whether one more answer fits; false also without memory. */
bool output_has_room(struct output *out);
/* At most OUTPUT_HEAD_BYTES_MAX since output_has_room(), and OUT_COPY_BYTES of a value. */
void output_text(struct output *out, const void *text, size_t bytes);
/* Takes the block, and leaves none. */
void output_value(struct output *out, struct block *block, size_t bytes);
bool output_is_empty(const struct output *out);
/* Sends; how many bytes went, 0: none for now, -1: nobody takes them any more. */
ssize_t output_send(struct output *out, int fd, struct memory *memory);
/* Forgets all. */
void output_drop(struct output *out, struct memory *memory);

#endif

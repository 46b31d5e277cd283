/* SPDX-License-Identifier: BSD-2-Clause */
/* answer.h -- a request that has ended, as the bytes that its client gets.  The loop's thread. */
#ifndef FRONT_CONN_ANSWER_H
#define FRONT_CONN_ANSWER_H

#include "front/conn/impl.h"

/* There is room for it: output_has_room(). */
void answer_write(struct request *r, struct output *out);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* submit.h -- one step of a request, as a call of libkvd.  The loop's thread. */
#ifndef FRONT_CONN_SUBMIT_H
#define FRONT_CONN_SUBMIT_H

#include "front/conn/impl.h"

/* ticket.send() of a request: KVD_OK, KVD_EBUSY or an error. */
int submit_step(kvd_session *session, struct ticket *ticket);

/* The seconds that an exptime leaves from now on: -1 for ever, 0 it is over. */
int64_t submit_seconds_left(int64_t exptime);
/* The Unix time in milliseconds that an exptime says, at most KVD_UNIX_MS_MAX; 0: none that is
 * still to come. */
uint64_t submit_unix_ms(int64_t exptime);

#endif

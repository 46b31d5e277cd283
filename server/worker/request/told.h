/* SPDX-License-Identifier: BSD-2-Clause */
/* told.h -- what became of a change, told to who sent it and lost the answer.  A worker's thread. */
#ifndef SERVER_WORKER_REQUEST_TOLD_H
#define SERVER_WORKER_REQUEST_TOLD_H

#include "server/worker/request/deferred.h"

struct request;

enum request_fate request_fate_of(struct request *request);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* place.h -- where a store without RDMA is: a Unix socket, or a host and a port. */
#ifndef BENCH_STORE_PLACE_H
#define BENCH_STORE_PLACE_H

#include "common/err.h"

#define PLACE_TEXT_BYTES 256

struct place {
	char host[PLACE_TEXT_BYTES]; /* or the socket's path */
	int port;                    /* 0: a socket */
	char text[PLACE_TEXT_BYTES + 8];
};

/* "/path", "host", "host:port"; "": this host.  0, or -1 with err. */
int place_parse(struct place *place, const char *text, int port_default, struct err *err);

#endif

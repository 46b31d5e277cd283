/* SPDX-License-Identifier: BSD-2-Clause */
/* addr.h -- "host:port" to socket addresses and back. */
#ifndef COMMON_ADDR_H
#define COMMON_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/err.h"

#define ADDR_PORT_DEFAULT 7480
#define ADDR_SERVER_DEFAULT "127.0.0.1:7480"
#define ADDR_TEXT_BYTES 96 /* a client puts "/NAMESPACE" behind it */

struct addr {
	union {
		struct sockaddr sa;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	};
	char text[ADDR_TEXT_BYTES]; /* numeric, with the port */
};

/* Which kvd a program means that is told none: $KVD_SERVER, else ADDR_SERVER_DEFAULT. */
const char *addr_server_default(void);

/*
 * "host", "host:port", "[v6]:port", "v6", and digits alone are a port of 127.0.0.1.  Looks
 * host names up, so may block.
 * 0, or after setting err -1: it is no address, or ADDR_UNKNOWN: no such host.
 */
#define ADDR_UNKNOWN (-2)
int addr_parse(struct addr *addr, const char *text, struct err *err);

/*
 * All addresses of a name, `max` at the most, each once; how many, or the errors above.
 * The order is getaddrinfo(3)'s, but IPv4 goes first: kvd's default is one, and RDMA
 * interfaces mostly have no other, so a caller that tries one after the other begins well.
 */
int addr_parse_all(struct addr *addrs, unsigned max, const char *text, struct err *err);

/* From any socket address of either family; sets text. */
void addr_from(struct addr *addr, const struct sockaddr *sa);

bool addr_is_loopback(const struct addr *addr);

/* Sets the port, in host order, and text. */
void addr_set_port(struct addr *addr, uint16_t port);

#endif

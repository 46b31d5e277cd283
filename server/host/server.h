/* SPDX-License-Identifier: BSD-2-Clause */
/* server.h -- a namespace is made, started and taken apart.  Main thread. */
#ifndef SERVER_HOST_SERVER_H
#define SERVER_HOST_SERVER_H

#include "common/err.h"

struct namespace_options;
struct options;
struct server;

/* These return 0, or -1 after setting err. */
/* Makes s the namespace `o` beside `first`, whose device is open, and nothing else is.
 * `options` are its own from then on. */
void server_name(struct server *s, const struct server *first, struct options *options,
		 const struct namespace_options *o);
int server_new(struct server *s, struct err *err);
int server_load(struct server *s, struct err *err);
int server_start(struct server *s, struct err *err);
/* Closes the database of one that did not get as far as to be served. */
void server_abandon(struct server *s);
void server_delete(struct server *s);

/* The gate: what the table's rkeys are now. */
void server_tell_rkeys(struct server *s);

#endif

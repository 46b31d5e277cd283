/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * event.h -- a session in an event loop: one descriptor for what the completion queue and
 * the connection have to tell, and for pauses that end; the same over reconnections.
 */
#ifndef CLIENT_SESSION_EVENT_H
#define CLIENT_SESSION_EVENT_H

struct engine;

/* The descriptor, made when it is first asked for; or KVD_E* with a sentence. */
int event_fd_of(struct engine *e);
/* To a new connection's descriptors.  0 or KVD_E*. */
int event_attach(struct engine *e);
void event_delete(struct engine *e);

#endif

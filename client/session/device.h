/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * device.h -- the devices of a client: one for each that an address of kvd leads to.
 *
 * A session is on one of them, and registers its memory there.  A device is made by the first
 * session that comes to it, shared by all, and kept without one, until it is found gone, another
 * one needs its place, or the client ends.  The user's buffers are registered with all.
 */
#ifndef CLIENT_SESSION_DEVICE_H
#define CLIENT_SESSION_DEVICE_H

#include <stdbool.h>

struct kvd_client;
struct kvd_session;

/* To the device that the session's id is on.  0 or KVD_E*, with the session's err set. */
int session_join_device(struct kvd_session *s);
/* Gives back what the session registered with its device; nothing is posted. */
void session_leave_device(struct kvd_session *s);
/* Whether the client has any; what is gone, with no session on it, is let go of.  Under its lock. */
bool client_has_device(struct kvd_client *client);
/* All of them, where there is no session any more. */
void client_leave_devices(struct kvd_client *client);

#endif

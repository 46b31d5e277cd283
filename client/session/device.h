/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * device.h -- the client's protection domain: made by its first session, shared by all, and
 * made again where the device was taken away and came back.
 */
#ifndef CLIENT_SESSION_DEVICE_H
#define CLIENT_SESSION_DEVICE_H

struct kvd_client;
struct kvd_session;

/* 0 or KVD_E*, with the session's err set. */
int session_share_pd(struct kvd_session *s);
/* Gives back what is registered with the device. */
void session_leave_device(struct kvd_session *s);
/* Under the client's lock, or as its last: a client's protection domain, if there is one. */
void session_free_pd(struct kvd_client *client);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * follow.h -- to the primary of a cluster.
 *
 * A member that does not serve says so; it, or any other one, is asked where the primary is,
 * until one serves, within the time of the call.
 */
#ifndef CLIENT_AGAIN_FOLLOW_H
#define CLIENT_AGAIN_FOLLOW_H

struct kvd_session;

/*
 * The session's connection is good, and its member serves no more: 0, and the connection is to
 * another one, or broken, to be made again; or KVD_E*, with the session's err set.
 */
int session_follow(struct kvd_session *s);

#endif

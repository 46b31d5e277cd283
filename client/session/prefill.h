/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * prefill.h -- the index, READ into the mirror ahead of the first GET: the directory, then
 * each segment, in READs as large as an operation's memory.  What changes meanwhile is a
 * hint gone stale, as any that the mirror has.
 */
#ifndef CLIENT_SESSION_PREFILL_H
#define CLIENT_SESSION_PREFILL_H

struct kvd_session;

/* 0 or KVD_E*. */
int prefill_mirror(struct kvd_session *s);

#endif

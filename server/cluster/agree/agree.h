/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * agree.h -- small records that several kvds agree on, kept by an engine elsewhere.
 *
 * A record has a path, bytes and a version, which each write raises; a write names the
 * version that it replaces.  The engines: ZooKeeper (zookeeper.h), a register in memory
 * (register.h).  doc/cluster.md says what it is for.
 *
 * All calls return at once.  Answers and events are delivered by agree_poll(), on its
 * caller's thread, when the descriptor is readable.  One thread owns a struct agree; the
 * engine's own threads only put answers in.
 */
#ifndef SERVER_CLUSTER_AGREE_AGREE_H
#define SERVER_CLUSTER_AGREE_AGREE_H

#include "server/cluster/agree/answer.h"

struct agree;

/*
 * Each: 0, and `done` will be called once, by agree_poll(); EAGAIN: too many calls are not
 * answered; EINVAL: path or bytes are too long, or the path has no slash in front; ENOMEM.
 */
int agree_read(struct agree *agree, const char *path, bool watch, agree_done *done, void *arg);
int agree_write(struct agree *agree, const char *path, const void *bytes, size_t length,
		int32_t version, agree_done *done, void *arg);
/* Ephemeral: it goes with this session. */
int agree_create(struct agree *agree, const char *path, const void *bytes, size_t length,
		 bool is_ephemeral, agree_done *done, void *arg);
/* Names below the path, AGREE_NAMES_MAX at the most: more of them is AGREE_UNKNOWN. */
int agree_list(struct agree *agree, const char *path, agree_done *done, void *arg);

/* Readable when agree_poll() has something to deliver. */
int agree_descriptor(const struct agree *agree);
/* Delivers what there is. */
void agree_poll(struct agree *agree);

/*
 * Ends the session.  What is not answered by then is dropped: `done` is not called.  It waits for
 * the engine's threads, a few seconds at the most.  Not from a callback.  Takes NULL.
 */
void agree_close(struct agree **agree);

#endif

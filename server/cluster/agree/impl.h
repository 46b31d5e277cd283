/* SPDX-License-Identifier: BSD-2-Clause */
/* impl.h -- what an engine has to be, and what all have. */
#ifndef SERVER_CLUSTER_AGREE_IMPL_H
#define SERVER_CLUSTER_AGREE_IMPL_H

#include <pthread.h>

#include "server/cluster/agree/answer.h"

#define AGREE_CHANGED_MAX 16u
#define AGREE_WHY_BYTES 256u

struct agree;

/* A call, from when it is made until it is delivered. */
struct agree_call {
	struct agree_call *next, **self; /* in `calls`; behind agree_answer(): in `answered` */
	struct agree *agree;
	const char *what; /* "reading" */
	char path[AGREE_PATH_BYTES];
	agree_done *done;
	void *arg;
	enum agree_status status;
	int32_t version;
	size_t length;
	unsigned count;
	const char *names[AGREE_NAMES_MAX];
	char why[AGREE_WHY_BYTES];
	uint8_t bytes[AGREE_BYTES_MAX]; /* the names' too, each with its 0 */
};

/* Called by the owner's thread; the call is answered on any, also before they return. */
struct agree_engine {
	void (*read)(struct agree_call *call, bool watch);
	void (*write)(struct agree_call *call, const void *bytes, size_t length, int32_t version);
	void (*create)(struct agree_call *call, const void *bytes, size_t length, bool is_ephemeral);
	void (*list)(struct agree_call *call);
	/* Calls nothing of this from then on; frees what is the engine's. */
	void (*close)(struct agree *agree);
};

struct agree {
	const struct agree_engine *engine;
	void *handle; /* the engine's */
	struct agree_events events;
	int fd;
	pthread_mutex_t lock; /* of what follows; nothing is taken inside */
	struct agree_call *calls;
	unsigned count;
	struct agree_call *answered, **answered_end;
	char changed[AGREE_CHANGED_MAX][AGREE_PATH_BYTES];
	unsigned changed_count;
	bool is_any_changed;
	enum agree_session session, told;
};

/* NULL: no memory, or no descriptor; errno says which. */
struct agree *agree_new(const struct agree_engine *engine, void *handle,
			const struct agree_events *events);

/* Any thread.  The call is the owner's from then on. */
void agree_answer(struct agree_call *call, enum agree_status status, const char *why);
/* Before agree_answer(); false: too long, too many. */
bool agree_call_bytes(struct agree_call *call, const void *bytes, size_t length);
bool agree_call_name(struct agree_call *call, const char *name);

/* Any thread. */
void agree_changed(struct agree *agree, const char *path);
void agree_session_is(struct agree *agree, enum agree_session session);

#endif

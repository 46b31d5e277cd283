/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that the user registers once.  The client's mutex orders its changes. */
#include <errno.h>
#include <stdlib.h>

#include "client/session/client.h"

struct kvd_buffer {
	struct kvd_client *client;
	struct ibv_mr *mr;
	uintptr_t begin;
};

static int check_buffer(struct kvd_client *c, uintptr_t begin, size_t bytes)
{
	if (!begin || !bytes || begin + bytes < begin)
		return err_set(&c->err, KVD_EINVAL, "a buffer needs an address and a length");
	if (!c->pd)
		return err_set(
			&c->err, KVD_EINVAL,
			"memory is registered with the device that the first session opens: make "
			"a session before the first buffer");
	switch (buffers_check(c->buffers, begin, bytes)) {
	case KVD_ETOOBIG:
		return err_set(&c->err, KVD_ETOOBIG,
			       "a client has at most %d buffers: register "
			       "fewer and larger ones",
			       KVD_BUFFERS_MAX);
	case KVD_EINVAL:
		return err_set(&c->err, KVD_EINVAL, "a part of this memory is in a buffer already");
	default:
		return 0;
	}
}

static int make(struct kvd_client *c, struct kvd_buffer *buffer, size_t bytes)
{
	int rc = check_buffer(c, buffer->begin, bytes);

	if (rc)
		return rc;
	buffer->mr = c->verbs->reg_mr(c->pd, (void *)buffer->begin, bytes,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!buffer->mr)
		return err_set_errno(
			&c->err, KVD_EDEVICE, errno,
			"can't register a buffer of %zu bytes: the locked-memory limit may be "
			"too low (see 'ulimit -l')",
			bytes);
	buffers_add(c->buffers, buffer->begin, bytes,
		    &(struct buffer_keys){ buffer->mr->lkey, buffer->mr->rkey });
	return KVD_OK;
}

int kvd_buffer_new(kvd_client *client, void *addr, size_t bytes, kvd_buffer **buffer)
{
	struct kvd_buffer *b = calloc(1, sizeof *b);

	*buffer = NULL;
	if (!b)
		return KVD_ENOMEM;
	*b = (struct kvd_buffer){ .client = client, .begin = (uintptr_t)addr };
	pthread_mutex_lock(&client->lock);
	int rc = make(client, b, bytes);
	pthread_mutex_unlock(&client->lock);
	if (rc) {
		free(b);
		return rc;
	}
	*buffer = b;
	return KVD_OK;
}

void kvd_buffer_delete(kvd_buffer **buffer)
{
	struct kvd_buffer *b = *buffer;

	if (!b)
		return;
	pthread_mutex_lock(&b->client->lock);
	buffers_remove(b->client->buffers, b->begin);
	pthread_mutex_unlock(&b->client->lock);
	b->client->verbs->dereg_mr(b->mr);
	free(b);
	*buffer = NULL;
}

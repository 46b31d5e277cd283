/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that is registered once, the user's or made here.  The client's mutex orders its changes. */
#include <errno.h>
#include <stdlib.h>

#include "client/session/client.h"
#include "client/session/device.h"

struct kvd_buffer {
	struct kvd_client *client;
	uintptr_t begin;
	size_t own_bytes; /* of memory that was made for it; 0: it is the user's */
};

static int check_device(struct kvd_client *c)
{
	if (client_has_device(c))
		return 0;
	return err_set(&c->err, KVD_EINVAL,
		       "memory is registered with the device that the first session opens: make "
		       "a session before the first buffer");
}

static int check_buffer(struct kvd_client *c, uintptr_t begin, size_t bytes)
{
	if (!begin || !bytes || begin + bytes < begin)
		return err_set(&c->err, KVD_EINVAL, "a buffer needs an address and a length");
	int rc = check_device(c);
	if (rc)
		return rc;
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
	rc = buffers_add(c->buffers, c->verbs, buffer->begin, bytes);
	if (rc)
		return err_set_errno(
			&c->err, KVD_EDEVICE, rc,
			"can't register a buffer of %zu bytes: the locked-memory limit may be "
			"too low (see 'ulimit -l')",
			bytes);
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

/* kvd may read it: on the software device that can map it then. */
static int make_memory(struct kvd_client *c, size_t bytes, void **addr)
{
	if (!bytes)
		return err_set(&c->err, KVD_EINVAL, "a buffer needs a length");
	int rc = check_device(c);
	if (rc)
		return rc;
	rc = c->verbs->mem_alloc(bytes, VERBS_MEM_READ, addr);
	return !rc ? KVD_OK : err_set_errno(&c->err, KVD_ENOMEM, rc, "can't get a buffer of %zu bytes", bytes);
}

int kvd_buffer_alloc(kvd_client *client, size_t bytes, void **addr, kvd_buffer **buffer)
{
	void *memory = NULL;

	*buffer = NULL;
	pthread_mutex_lock(&client->lock);
	int rc = make_memory(client, bytes, &memory);
	pthread_mutex_unlock(&client->lock);
	if (!rc)
		rc = kvd_buffer_new(client, memory, bytes, buffer);
	if (rc) {
		if (memory)
			client->verbs->mem_free(memory, bytes);
		return rc;
	}
	(*buffer)->own_bytes = bytes;
	*addr = memory;
	return KVD_OK;
}

void kvd_buffer_delete(kvd_buffer **buffer)
{
	struct kvd_buffer *b = *buffer;

	if (!b)
		return;
	pthread_mutex_lock(&b->client->lock);
	buffers_remove(b->client->buffers, b->client->verbs, b->begin);
	pthread_mutex_unlock(&b->client->lock);
	if (b->own_bytes)
		b->client->verbs->mem_free((void *)b->begin, b->own_bytes);
	free(b);
	*buffer = NULL;
}

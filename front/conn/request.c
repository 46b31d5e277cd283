/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/conn/request.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "front/protocol/base64.h"

#define FREE_MAX 256u

void conn_mark(struct conn *c)
{
	if (c->is_dirty || c->runs)
		return;
	c->is_dirty = true;
	c->next_dirty = c->loop->dirty;
	c->loop->dirty = c;
}

static struct request *take_free(struct loop *loop)
{
	struct request *r = loop->free_requests;

	if (!r)
		return malloc(sizeof *r);
	loop->free_requests = r->next;
	loop->free_count--;
	return r;
}

static bool changes(const struct command *c)
{
	switch (c->verb) {
	case VERB_GET:
	case VERB_GETS:
	case VERB_META_DEBUG:
		return false;
	case VERB_META_GET:
		return c->meta.has_ttl || c->meta.has_vivify || c->meta.has_recache;
	default:
		return true;
	}
}

struct request *request_new(struct conn *c, const struct command *command)
{
	struct request *r = take_free(c->loop);

	if (!r)
		return NULL;
	memset(&r->ticket, 0, sizeof r->ticket);
	memset(&r->next, 0, offsetof(struct request, key) - offsetof(struct request, next));
	r->key_hash = 0;
	r->command = *command;
	memset(&r->value, 0, sizeof *r - offsetof(struct request, value));
	r->conn = c;
	r->loop = c->loop;
	r->next_live = c->loop->live;
	r->prev_live = &c->loop->live;
	if (r->next_live)
		r->next_live->prev_live = &r->next_live;
	c->loop->live = r;
	r->is_change = changes(command);
	r->is_barrier = command->verb == VERB_FLUSH;
	*c->last = r;
	c->last = &r->next;
	c->request_count++;
	return r;
}

bool request_set_key(struct request *r, const char *key, size_t bytes)
{
	if (r->command.meta.base64) {
		bytes = base64_decode(key, bytes, r->key, sizeof r->key);
		if (!bytes)
			return false;
	} else {
		memcpy(r->key, key, bytes);
	}
	r->key_bytes = (uint8_t)bytes;
	r->key_hash = hash_bytes(r->key, bytes) | 1;
	return true;
}

static uint64_t long_bytes(const struct block *block)
{
	return block->bytes > MEMORY_SMALL_BYTES ? block->bytes : 0;
}

/* Whether the connection has as many long values on their way as it may have. */
static bool holds_much(const struct conn *c)
{
	uint64_t held = 0;

	for (const struct request *r = c->first; r; r = r->next)
		held += long_bytes(&r->value);
	for (unsigned i = c->out.first; i < c->out.count; i++)
		held += long_bytes(&c->out.segment[i].block);
	return held > HELD_BYTES_MAX;
}

bool request_must_wait(const struct request *r)
{
	for (const struct request *e = r->conn->first; e != r; e = e->next) {
		if (e->state == REQUEST_DONE)
			continue;
		if (r->is_barrier || e->is_barrier ||
		    (e->key_hash == r->key_hash && (e->is_change || r->is_change)))
			return true;
	}
	/* The first of them always goes on, so that they end. */
	return r->is_long && (r != r->conn->first || r->conn->out.count) && holds_much(r->conn);
}

void request_wait(struct request *r)
{
	r->state = REQUEST_WAITS;
	r->conn->wait_count++;
	conn_mark(r->conn);
}

static void request_free(struct request *r)
{
	struct loop *loop = r->loop;

	memory_give_back(&loop->memory, &r->value);
	free(r->error);
	*r->prev_live = r->next_live;
	if (r->next_live)
		r->next_live->prev_live = r->prev_live;
	if (loop->free_count == FREE_MAX) {
		free(r);
		return;
	}
	r->next = loop->free_requests;
	loop->free_requests = r;
	loop->free_count++;
}

void request_end(struct request *r, enum outcome outcome)
{
	r->outcome = outcome;
	r->state = REQUEST_DONE;
	if (r->conn)
		conn_mark(r->conn);
	else
		request_free(r);
}

void request_end_text(struct request *r, const char *text)
{
	r->text = text;
	request_end(r, OUTCOME_TEXT);
}

void request_end_error(struct request *r, const char *why)
{
	count(r->loop, COUNTER_kvd_errors);
	r->text = "kvd failed";
	r->error = strdup(why);
	if (r->error) {
		r->error[strcspn(r->error, "\r\n")] = '\0';
		r->text = r->error;
	}
	request_end(r, OUTCOME_ERROR);
}

void request_pop(struct conn *c)
{
	struct request *r = c->first;

	c->first = r->next;
	if (!c->first)
		c->last = &c->first;
	c->request_count--;
	request_free(r);
}

void requests_forget(struct conn *c)
{
	struct request *r = c->first;

	while (r) {
		struct request *next = r->next;
		r->conn = NULL;
		if (r->state != REQUEST_RUNS)
			request_free(r);
		r = next;
	}
	c->first = NULL;
	c->last = &c->first;
	c->request_count = c->wait_count = 0;
}

void requests_free_all(struct loop *loop)
{
	while (loop->live)
		request_free(loop->live);
	while (loop->free_requests) {
		struct request *r = loop->free_requests;
		loop->free_requests = r->next;
		free(r);
	}
	loop->free_count = 0;
}

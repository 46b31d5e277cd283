/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/session/window.h"

#include <stdlib.h>
#include <string.h>

#include "client/cli/session/session.h"

#define SLOTS 32                   /* the default depth of a session */
#define GET_ROOM_MIN (4u << 10)    /* of a GET's buffer at first */
#define GET_ROOM_MAX (1u << 20)
#define PUT_BYTES_MAX (64u << 20)  /* of values in flight */

struct slot {
	enum cli_op op;
	bool in_flight;
	char key[KVD_KEY_BYTES_MAX + 1]; /* one more, so that a long one is refused as such */
	size_t key_bytes;
	struct cli_value value; /* of a PUT */
	void *room;             /* of a GET; kept for the next one */
	size_t room_bytes;
	int result;
	size_t value_bytes;
	uint64_t version, ttl_ms;
	uint32_t flags;
	int signs;
	struct kvd_change change; /* of a PUT */
	char *error; /* may be NULL */
	void *tag;
};

struct cli_window {
	struct cli *cli;
	void (*answer)(void *arg, const struct cli_answer *answer);
	void *arg;
	struct slot slots[SLOTS];
	unsigned first, count; /* unanswered: the oldest, and how many */
	unsigned in_flight;
	size_t put_bytes;
	size_t get_room; /* what the values seen so far want */
};

struct cli_window *cli_window_new(struct cli *cli,
				  void (*answer)(void *arg, const struct cli_answer *answer),
				  void *arg)
{
	struct cli_window *w = calloc(1, sizeof *w);

	if (w) {
		w->cli = cli;
		w->answer = answer;
		w->arg = arg;
		w->get_room = GET_ROOM_MIN;
	}
	return w;
}

void cli_window_delete(struct cli_window **window)
{
	if (!*window)
		return;
	for (unsigned i = 0; i < SLOTS; i++)
		free((*window)->slots[i].room);
	free(*window);
	*window = NULL;
}

static struct slot *slot_at(struct cli_window *w, unsigned i)
{
	return &w->slots[(w->first + i) % SLOTS];
}

static void slot_done(struct cli_window *w, struct slot *slot, int result, const char *error)
{
	if (slot->in_flight)
		w->in_flight--;
	slot->in_flight = false;
	slot->result = result;
	if (result < 0 && error && *error)
		slot->error = strdup(error);
}

/* What can't be known any more, after the session failed with `result`. */
static int lost_result(const struct slot *slot, int result)
{
	return slot->op == CLI_OP_GET || result == KVD_EDEVICE ? result : KVD_EUNKNOWN;
}

static void fail_all(struct cli_window *w, int result)
{
	for (unsigned i = 0; i < w->count; i++) {
		struct slot *slot = slot_at(w, i);
		if (slot->in_flight)
			slot_done(w, slot, lost_result(slot, result),
				  kvd_session_error(w->cli->session));
	}
	cli_disconnect(w->cli);
}

/* Waits for one completion.  One at a time, so that the session's error is that
 * operation's. */
static void progress(struct cli_window *w)
{
	struct kvd_completion done;
	int count = kvd_poll(w->cli->session, &done, 1, -1);
	struct slot *slot;

	if (count != 1) {
		fail_all(w, count < 0 ? count : KVD_ETIMEDOUT);
		return;
	}
	slot = done.tag;
	slot->value_bytes = done.value_bytes;
	slot->version = done.version;
	slot->ttl_ms = done.ttl_ms;
	slot->flags = done.flags;
	slot->signs = done.signs;
	slot_done(w, slot, done.result, kvd_session_error(w->cli->session));
}

static void settle(struct cli_window *w)
{
	while (w->in_flight > 0)
		progress(w);
}

/* Alone, into memory of the length that is known. */
static int get_once(struct cli_window *w, struct slot *slot, kvd_session *session, void **room)
{
	struct kvd_completion done;
	int result;

	free(*room);
	*room = malloc(slot->value_bytes + 1);
	if (!*room)
		return KVD_ENOMEM;
	result = kvd_submit_get(session, slot->key, slot->key_bytes, *room, slot->value_bytes, slot);
	if (result < 0)
		return result;
	result = kvd_poll(session, &done, 1, -1);
	if (result != 1) {
		cli_disconnect(w->cli); /* before its memory goes */
		return result < 0 ? result : KVD_ETIMEDOUT;
	}
	slot->value_bytes = done.value_bytes;
	slot->version = done.version;
	slot->ttl_ms = done.ttl_ms;
	slot->flags = done.flags;
	slot->signs = done.signs;
	return done.result;
}

/* A GET whose value didn't fit, or that lost its connection: asked again, which is safe
 * and waits for a new connection.  Sets *long_value, which the caller frees. */
static void get_again(struct cli_window *w, struct slot *slot, void **long_value)
{
	const char *error;
	kvd_session *session;
	int result;

	if (slot->result == KVD_ESPACE && slot->value_bytes <= GET_ROOM_MAX &&
	    slot->value_bytes > w->get_room)
		w->get_room = slot->value_bytes;
	free(slot->error);
	slot->error = NULL;
	settle(w);
	session = cli_session(w->cli, &result, &error);
	if (session) {
		/* This waits for a new connection, and tells the length. */
		result = slot->result == KVD_ECONNECT
				 ? kvd_exists(session, slot->key, slot->key_bytes, &slot->value_bytes)
				 : KVD_OK;
		if (result == KVD_OK)
			while ((result = get_once(w, slot, session, long_value)) == KVD_ESPACE)
				; /* it has become longer */
	}
	if (session)
		error = w->cli->session ? kvd_session_error(session) : kvd_strerror(result);
	slot_done(w, slot, result, error);
}

static void slot_release(struct cli_window *w, struct slot *slot)
{
	w->put_bytes -= slot->value.bytes;
	cli_value_free(&slot->value);
	free(slot->error);
	slot->error = NULL;
	w->first = (w->first + 1) % SLOTS;
	w->count--;
}

static void answer_first(struct cli_window *w)
{
	struct slot *slot = slot_at(w, 0);
	struct cli_answer answer;
	void *long_value = NULL;

	while (slot->in_flight)
		progress(w);
	if (slot->op == CLI_OP_GET && (slot->result == KVD_ESPACE || slot->result == KVD_ECONNECT))
		get_again(w, slot, &long_value);
	answer = (struct cli_answer){
		.op = slot->op,
		.key = slot->key,
		.key_bytes = slot->key_bytes,
		.result = slot->result,
		.error = slot->error ? slot->error : kvd_strerror(slot->result),
		.value = slot->op == CLI_OP_PUT ? slot->value.data :
			 long_value		? long_value :
						  slot->room,
		.value_bytes = slot->op == CLI_OP_PUT ? slot->value.bytes : slot->value_bytes,
		.version = slot->version,
		.ttl_ms = slot->ttl_ms,
		.flags = slot->flags,
		.signs = slot->signs,
		.tag = slot->tag,
	};
	w->answer(w->arg, &answer);
	free(long_value);
	slot_release(w, slot);
}

void cli_window_drain(struct cli_window *w)
{
	while (w->count > 0)
		answer_first(w);
}

static bool conflicts(struct cli_window *w, enum cli_op op, const void *key, size_t key_bytes)
{
	for (unsigned i = 0; i < w->count; i++) {
		const struct slot *slot = slot_at(w, i);
		if ((op != CLI_OP_GET || slot->op != CLI_OP_GET) && slot->key_bytes == key_bytes &&
		    memcmp(slot->key, key, key_bytes) == 0)
			return true;
	}
	return false;
}

static struct slot *slot_take(struct cli_window *w, enum cli_op op, const void *key,
			      size_t key_bytes, void *tag)
{
	struct slot *slot;

	if (key_bytes > KVD_KEY_BYTES_MAX)
		key_bytes = KVD_KEY_BYTES_MAX + 1;
	while (w->count == SLOTS || (w->count > 0 && w->put_bytes > PUT_BYTES_MAX) ||
	       conflicts(w, op, key, key_bytes))
		answer_first(w);
	slot = slot_at(w, w->count++);
	slot->op = op;
	slot->in_flight = false;
	memcpy(slot->key, key, key_bytes);
	slot->key_bytes = key_bytes;
	slot->result = KVD_OK;
	slot->value_bytes = 0;
	slot->version = slot->ttl_ms = 0;
	slot->flags = 0;
	slot->signs = 0;
	slot->change = (struct kvd_change){ .size = sizeof slot->change };
	slot->tag = tag;
	return slot;
}

static int room_get(struct cli_window *w, struct slot *slot)
{
	void *room;

	if (slot->room_bytes >= w->get_room)
		return KVD_OK;
	room = realloc(slot->room, w->get_room);
	if (!room)
		return KVD_ENOMEM;
	slot->room = room;
	slot->room_bytes = w->get_room;
	return KVD_OK;
}

static int submit_once(struct cli_window *w, struct slot *slot, kvd_session *session)
{
	switch (slot->op) {
	case CLI_OP_GET:
		if (room_get(w, slot) < 0)
			return KVD_ENOMEM;
		return kvd_submit_get(session, slot->key, slot->key_bytes, slot->room,
				      slot->room_bytes, slot);
	case CLI_OP_PUT:
		return kvd_submit_put_with(session, slot->key, slot->key_bytes, slot->value.data,
					   slot->value.bytes, &slot->change, slot);
	default:
		return kvd_submit_del(session, slot->key, slot->key_bytes, slot);
	}
}

static void submit(struct cli_window *w, struct slot *slot)
{
	const char *error;
	kvd_session *session;
	int result;

	for (;;) {
		session = cli_session(w->cli, &result, &error);
		if (!session)
			break;
		result = submit_once(w, slot, session);
		if (result != KVD_EBUSY || w->in_flight == 0) {
			error = kvd_session_error(session);
			break;
		}
		progress(w);
	}
	if (result == KVD_OK && session) {
		slot->in_flight = true;
		w->in_flight++;
	} else {
		slot_done(w, slot, result, error);
	}
}

void cli_window_get(struct cli_window *w, const void *key, size_t key_bytes, void *tag)
{
	submit(w, slot_take(w, CLI_OP_GET, key, key_bytes, tag));
}

void cli_window_put(struct cli_window *w, const void *key, size_t key_bytes,
		    struct cli_value *value, void *tag)
{
	struct kvd_change always = { .size = sizeof always };

	cli_window_put_with(w, key, key_bytes, value, &always, tag);
}

void cli_window_put_with(struct cli_window *w, const void *key, size_t key_bytes,
			 struct cli_value *value, const struct kvd_change *change, void *tag)
{
	struct slot *slot = slot_take(w, CLI_OP_PUT, key, key_bytes, tag);

	slot->value = *value;
	slot->change = *change;
	w->put_bytes += value->bytes;
	*value = (struct cli_value){ 0 };
	submit(w, slot);
}

void cli_window_del(struct cli_window *w, const void *key, size_t key_bytes, void *tag)
{
	submit(w, slot_take(w, CLI_OP_DEL, key, key_bytes, tag));
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/conn/input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "front/conn/request.h"
#include "front/conn/special.h"
#include "front/protocol/parse.h"

/* Of an item, beside key and value: as memcached counts. */
#define ITEM_OVERHEAD_BYTES 59u
#define AUTH_BYTES_MAX 1024u

/* -------------------------------------------------------------------- read */

static void ended(struct conn *c)
{
	c->ended = true;
}

static bool read_some(struct conn *c, struct iovec *iov, int count, ssize_t *got)
{
	*got = count == 1 ? read(c->fd, iov->iov_base, iov->iov_len) : readv(c->fd, iov, count);
	if (*got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (*got <= 0) {
		ended(c);
		return false;
	}
	count_add(c->loop, COUNTER_bytes_read, (uint64_t)*got);
	c->heard_ns = c->loop->now_ns;
	return true;
}

/* The rest of a value into its block, and what is behind it. */
static bool read_value(struct conn *c)
{
	uint64_t want = c->want_bytes - c->got_bytes;
	struct iovec iov[] = { { c->value.at + c->got_bytes, want },
			       { c->loop->scratch, IN_BYTES } };
	ssize_t got;

	if (!read_some(c, iov, 2, &got))
		return false;
	uint64_t mine = (uint64_t)got < want ? (uint64_t)got : want;
	c->got_bytes += mine;
	c->in = c->loop->scratch;
	c->in_bytes = (uint64_t)got - mine;
	return true;
}

bool input_read(struct conn *c)
{
	ssize_t got;

	if (c->input == INPUT_VALUE && !c->in_bytes)
		return read_value(c);
	if (c->kept && c->in != c->kept) {
		memmove(c->kept, c->in, c->in_bytes);
		c->in = c->kept;
	}
	if (!c->kept)
		c->in = c->loop->scratch;
	struct iovec iov = { c->in + c->in_bytes, IN_BYTES - c->in_bytes };
	if (!iov.iov_len || !read_some(c, &iov, 1, &got))
		return false;
	c->in_bytes += (size_t)got;
	return true;
}

void input_keep(struct conn *c)
{
	if (!c->in_bytes) {
		free(c->kept);
		c->kept = c->in = NULL;
	} else if (!c->kept) {
		c->kept = malloc(IN_BYTES);
		if (!c->kept) {
			c->in_bytes = 0;
			c->closing = true; /* it can't be understood any more */
			return;
		}
		memcpy(c->kept, c->in, c->in_bytes);
		c->in = c->kept;
	}
}

void input_drop(struct conn *c)
{
	c->in_bytes = 0;
	input_keep(c);
	memory_give_back(&c->loop->memory, &c->value);
}

static void consume(struct conn *c, size_t bytes)
{
	c->in += bytes;
	c->in_bytes -= bytes;
}

/* ---------------------------------------------------------------- requests */

/* NULL: out of memory, and the connection ends. */
static struct request *add_request(struct conn *c, const struct command *command)
{
	struct request *r = request_new(c, command);

	if (!r)
		c->closing = true;
	return r;
}

static void add_line(struct conn *c, const char *text, bool ends_keys)
{
	static const struct command none = { .verb = VERB_NONE };
	struct request *r = add_request(c, &none);

	if (!r)
		return;
	r->ends_keys = ends_keys;
	request_end_text(r, text);
}

static void add_text(struct conn *c, const char *text)
{
	add_line(c, text, false);
}

/* Starts it, or has it wait for an earlier one. */
static void launch(struct request *r)
{
	if (request_must_wait(r))
		r->conn->wait_count++;
	else
		special_start(r);
}

static void add_keyed(struct conn *c, struct word key)
{
	struct request *r = add_request(c, &c->command);

	if (!r)
		return;
	if (request_set_key(r, key.at, key.bytes))
		launch(r);
	else
		request_end_text(r, command_bad_format);
}

/* ------------------------------------------------------------------- value */

/* NULL, or why it is not taken. */
static const char *begin_value(struct conn *c)
{
	struct command *k = &c->command;

	if (k->value_bytes + k->key.bytes + ITEM_OVERHEAD_BYTES + (k->flags ? 4 : 0) >
	    c->loop->front->item_bytes_max) {
		count(c->loop, COUNTER_store_too_large);
		return "SERVER_ERROR object too large for cache";
	}
	if (memory_take_for_sending(&c->loop->memory, k->value_bytes + 2, &c->value))
		return NULL;
	count(c->loop, COUNTER_store_no_memory);
	return "SERVER_ERROR out of memory storing object";
}

static void swallow(struct conn *c, uint64_t bytes)
{
	c->input = INPUT_SWALLOW;
	c->want_bytes = bytes;
	c->got_bytes = 0;
}

/* What can't be stored: of a "set" nothing old stays, either. */
static void refuse_value(struct conn *c, const char *why)
{
	bool unlinks = c->command.verb == VERB_SET ||
		       (c->command.verb == VERB_META_SET &&
			(!c->command.meta.mode || c->command.meta.mode == 'S'));

	if (!unlinks) {
		add_text(c, c->command.quiet && c->command.verb != VERB_META_SET ? NULL : why);
		return;
	}
	struct command del = c->command;
	del.verb = VERB_SET;
	del.quiet &= c->command.verb == VERB_SET;
	del.meta.has_cas = false;
	struct request *r = add_request(c, &del);
	if (!r)
		return;
	r->text = why;
	if (request_set_key(r, c->key, c->command.key.bytes))
		launch(r);
	else
		request_end_text(r, why);
}

static void expect_value(struct conn *c)
{
	const char *why = c->authorised ? begin_value(c) : NULL;

	if (!c->authorised && (c->command.value_bytes > AUTH_BYTES_MAX ||
			       !memory_take_for_sending(&c->loop->memory,
							c->command.value_bytes + 2, &c->value))) {
		add_text(c, "CLIENT_ERROR authentication failure");
		swallow(c, c->command.value_bytes + 2);
		return;
	}
	if (why) {
		swallow(c, c->command.value_bytes + 2);
		refuse_value(c, why);
		return;
	}
	c->input = INPUT_VALUE;
	c->got_bytes = 0;
	c->want_bytes = c->command.value_bytes + 2;
}

static void end_value(struct conn *c)
{
	bool right = !memcmp(c->value.at + c->command.value_bytes, "\r\n", 2);
	bool tells = !c->command.quiet || c->command.verb == VERB_META_SET;
	struct request *r;

	c->input = INPUT_LINE;
	if (!right) {
		memory_give_back(&c->loop->memory, &c->value);
		add_text(c, tells ? "CLIENT_ERROR bad data chunk" : NULL);
		return;
	}
	r = add_request(c, &c->command);
	if (!r)
		return;
	r->value = c->value;
	r->value_bytes = c->command.value_bytes;
	c->value = (struct block){ 0 };
	if (!c->authorised) {
		special_authorise(c, r);
		return;
	}
	count(c->loop, COUNTER_cmd_set);
	if (request_set_key(r, c->key, c->command.key.bytes))
		launch(r);
	else
		request_end_text(r, command_bad_format);
}

static bool take_value(struct conn *c)
{
	uint64_t want = c->want_bytes - c->got_bytes;
	size_t n = c->in_bytes < want ? c->in_bytes : want;

	if (n) {
		memcpy(c->value.at + c->got_bytes, c->in, n);
		consume(c, n);
		c->got_bytes += n;
	}
	if (c->got_bytes < c->want_bytes)
		return false;
	end_value(c);
	return true;
}

static bool take_swallowed(struct conn *c)
{
	uint64_t want = c->want_bytes - c->got_bytes;
	size_t n = c->in_bytes < want ? c->in_bytes : want;

	consume(c, n);
	c->got_bytes += n;
	if (c->got_bytes < c->want_bytes)
		return false;
	c->input = INPUT_LINE;
	return true;
}

/* -------------------------------------------------------------------- line */

/* The next of a line's keys.  False: more input is needed. */
static bool take_key(struct conn *c)
{
	const char *end = memchr(c->in, '\n', c->in_bytes);
	const char *at = c->in, *stop = end ? end : c->in + c->in_bytes;

	if (end && end > c->in && end[-1] == '\r')
		stop--;
	struct word key = word_next(&at, stop);
	if (!key.bytes && end) {
		consume(c, (size_t)(end + 1 - c->in));
		c->input = INPUT_LINE;
		add_line(c, "END", true);
		return true;
	}
	if (key.bytes > COMMAND_KEY_BYTES_MAX) {
		c->input = INPUT_SKIP;
		add_text(c, command_bad_format);
		return true;
	}
	if (!end && at == stop) { /* it may go on */
		consume(c, (size_t)(key.at - c->in));
		return false;
	}
	consume(c, (size_t)(at - c->in));
	count(c->loop, COUNTER_cmd_get);
	add_keyed(c, key);
	return true;
}

static bool take_skipped(struct conn *c)
{
	const char *end = memchr(c->in, '\n', c->in_bytes);

	consume(c, end ? (size_t)(end + 1 - c->in) : c->in_bytes);
	if (end)
		c->input = INPUT_LINE;
	return end;
}

/* Whether all keys of a line that is there are such: if not, none is looked for. */
static bool keys_are_short(const char *at, const char *end)
{
	struct word key;

	while ((key = word_next(&at, end)).bytes)
		if (key.bytes > COMMAND_KEY_BYTES_MAX)
			return false;
	return true;
}

static void begin_keys(struct conn *c, const char *line_end, size_t used)
{
	if (keys_are_short(c->command.rest, line_end)) {
		c->input = INPUT_KEYS;
		consume(c, (size_t)(c->command.rest - c->in));
		return;
	}
	consume(c, used);
	add_text(c, command_bad_format);
}

static void count_command(struct conn *c)
{
	enum verb verb = c->command.verb;

	if (verb >= VERB_META_GET && verb <= VERB_META_DEBUG)
		count(c->loop, COUNTER_cmd_meta);
	if (verb == VERB_META_GET)
		count(c->loop, COUNTER_cmd_get);
	else if (verb == VERB_TOUCH || verb == VERB_GAT || verb == VERB_GATS)
		count(c->loop, COUNTER_cmd_touch);
}

/* Of a client that has not said who they are. */
static void check_authorised(struct conn *c)
{
	if (!c->authorised && c->command.verb != VERB_SET && c->command.verb != VERB_QUIT) {
		c->command.quiet = false;
		command_fail(&c->command, "CLIENT_ERROR unauthenticated");
	}
}

static void execute_line(struct conn *c, const char *line_end, size_t used)
{
	struct command *k = &c->command;
	struct request *r;

	count_command(c);
	switch (k->verb) {
	case VERB_NONE:
		consume(c, used);
		add_text(c, k->error);
		if (k->has_value)
			swallow(c, k->value_bytes + 2);
		return;
	case VERB_QUIT:
		consume(c, used);
		c->closing = true;
		return;
	case VERB_GET:
	case VERB_GETS:
	case VERB_GAT:
	case VERB_GATS:
		begin_keys(c, line_end, used);
		return;
	default:
		break;
	}
	if (k->has_value) {
		memcpy(c->key, k->key.at, k->key.bytes);
		consume(c, used);
		expect_value(c);
	} else if (k->key.bytes) {
		add_keyed(c, k->key);
		consume(c, used);
	} else {
		r = add_request(c, k);
		if (r && !special_answer(r))
			launch(r);
		consume(c, used);
	}
}

/* A line without an end yet, of which there is a lot: keys, or what nobody can mean. */
static bool take_long_line(struct conn *c)
{
	if (c->in_bytes <= LINE_BYTES_MAX)
		return false;
	if (!command_is_unbound(c->in, c->in_bytes) || !c->authorised) {
		c->closing = true;
		return false;
	}
	if (c->in_bytes < IN_BYTES - 1)
		return false;
	const char *at = c->in, *end = c->in + c->in_bytes;
	struct word name = word_next(&at, end);
	c->command = (struct command){ .verb = word_is(name, "get") ? VERB_GET : VERB_GETS };
	c->input = INPUT_KEYS;
	consume(c, (size_t)(at - c->in));
	return true;
}

static bool take_line(struct conn *c)
{
	const char *end = memchr(c->in, '\n', c->in_bytes);

	if (!end)
		return take_long_line(c);
	size_t used = (size_t)(end + 1 - c->in);
	if (end > c->in && end[-1] == '\r')
		end--;
	parse_command(&c->command, c->in, (size_t)(end - c->in), &c->loop->front->rules);
	check_authorised(c);
	execute_line(c, end, used);
	return true;
}

/* Whether it may have one request more. */
static bool has_room(const struct conn *c)
{
	return c->request_count < REQUESTS_MAX && !c->closing && c->out.count < OUT_SEGMENTS / 2;
}

bool input_take(struct conn *c)
{
	bool took = false, more = true;

	while (more && has_room(c)) {
		if (!c->in_bytes && (c->input != INPUT_VALUE || c->got_bytes < c->want_bytes))
			break;
		switch (c->input) {
		case INPUT_LINE:
			more = take_line(c);
			break;
		case INPUT_KEYS:
			more = take_key(c);
			break;
		case INPUT_VALUE:
			more = take_value(c);
			break;
		case INPUT_SWALLOW:
			more = take_swallowed(c);
			break;
		case INPUT_SKIP:
			more = take_skipped(c);
			break;
		}
		took |= more;
	}
	return took;
}

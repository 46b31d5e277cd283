/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/protocol/meta.h"

#include <string.h>

#include "front/protocol/base64.h"

/* With the flag's letter. */
#define OPAQUE_BYTES_MAX 32u
/* Of a line, but of "me". */
#define META_WORDS_MAX 19u

static const char bad_flag[] = "CLIENT_ERROR invalid flag";
static const char duplicate[] = "CLIENT_ERROR duplicate flag";
static const char bad_token[] = "CLIENT_ERROR bad token in command line format";
static const char long_opaque[] = "CLIENT_ERROR opaque token too long";

/* Each flag that any of them has.  Those that a command has no use for it passes over. */
static const char known[] = "bcfhklqstuvCDFIJLMNOPRT";

/* A flag that has a token, which is behind its letter.  NULL, or what is wrong. */
static const char *take_token(struct command *c, char flag, struct word token)
{
	struct meta *m = &c->meta;

	switch (flag) {
	case 'C':
		m->has_cas = true;
		return word_u64(token, &c->cas) ? NULL : bad_token;
	case 'D':
		return word_u64(token, &c->delta) ? NULL : "CLIENT_ERROR invalid numeric delta value";
	case 'F':
		return word_u32(token, &c->flags) ? NULL : command_bad_format;
	case 'J':
		return word_u64(token, &m->initial) ? NULL
						    : "CLIENT_ERROR invalid numeric initial value";
	case 'M':
		if (token.bytes != 1)
			return "CLIENT_ERROR incorrect length for M token";
		m->mode = *token.at;
		return NULL;
	case 'N':
		m->has_vivify = true;
		return word_i64(token, &m->vivify) ? NULL : bad_token;
	case 'R':
		m->has_recache = true;
		return word_i64(token, &m->recache) ? NULL : bad_token;
	case 'T':
		m->has_ttl = true;
		return word_i64(token, &c->exptime) ? NULL : bad_token;
	}
	return NULL;
}

static const char *take_base64(struct command *c)
{
	uint8_t key[COMMAND_KEY_BYTES_MAX];

	c->meta.base64 = true;
	return base64_decode(c->key.at, c->key.bytes, key, sizeof key)
		       ? NULL
		       : "CLIENT_ERROR error decoding key";
}

static const char *take_opaque(struct meta *m, struct word token)
{
	if (token.bytes + 1 > OPAQUE_BYTES_MAX)
		return long_opaque;
	memcpy(m->opaque, token.at, token.bytes);
	m->opaque_bytes = (uint8_t)token.bytes;
	return NULL;
}

static const char *take_flag(struct command *c, struct word word)
{
	struct word token = { word.at + 1, word.bytes - 1 };
	struct meta *m = &c->meta;
	char flag = *word.at;

	if (!flag || !strchr(known, flag))
		return bad_flag;
	if (memchr(m->order, flag, m->count))
		return duplicate;
	m->order[m->count++] = flag;
	m->value |= flag == 'v';
	m->invalidates |= flag == 'I';
	c->quiet |= flag == 'q';
	if (flag == 'b')
		return take_base64(c);
	return flag == 'O' ? take_opaque(m, token) : take_token(c, flag, token);
}

/* How much what is wrong with a token counts beside what is wrong with others; of two that count
 * the same the last is told, as memcached does. */
static int weight(const char *error)
{
	return !error ? 0 : error == long_opaque ? 1 : error == command_bad_format ? 2 : 3;
}

/* The words from `first` on; NULL, or what is wrong. */
static const char *take_flags(struct command *c, const struct words *w, unsigned first)
{
	const char *wrong = NULL;

	for (unsigned i = first; i < w->count; i++) {
		const char *error = take_flag(c, w->word[i]);
		if (error == bad_flag || error == duplicate)
			return error;
		if (error && weight(error) >= weight(wrong))
			wrong = error;
	}
	return wrong;
}

/* An error is told, however quiet. */
static void fail(struct command *c, const char *error)
{
	c->quiet = false;
	command_fail(c, error);
}

/* What memcached says of the same in md and ma. */
static const char *in_short(const char *error)
{
	return error == long_opaque ? error : "CLIENT_ERROR invalid or duplicate flag";
}

static void read_get(struct command *c, const struct words *w)
{
	const char *error = take_flags(c, w, 2);

	if (error)
		fail(c, error);
}

static void read_short(struct command *c, const struct words *w)
{
	const char *error = take_flags(c, w, 2);

	if (error)
		fail(c, in_short(error));
	else if (c->verb == VERB_META_ARITHMETIC && c->meta.mode && !strchr("ID+-", c->meta.mode))
		fail(c, "CLIENT_ERROR invalid mode for ma M token");
	else if (c->meta.mode)
		c->meta.mode = strchr("D-", c->meta.mode) ? 'D' : 'I';
}

static void read_set(struct command *c, const struct words *w)
{
	const char *error = NULL;
	uint64_t bytes;

	if (w->count < 3 || !word_u64(w->word[2], &bytes) || bytes > COMMAND_VALUE_BYTES_MAX) {
		fail(c, command_bad_format);
		return;
	}
	c->value_bytes = bytes;
	c->has_value = true;
	error = take_flags(c, w, 3);
	if (error)
		fail(c, error);
	else if (c->meta.mode && !strchr("EAPRS", c->meta.mode))
		fail(c, "CLIENT_ERROR invalid mode for ms M token");
}

/* Others than "b" are passed over. */
static void read_debug(struct command *c, const struct words *w)
{
	c->meta.base64 = w->count > 2 && *w->word[2].at == 'b';
}

static void read_key(struct command *c, const struct words *w)
{
	c->key = w->word[1];
	if (c->key.bytes > COMMAND_KEY_BYTES_MAX)
		fail(c, command_bad_format);
	else if (w->count > META_WORDS_MAX && c->verb != VERB_META_DEBUG)
		fail(c, c->verb == VERB_META_GET ? "CLIENT_ERROR options flags are too long"
						 : "CLIENT_ERROR options flags too long");
}

void meta_parse(struct command *c, const struct words *w)
{
	static const struct {
		char letter;
		enum verb verb;
		void (*read)(struct command *c, const struct words *w);
	} forms[] = {
		{ 'g', VERB_META_GET, read_get },   { 's', VERB_META_SET, read_set },
		{ 'd', VERB_META_DELETE, read_short }, { 'a', VERB_META_ARITHMETIC, read_short },
		{ 'e', VERB_META_DEBUG, read_debug },  { 'n', VERB_META_NOOP, NULL },
	};

	for (unsigned i = 0; i < sizeof forms / sizeof *forms; i++) {
		if (forms[i].letter != w->word[0].at[1])
			continue;
		c->verb = forms[i].verb;
		c->delta = 1;
		if (c->verb == VERB_META_NOOP)
			return;
		if (w->count < 2)
			break;
		read_key(c, w);
		if (c->verb != VERB_NONE)
			forms[i].read(c, w);
		return;
	}
	command_fail(c, c->verb == VERB_META_DEBUG ? command_bad_format : "ERROR");
}

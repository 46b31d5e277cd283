/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/protocol/text.h"

/* How a command's words are read; how many there may be, with its name. */
struct form {
	const char *name;
	enum verb verb;
	unsigned words_min, words_max;
	void (*read)(struct command *command, const struct words *words);
};

static const char bad_exptime[] = "CLIENT_ERROR invalid exptime argument";

/* The last word may be "noreply"; then not even an error is answered. */
static void read_noreply(struct command *c, const struct words *w)
{
	c->quiet = word_is(w->word[w->count - 1], "noreply");
}

/* False: it is too long, and the command an error. */
static bool read_key(struct command *c, struct word key)
{
	c->key = key;
	if (key.bytes <= COMMAND_KEY_BYTES_MAX)
		return true;
	command_fail(c, command_bad_format);
	return false;
}

static bool read_value_bytes(struct command *c, struct word word)
{
	uint64_t bytes;

	if (!word_u64(word, &bytes) || bytes > COMMAND_VALUE_BYTES_MAX)
		return false;
	c->value_bytes = bytes;
	return true;
}

/* NAME KEY FLAGS EXPTIME BYTES [CAS] [noreply] */
static void read_storage(struct command *c, const struct words *w)
{
	read_noreply(c, w);
	if (!read_key(c, w->word[1]))
		return;
	if (word_u32(w->word[2], &c->flags) && word_i64(w->word[3], &c->exptime) &&
	    (c->verb != VERB_CAS || word_u64(w->word[5], &c->cas)) &&
	    read_value_bytes(c, w->word[4]))
		c->has_value = true;
	else
		command_fail(c, command_bad_format);
}

/* NAME KEY... */
static void read_keys(struct command *c, const struct words *w)
{
	c->rest = w->word[1].at;
}

/* NAME EXPTIME KEY... */
static void read_touching_keys(struct command *c, const struct words *w)
{
	c->rest = w->count > 2 ? w->word[2].at : c->rest;
	if (!word_i64(w->word[1], &c->exptime))
		command_fail(c, bad_exptime);
}

/* NAME KEY DELTA [noreply] */
static void read_delta(struct command *c, const struct words *w)
{
	read_noreply(c, w);
	if (read_key(c, w->word[1]) && !word_u64(w->word[2], &c->delta))
		command_fail(c, "CLIENT_ERROR invalid numeric delta argument");
}

/* delete KEY [0] [noreply] */
static void read_delete(struct command *c, const struct words *w)
{
	bool zero = w->count > 2 && word_is(w->word[2], "0");
	bool right = w->count == 2;

	if (w->count > 2) {
		read_noreply(c, w);
		right = w->count == 3 ? zero || c->quiet : zero && c->quiet;
	}
	if (!right) {
		command_fail(c, "CLIENT_ERROR bad command line format.  Usage: delete <key> "
				"[noreply]");
		return;
	}
	read_key(c, w->word[1]);
}

/* touch KEY EXPTIME [noreply] */
static void read_touch(struct command *c, const struct words *w)
{
	read_noreply(c, w);
	if (read_key(c, w->word[1]) && !word_i64(w->word[2], &c->exptime))
		command_fail(c, bad_exptime);
}

/* flush_all [DELAY] [noreply] */
static void read_flush(struct command *c, const struct words *w)
{
	read_noreply(c, w);
	if (w->count - c->quiet > 1 && !word_i64(w->word[1], &c->exptime))
		command_fail(c, bad_exptime);
}

/* verbosity LEVEL [noreply] */
static void read_verbosity(struct command *c, const struct words *w)
{
	read_noreply(c, w);
	if (!word_u64(w->word[1], &c->delta))
		command_fail(c, command_bad_format);
}

static void read_stats(struct command *c, const struct words *w)
{
	c->rest = w->count > 1 ? w->word[1].at : c->rest;
}

/* shutdown [graceful]: always in order. */
static void read_shutdown(struct command *c, const struct words *w)
{
	if (w->count > 2 || (w->count == 2 && !word_is(w->word[1], "graceful")))
		command_fail(c, "CLIENT_ERROR invalid shutdown mode");
}

static void read_nothing(struct command *c, const struct words *w)
{
	(void)c;
	(void)w;
}

static const struct form forms[] = {
	{ "get", VERB_GET, 2, WORDS_MAX, read_keys },
	{ "gets", VERB_GETS, 2, WORDS_MAX, read_keys },
	{ "set", VERB_SET, 5, 6, read_storage },
	{ "add", VERB_ADD, 5, 6, read_storage },
	{ "replace", VERB_REPLACE, 5, 6, read_storage },
	{ "append", VERB_APPEND, 5, 6, read_storage },
	{ "prepend", VERB_PREPEND, 5, 6, read_storage },
	{ "cas", VERB_CAS, 6, 7, read_storage },
	{ "incr", VERB_INCR, 3, 4, read_delta },
	{ "decr", VERB_DECR, 3, 4, read_delta },
	{ "delete", VERB_DELETE, 2, 4, read_delete },
	{ "touch", VERB_TOUCH, 3, 4, read_touch },
	{ "gat", VERB_GAT, 2, WORDS_MAX, read_touching_keys },
	{ "gats", VERB_GATS, 2, WORDS_MAX, read_touching_keys },
	{ "flush_all", VERB_FLUSH, 1, 3, read_flush },
	{ "stats", VERB_STATS, 1, WORDS_MAX, read_stats },
	{ "version", VERB_VERSION, 1, WORDS_MAX, read_nothing },
	{ "verbosity", VERB_VERBOSITY, 2, 3, read_verbosity },
	{ "quit", VERB_QUIT, 1, WORDS_MAX, read_nothing },
	{ "shutdown", VERB_SHUTDOWN, 1, WORDS_MAX, read_shutdown },
};

/* What is not allowed is told before what is wrong with it. */
static void check_rules(struct command *c, enum verb verb, const struct command_rules *rules)
{
	if (verb == VERB_SHUTDOWN && !rules->may_shut_down)
		command_fail(c, "ERROR: shutdown not enabled");
	if (verb == VERB_FLUSH && !rules->may_flush)
		command_fail(c, "CLIENT_ERROR flush_all not allowed");
}

void text_parse(struct command *c, const struct words *w, const char *end,
		const struct command_rules *rules)
{
	for (unsigned i = 0; i < sizeof forms / sizeof *forms; i++) {
		const struct form *f = &forms[i];
		if (!word_is(w->word[0], f->name))
			continue;
		if (w->count < f->words_min || w->count > f->words_max)
			break;
		c->verb = f->verb;
		c->rest = end;
		f->read(c, w);
		check_rules(c, f->verb, rules);
		return;
	}
	command_fail(c, "ERROR");
}

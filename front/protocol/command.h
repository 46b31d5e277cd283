/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * command.h -- a line of memcached's protocol, text or meta, as what it asks for.
 *
 * Parsing is a function of the line alone.  Any thread; nothing is allocated.
 */
#ifndef FRONT_PROTOCOL_COMMAND_H
#define FRONT_PROTOCOL_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "front/protocol/word.h"

#define COMMAND_KEY_BYTES_MAX 250u
/* A value's length as it may stand in a line: the number and the line's end behind the value
 * fit 31 bits. */
#define COMMAND_VALUE_BYTES_MAX 2147483645u

enum verb {
	VERB_NONE, /* answered with the error */
	VERB_GET,
	VERB_GETS,
	VERB_GAT,
	VERB_GATS,
	VERB_SET,
	VERB_ADD,
	VERB_REPLACE,
	VERB_APPEND,
	VERB_PREPEND,
	VERB_CAS,
	VERB_INCR,
	VERB_DECR,
	VERB_DELETE,
	VERB_TOUCH,
	VERB_FLUSH,
	VERB_STATS,
	VERB_VERSION,
	VERB_VERBOSITY,
	VERB_SHUTDOWN,
	VERB_QUIT,
	VERB_META_GET,
	VERB_META_SET,
	VERB_META_DELETE,
	VERB_META_ARITHMETIC,
	VERB_META_DEBUG,
	VERB_META_NOOP,
	VERBS
};

/* What a meta command asks for beside its verb. */
struct meta {
	char order[WORDS_MAX]; /* the flags, in their order */
	uint8_t count;
	uint8_t opaque_bytes;
	char opaque[32];
	bool value;       /* v */
	bool base64;      /* b, and the key was base64 */
	bool has_cas;     /* C: of it */
	bool has_ttl;     /* T: command.exptime */
	bool has_vivify;  /* N */
	bool has_recache; /* R */
	bool invalidates; /* I */
	char mode;        /* M, in capitals; 0: none */
	int64_t vivify;
	int64_t recache;
	uint64_t initial; /* J */
};

struct command {
	enum verb verb;
	struct word key;    /* in the line; base64 as it came */
	bool quiet;         /* noreply, or q */
	bool has_value;     /* value_bytes and the end of a line follow, also on an error */
	uint32_t flags;     /* the client's, to be kept */
	int64_t exptime;    /* as it came: seconds from now, since 1970, or negative */
	uint64_t value_bytes;
	uint64_t cas;
	uint64_t delta;
	struct meta meta;
	/* Of a verb with several keys: where they begin in the line.  Of stats: its words. */
	const char *rest;
	/* VERB_NONE: the answer without the line's end; NULL where nothing is answered. */
	const char *error;
};

/* What is the same for every line. */
struct command_rules {
	bool may_shut_down;
	bool may_flush;
};

/* Whether it names keys of which there may be more than a line's limit holds: "get " and
 * "gets ", behind at most 100 blanks. */
bool command_is_unbound(const char *line, size_t bytes);

/* Makes it an error. */
void command_fail(struct command *command, const char *error);

extern const char command_bad_format[];

#endif

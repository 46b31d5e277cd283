/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/conn/answer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "front/conn/output.h"
#include "front/conn/submit.h"
#include "front/protocol/base64.h"

#define LINE_END "\r\n"

/* A head that grows; it never reaches its end, but for errors, which are cut. */
struct head {
	char text[OUTPUT_HEAD_BYTES_MAX];
	size_t bytes;
};

/* The text stays as it is: it is longer than most answers. */
static void begin(struct head *h)
{
	h->bytes = 0;
}

static void add(struct head *h, const void *text, size_t bytes)
{
	size_t room = sizeof h->text - h->bytes - 2; /* for the line's end */

	if (bytes > room)
		bytes = room;
	memcpy(h->text + h->bytes, text, bytes);
	h->bytes += bytes;
}

static void add_text(struct head *h, const char *text)
{
	add(h, text, strlen(text));
}

static void add_number(struct head *h, uint64_t number)
{
	char digits[20];
	size_t at = sizeof digits;

	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	add(h, digits + at, sizeof digits - at);
}

static void write_line(struct head *h, struct output *out)
{
	memcpy(h->text + h->bytes, LINE_END, 2);
	output_text(out, h->text, h->bytes + 2);
}

static void write_value(struct request *r, struct head *h, struct output *out)
{
	write_line(h, out);
	if (r->value_bytes)
		output_value(out, &r->value, r->value_bytes);
	output_text(out, LINE_END, 2);
}

static void write_text(const char *text, struct output *out)
{
	struct head h;

	begin(&h);
	add_text(&h, text);
	write_line(&h, out);
}

/* -------------------------------------------------------------------- text */

static void write_item(struct request *r, struct output *out)
{
	struct head h;

	begin(&h);
	add_text(&h, "VALUE ");
	add(&h, r->key, r->key_bytes);
	add_text(&h, " ");
	add_number(&h, r->flags);
	add_text(&h, " ");
	add_number(&h, r->value_bytes);
	if (r->command.verb == VERB_GETS || r->command.verb == VERB_GATS) {
		add_text(&h, " ");
		add_number(&h, r->version);
	}
	write_value(r, &h, out);
}

static void write_number(const struct request *r, struct output *out)
{
	struct head h;

	begin(&h);
	add_number(&h, r->number);
	write_line(&h, out);
}

static const char *word_of(enum verb verb, enum outcome outcome)
{
	if (outcome == OUTCOME_OK)
		return verb == VERB_DELETE ? "DELETED" : verb == VERB_TOUCH ? "TOUCHED" : "STORED";
	return outcome == OUTCOME_EXISTS	? "EXISTS"
	       : outcome == OUTCOME_NOT_STORED	? "NOT_STORED"
						: "NOT_FOUND";
}

static void write_answer(struct request *r, struct output *out)
{
	switch (r->command.verb) {
	case VERB_GET:
	case VERB_GETS:
	case VERB_GAT:
	case VERB_GATS:
		if (r->outcome == OUTCOME_OK)
			write_item(r, out);
		return;
	case VERB_STATS:
		output_value(out, &r->value, r->value_bytes);
		return;
	case VERB_INCR:
	case VERB_DECR:
		if (r->outcome == OUTCOME_OK && !r->command.quiet) {
			write_number(r, out);
			return;
		}
		break;
	default:
		break;
	}
	if (!r->command.quiet)
		write_text(word_of(r->command.verb, r->outcome), out);
}

/* -------------------------------------------------------------------- meta */

static void add_key(struct head *h, const struct request *r)
{
	char text[4 * ((COMMAND_KEY_BYTES_MAX + 2) / 3)];

	if (r->command.meta.base64)
		add(h, text, base64_encode(r->key, r->key_bytes, text));
	else
		add(h, r->key, r->key_bytes);
}

static void add_ttl(struct head *h, const struct request *r, bool touched)
{
	int64_t left = touched ? submit_seconds_left(r->command.exptime)
		       : r->ttl_ms ? (int64_t)((r->ttl_ms + 500) / 1000) : -1;

	if (left < 0)
		add_text(h, "-1");
	else
		add_number(h, (uint64_t)left);
}

static bool is_reading(enum verb verb)
{
	return verb == VERB_META_GET || verb == VERB_META_ARITHMETIC;
}

/* A flag that asks for something, where it is the answer's business. */
static void add_flag(struct head *h, const struct request *r, char flag, bool touched)
{
	char blank_flag[] = { ' ', flag };
	bool item = r->outcome == OUTCOME_OK && is_reading(r->command.verb);
	bool get = item && r->command.verb == VERB_META_GET;

	if (!(strchr("kO", flag) || (flag == 'c' && r->outcome == OUTCOME_OK &&
				      r->command.verb != VERB_META_DELETE) ||
	      (flag == 't' && item) || (strchr("fshl", flag) && get)))
		return;
	add(h, blank_flag, 2);
	switch (flag) {
	case 'k':
		add_key(h, r);
		if (r->command.meta.base64)
			add_text(h, " b");
		break;
	case 'O':
		add(h, r->command.meta.opaque, r->command.meta.opaque_bytes);
		break;
	case 'c':
		add_number(h, r->version);
		break;
	case 'f':
		add_number(h, r->flags);
		break;
	case 's':
		add_number(h, r->value_bytes);
		break;
	case 't':
		add_ttl(h, r, touched);
		break;
	case 'h': /* nobody counts READs: as of an item that was just stored */
	case 'l':
		add_text(h, "0");
		break;
	}
}

static void add_flags(struct head *h, const struct request *r)
{
	const struct meta *m = &r->command.meta;
	bool touched = r->command.verb == VERB_META_ARITHMETIC && m->has_ttl;

	for (unsigned i = 0; i < m->count; i++) {
		touched |= m->order[i] == 'T';
		add_flag(h, r, m->order[i], touched);
	}
	if (r->command.verb != VERB_META_GET || r->outcome != OUTCOME_OK)
		return;
	if (!r->has_won && (r->signs & KVD_CLAIMED))
		add_text(h, " Z");
	if (r->signs & KVD_STALE)
		add_text(h, " X");
	if (r->has_won)
		add_text(h, " W");
}

static const char *code_of(enum verb verb, enum outcome outcome)
{
	switch (outcome) {
	case OUTCOME_OK:
		return "HD";
	case OUTCOME_NOT_STORED:
		return "NS";
	case OUTCOME_EXISTS:
		return "EX";
	default:
		return verb == VERB_META_GET || verb == VERB_META_DEBUG ? "EN" : "NF";
	}
}

static void write_meta_number(struct request *r, struct head *h, struct output *out)
{
	struct head number;

	begin(&number);
	add_number(&number, r->number);
	add_text(h, "VA ");
	add_number(h, number.bytes);
	add_flags(h, r);
	write_line(h, out);
	write_line(&number, out);
}

static void write_debug(const struct request *r, struct output *out)
{
	struct head h;
	char tail[160];

	begin(&h);
	add_text(&h, "ME ");
	add_key(&h, r);
	add_text(&h, " exp=");
	add_ttl(&h, r, false);
	snprintf(tail, sizeof tail, " la=0 cas=%" PRIu64 " fetch=no cls=1 size=%" PRIu64,
		 r->version, r->value_bytes + r->key_bytes);
	add_text(&h, tail);
	write_line(&h, out);
}

static bool is_silent(const struct request *r)
{
	if (!r->command.quiet)
		return false;
	return r->command.verb == VERB_META_GET ? r->outcome == OUTCOME_NOT_FOUND
						: r->outcome == OUTCOME_OK;
}

static void write_meta(struct request *r, struct output *out)
{
	struct head h;

	begin(&h);
	if (is_silent(r))
		return;
	if (r->outcome == OUTCOME_OK && r->command.verb == VERB_META_DEBUG) {
		write_debug(r, out);
	} else if (r->outcome == OUTCOME_OK && r->command.meta.value &&
		   r->command.verb == VERB_META_ARITHMETIC) {
		write_meta_number(r, &h, out);
	} else if (r->outcome == OUTCOME_OK && r->command.meta.value &&
		   r->command.verb == VERB_META_GET) {
		add_text(&h, "VA ");
		add_number(&h, r->value_bytes);
		add_flags(&h, r);
		write_value(r, &h, out);
	} else {
		add_text(&h, code_of(r->command.verb, r->outcome));
		if (r->command.verb != VERB_META_DEBUG)
			add_flags(&h, r);
		write_line(&h, out);
	}
}

void answer_write(struct request *r, struct output *out)
{
	struct head h;

	begin(&h);
	switch (r->outcome) {
	case OUTCOME_TEXT:
		if (r->text && (!r->command.quiet || r->command.verb >= VERB_META_GET))
			write_text(r->text, out);
		return;
	case OUTCOME_ERROR:
		if (r->command.quiet && r->command.verb < VERB_META_GET)
			return; /* who says noreply reads nothing */
		add_text(&h, "SERVER_ERROR ");
		add_text(&h, r->text);
		write_line(&h, out);
		return;
	default:
		break;
	}
	if (r->command.verb >= VERB_META_GET)
		write_meta(r, out);
	else
		write_answer(r, out);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/text/glob.h"

#include <stdint.h>

/* A byte that is no part of a character of UTF-8 is this and the byte. */
#define NO_CHARACTER 0x200000u

struct text {
	const uint8_t *at, *end;
};

static struct text text_of(const void *data, size_t bytes)
{
	const uint8_t *at = data;

	return (struct text){ at, at + bytes };
}

static unsigned follow(uint8_t first)
{
	return first >= 0xc2 && first < 0xe0 ? 1 : first >= 0xe0 && first < 0xf0 ? 2
	     : first >= 0xf0 && first < 0xf5 ? 3 : 0;
}

/* The character at the beginning, which is taken away; there is one. */
static uint32_t take(struct text *t)
{
	uint8_t first = *t->at++;
	unsigned more = follow(first);
	uint32_t c = first & (0x3fu >> more);

	if (first < 0x80)
		return first;
	if (more == 0 || (size_t)(t->end - t->at) < more)
		return NO_CHARACTER | first;
	for (unsigned i = 0; i < more; i++) {
		if ((t->at[i] & 0xc0) != 0x80)
			return NO_CHARACTER | first;
		c = c << 6 | (t->at[i] & 0x3f);
	}
	t->at += more;
	return c;
}

static bool at_end(const struct text *t)
{
	return t->at == t->end;
}

/* One of a set, behind its '['; what follows the ']' is left in `p`. */
static bool in_set(struct text *p, uint32_t c)
{
	bool not = !at_end(p) && *p->at == '!', found = false, first = true;

	if (not)
		p->at++;
	while (!at_end(p) && (first || *p->at != ']')) {
		first = false;
		if (*p->at == '\\' && p->end - p->at > 1)
			p->at++;
		uint32_t low = take(p), high = low;
		if (p->end - p->at > 1 && p->at[0] == '-' && p->at[1] != ']') {
			p->at++;
			if (*p->at == '\\' && p->end - p->at > 1)
				p->at++;
			high = take(p);
		}
		found |= low <= c && c <= high;
	}
	if (!at_end(p))
		p->at++;
	return found != not;
}

/* One character of the text by one element of the pattern, which is no star. */
static bool match_one(struct text *p, struct text *t)
{
	uint32_t c, want;

	if (at_end(p) || at_end(t))
		return false;
	c = take(t);
	want = take(p);
	if (want == '?')
		return true;
	if (want == '[')
		return in_set(p, c);
	if (want == '\\' && !at_end(p))
		want = take(p);
	return c == want;
}

/* Only the last star that was met need ever take more. */
bool cli_glob_match(const char *pattern, size_t pattern_bytes, const void *text,
		    size_t text_bytes)
{
	struct text p = text_of(pattern, pattern_bytes), t = text_of(text, text_bytes);
	struct text behind_star = { 0 }, from = { 0 };

	while (!at_end(&t) || !at_end(&p)) {
		if (!at_end(&p) && *p.at == '*') {
			p.at++;
			behind_star = p;
			from = t;
		} else if (!match_one(&p, &t)) {
			if (!behind_star.at || at_end(&from))
				return false;
			take(&from);
			t = from;
			p = behind_star;
		}
	}
	return true;
}

const char *cli_glob_check(const char *pattern, size_t pattern_bytes)
{
	for (size_t i = 0; i < pattern_bytes; i++) {
		if (pattern[i] == '\\') {
			if (++i == pattern_bytes)
				return "it ends in a \\ with nothing behind it";
			continue;
		}
		if (pattern[i] != '[')
			continue;
		size_t first = i + 1 + (i + 1 < pattern_bytes && pattern[i + 1] == '!');
		for (i = first; i < pattern_bytes && (i == first || pattern[i] != ']'); i++)
			i += pattern[i] == '\\';
		if (i >= pattern_bytes)
			return "it has a [ without its ]";
	}
	return NULL;
}

size_t cli_glob_prefix(const char *pattern, size_t pattern_bytes, char *prefix)
{
	size_t used = 0;

	for (size_t i = 0; i < pattern_bytes; i++) {
		char c = pattern[i];
		if (c == '*' || c == '?' || c == '[')
			break;
		if (c == '\\' && i + 1 < pattern_bytes)
			c = pattern[++i];
		prefix[used++] = c;
	}
	return used;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/metrics/prometheus.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/host/namespace.h"

static const char head[] = "# HELP ";

static const char *line_end(const char *at)
{
	const char *end = strchr(at, '\n');

	return end ? end + 1 : at + strlen(at);
}

/* Where the next family begins, behind the one that begins at `at`. */
static const char *next_family(const char *at)
{
	do
		at = line_end(at);
	while (*at && strncmp(at, head, sizeof head - 1));
	return at;
}

/* Both begin with the head of a family: it is the same one. */
static bool is_same(const char *a, const char *b)
{
	size_t bytes = sizeof head - 1 + strcspn(a + sizeof head - 1, " ");

	return strncmp(a, b, bytes + 1) == 0;
}

/* The samples of a family, each with the label. */
static void add_samples(FILE *f, const char *at, const char *end, const char *name)
{
	for (const char *next; at < end; at = next) {
		next = line_end(at);
		if (*at == '#')
			continue;
		size_t word = strcspn(at, "{ ");
		bool labels = at[word] == '{';
		fprintf(f, "%.*s{namespace=\"%s\"%s%.*s", (int)word, at, name, labels ? "," : "}",
			(int)(next - at - (long)word - labels), at + word + labels);
	}
}

char *exposition_merge(const char *first, const struct exposition_part *parts, unsigned count,
		       size_t *bytes)
{
	const char *at[NAMESPACES_MAX], *end;
	char *text = NULL;
	FILE *f = open_memstream(&text, bytes);

	if (!f)
		return NULL;
	for (unsigned i = 0; i < count; i++)
		at[i] = parts[i].text;
	for (; *first; first = end) {
		end = next_family(first);
		fwrite(first, 1, (size_t)(end - first), f);
		for (unsigned i = 0; i < count; i++) {
			if (!*at[i] || !is_same(first, at[i]))
				continue;
			const char *begin = at[i];
			at[i] = next_family(begin);
			add_samples(f, begin, at[i], parts[i].name);
		}
	}
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

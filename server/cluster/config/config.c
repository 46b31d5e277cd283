/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/config/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TITLE "kvd-shard 1"

size_t config_print(const struct config *c, char text[CONFIG_TEXT_BYTES])
{
	size_t n = (size_t)snprintf(text, CONFIG_TEXT_BYTES, TITLE "\nreign %" PRIu64 "\n", c->reign);

	for (unsigned i = 0; i < c->count; i++)
		n += (size_t)snprintf(text + n, CONFIG_TEXT_BYTES - n, "%s %s %016" PRIx64 "\n",
				      i ? "backup" : "primary", c->set[i].name, c->set[i].incarnation);
	if (c->copies)
		n += (size_t)snprintf(text + n, CONFIG_TEXT_BYTES - n, "copies %u\n", c->copies);
	if (*c->removed.name)
		n += (size_t)snprintf(text + n, CONFIG_TEXT_BYTES - n, "removed %s %016" PRIx64 "\n",
				      c->removed.name, c->removed.incarnation);
	return n + (size_t)snprintf(text + n, CONFIG_TEXT_BYTES - n,
				    "handed %s\nwriter %016" PRIx64 "\n",
				    c->is_handed ? "yes" : "no", c->writer);
}

bool config_is_name(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				"0123456789-_.:");

	return n > 0 && !name[n] && n < CONFIG_NAME_BYTES;
}

bool config_is_same(const struct config_member *a, const struct config_member *b)
{
	return a->incarnation == b->incarnation && !strcmp(a->name, b->name);
}

int config_find(const struct config *c, const struct config_member *m)
{
	for (unsigned i = 0; i < c->count; i++)
		if (config_is_same(&c->set[i], m))
			return (int)i;
	return -1;
}

/* The next line of the text, which it ends with a 0; NULL: there is none. */
static char *next_line(char **text)
{
	char *line = *text, *end = strchr(line, '\n');

	if (!end)
		return NULL;
	*end = 0;
	*text = end + 1;
	return line;
}

static const char *read_member(const char *line, struct config *c)
{
	struct config_member *m = &c->set[c->count];
	char role[8], extra;

	if (c->count == CONFIG_MEMBERS_MAX)
		return "it has more members than this kvd knows of";
	*m = (struct config_member){ 0 };
	if (sscanf(line, "%7s %63s %16" SCNx64 "%c", role, m->name, &m->incarnation, &extra) != 3 ||
	    !config_is_name(m->name) || !m->incarnation)
		return "a line of a member can't be understood";
	if (strcmp(role, c->count ? "backup" : "primary"))
		return "its first member is not the primary, or there are two";
	for (unsigned i = 0; i < c->count; i++)
		if (!strcmp(c->set[i].name, m->name))
			return "a member is named twice";
	c->count++;
	return NULL;
}

static const char *read_line(const char *line, struct config *c)
{
	char extra, handed[4];

	if (!strncmp(line, "primary ", 8) || !strncmp(line, "backup ", 7))
		return read_member(line, c);
	if (sscanf(line, "reign %" SCNu64 "%c", &c->reign, &extra) == 1)
		return NULL;
	if (sscanf(line, "writer %16" SCNx64 "%c", &c->writer, &extra) == 1)
		return NULL;
	if (sscanf(line, "copies %u%c", &c->copies, &extra) == 1)
		return c->copies && c->copies <= CONFIG_MEMBERS_MAX ? NULL : "copies can't be so many";
	if (sscanf(line, "removed %63s %16" SCNx64 "%c", c->removed.name, &c->removed.incarnation,
		   &extra) == 2)
		return config_is_name(c->removed.name) ? NULL : "who was removed can't be understood";
	if (sscanf(line, "handed %3s%c", handed, &extra) == 1) {
		c->is_handed = !strcmp(handed, "yes");
		return c->is_handed || !strcmp(handed, "no") ? NULL : "\"handed\" is yes or no";
	}
	return "a line can't be understood";
}

int config_parse(const void *bytes, size_t length, int32_t version, struct config *c,
		 const char **why)
{
	char text[CONFIG_TEXT_BYTES], *rest = text, *line;

	*why = "it is longer than a configuration, or no text";
	if (length >= sizeof text || memchr(bytes, 0, length) || version < 0)
		return -1;
	memcpy(text, bytes, length);
	text[length] = 0;
	*c = (struct config){ .epoch = (uint64_t)version + 1 };
	line = next_line(&rest);
	*why = "it is no configuration of a shard, or one of a later kvd's";
	if (!line || strcmp(line, TITLE))
		return -1;
	while ((line = next_line(&rest))) {
		*why = read_line(line, c);
		if (*why)
			return -1;
	}
	*why = "a line is missing, or its end";
	if (*rest || !c->count || !c->writer || !c->reign || c->reign > c->epoch)
		return -1;
	*why = NULL;
	return 0;
}

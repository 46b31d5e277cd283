/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/host/namespace.h"

#include <stdio.h>
#include <string.h>

#include "common/layout.h"
#include "server/table/table.h"

#define TEXT_BYTES_MAX 4096u

/* One text's, before it is known to be good. */
struct wanted {
	uint64_t memory_bytes;
	const char *users;
	int workers, connections;
};

/* "memory=64M" and the like, by the table that checks options. */
static int take_setting(struct wanted *w, char *setting, const char *text, struct err *err)
{
	const struct opt table[] = {
		{ "memory", 0, OPT_SIZE, &w->memory_bytes, TABLE_BYTES_MIN,
		  (int64_t)LAYOUT_TABLE_BYTES_MAX, NULL, "SIZE", "" },
		{ "users", 0, OPT_STRING, &w->users, 0, 0, NULL, "FILE", "" },
		{ "workers", 0, OPT_INT, &w->workers, 1, LAYOUT_WORKERS_MAX, NULL, "N", "" },
		{ "connections", 0, OPT_INT, &w->connections, 1, 100000, NULL, "N", "" },
		{ 0 },
	};
	char option[TEXT_BYTES_MAX + 2], error[400], program[] = "";

	snprintf(option, sizeof option, "--%s", setting);
	if (!strchr(setting, '='))
		return err_set(err, -1, "--namespace %.80s: '%.80s' is not of the form NAME=VALUE", text,
			       setting);
	if (opt_parse(table, 2, (char *[]){ program, option, NULL }, error, sizeof error) < 0)
		return err_set(err, -1, "--namespace %.80s: %s", text, error);
	return 0;
}

static int take_text(const char *text, struct namespace_options *o, struct err *err)
{
	struct wanted w = { .workers = 0 }; /* as many as there are devices */
	const char *colon = strchr(text, ':');
	char settings[TEXT_BYTES_MAX], *rest = settings, *setting;

	if (!colon || !space_name_is_good(text, (size_t)(colon - text)))
		return err_set(err, -1, "--namespace %.80s: it begins with a name of 1 to %u letters, "
			       "digits, '.', '_' and '-', and ':'", text, SPACE_NAME_BYTES_MAX);
	if (snprintf(settings, sizeof settings, "%s", colon + 1) >= (int)sizeof settings)
		return err_set(err, -1, "--namespace %.80s...: it is too long", text);
	while ((setting = strsep(&rest, ",")))
		if (take_setting(&w, setting, text, err))
			return -1;
	if (!w.memory_bytes)
		return err_set(err, -1, "--namespace %.80s: say how much memory it gets: memory=SIZE", text);
	*o = (struct namespace_options){ .memory_bytes = w.memory_bytes, .users = w.users,
					 .workers = w.workers, .connections = w.connections };
	memcpy(o->name, text, (size_t)(colon - text));
	return 0;
}

/* The place of a name: where it is, or a new one; NULL: there are too many. */
static struct namespace_options *place_of(struct namespace_options *options, unsigned *count,
					  const char *name)
{
	for (unsigned i = 0; i < *count; i++)
		if (!strcmp(options[i].name, name))
			return &options[i];
	return *count < NAMESPACES_MAX ? &options[(*count)++] : NULL;
}

int namespaces_parse(const struct opt_list *list, struct namespace_options *options,
		     unsigned *count, struct err *err)
{
	struct namespace_options one, *place;

	*count = 0;
	for (unsigned i = 0; i < list->count; i++) {
		if (take_text(list->text[i], &one, err))
			return -1;
		place = place_of(options, count, one.name);
		if (!place)
			return err_set(err, -1, "--namespace %s: there may be %u of them", one.name,
				       NAMESPACES_MAX);
		*place = one;
	}
	for (unsigned i = 0; i < *count; i++)
		for (unsigned k = 0; k < i; k++)
			if (space_number(options[i].name) == space_number(options[k].name))
				return err_set(err, -1, "--namespace: the names %s and %s have the same "
					       "number on the wire: choose another", options[i].name,
					       options[k].name);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/cluster/config/keeper.h"

static void on_read(void *arg, const struct agree_answer *a)
{
	struct keeper *k = arg;
	struct config c;
	const char *why = a->why;

	k->is_reading = false;
	if (a->status != AGREE_DONE || config_parse(a->bytes, a->length, a->version, &c, &why)) {
		k->is_stale = true;
		k->events.failed(k->events.arg, why);
		return;
	}
	k->events.config(k->events.arg, &c);
}

static void on_written(void *arg, const struct agree_answer *a)
{
	struct keeper *k = arg;
	struct config c = k->writing;
	bool is_done = a->status == AGREE_DONE;

	k->is_writing = false;
	if (!is_done)
		keeper_read(k);
	k->events.wrote(k->events.arg,
			is_done ? KEEPER_WRITTEN :
			a->status == AGREE_VERSION ? KEEPER_LOST : KEEPER_UNKNOWN,
			is_done ? &c : NULL);
	if (a->why && a->status != AGREE_VERSION)
		k->events.failed(k->events.arg, a->why);
}

static void on_changed(void *arg, const char *path)
{
	(void)path;
	keeper_read(arg);
}

static void on_session(void *arg, enum agree_session session)
{
	struct keeper *k = arg;

	k->events.reached(k->events.arg, session == AGREE_CONNECTED);
	if (session == AGREE_CONNECTED)
		keeper_read(k);
}

struct agree_events keeper_agree_events(struct keeper *k)
{
	return (struct agree_events){ on_changed, on_session, k };
}

/* One that is under way may have been answered before what is asked for now. */
void keeper_read(struct keeper *k)
{
	k->is_stale = k->is_reading || !k->agree || agree_read(k->agree, k->path, true, on_read, k);
	k->is_reading = k->is_reading || !k->is_stale;
}

bool keeper_write(struct keeper *k, const struct config *c)
{
	char text[CONFIG_TEXT_BYTES];
	size_t length = config_print(c, text);

	if (k->is_writing || !k->agree || c->epoch < 2)
		return false;
	k->writing = *c;
	k->is_writing = !agree_write(k->agree, k->path, text, length, (int32_t)(c->epoch - 2),
				     on_written, k);
	return k->is_writing;
}

void keeper_tick(struct keeper *k)
{
	if (k->is_stale && !k->is_reading)
		keeper_read(k);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/command/outputs.h"

#include <stdio.h>
#include <string.h>

#include "bench/report/csv.h"
#include "bench/report/hdrlog.h"
#include "bench/run/history.h"

#define PATH_BYTES 4096

/* The file's name with the store's before its ending. */
static const char *name_file(const char *path, const char *store, char *buf)
{
	const char *base = strrchr(path, '/'), *dot = strrchr(path, '.');

	if (store == NULL)
		return path;
	base = base != NULL ? base + 1 : path;
	if (dot == NULL || dot <= base)
		dot = path + strlen(path);
	snprintf(buf, PATH_BYTES, "%.*s-%s%s", (int)(dot - path), path, store, dot);
	return buf;
}

int outputs_open(struct outputs *out, const struct options *o, const char *store, struct err *err)
{
	char name[PATH_BYTES];

	if (o->history_path != NULL &&
	    history_new(name_file(o->history_path, store, name), &out->history, err) < 0)
		return -1;
	if (o->csv_path != NULL && csv_new(name_file(o->csv_path, store, name), &out->csv, err) < 0)
		return -1;
	if (o->hdr_path != NULL && hdrlog_new(name_file(o->hdr_path, store, name), &out->hdrlog, err) < 0)
		return -1;
	return 0;
}

void outputs_tick(const struct outputs *out, const struct driver_tick *tick)
{
	if (out->csv != NULL)
		csv_tick(out->csv, tick);
	if (out->hdrlog != NULL)
		hdrlog_tick(out->hdrlog, tick);
}

void outputs_total(const struct outputs *out, const struct result *result)
{
	if (out->csv != NULL)
		csv_total(out->csv, result);
}

int outputs_close(struct outputs *out, struct err *err)
{
	int rc = 0;

	rc |= history_delete(&out->history, err);
	rc |= csv_delete(&out->csv, err);
	rc |= hdrlog_delete(&out->hdrlog, err);
	return rc < 0 ? -1 : 0;
}

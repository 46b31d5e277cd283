/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/run/history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/format/json.h"
#include "bench/format/outfile.h"
#include "client/kvd.h"

struct history {
	struct outfile out;
};

int history_new(const char *path, struct history **history, struct err *err)
{
	struct history *h = calloc(1, sizeof *h);

	if (h == NULL)
		return err_set(err, -1, "out of memory");
	if (outfile_open(&h->out, path, err) < 0) {
		free(h);
		return -1;
	}
	*history = h;
	return 0;
}

/* What happened, as far as the client knows. */
static const char *result_word(int result)
{
	switch (result) {
	case KVD_OK:
		return "ok";
	case KVD_NOT_FOUND:
		return "not_found";
	case KVD_EUNKNOWN:
		return "unknown";
	default:
		return "error";
	}
}

void history_add(struct history *h, const struct history_entry *e)
{
	bool valued = e->put || e->result == KVD_OK;

	flockfile(h->out.file);
	fprintf(h->out.file, "{\"client\":%u,\"op\":\"%s\",\"key\":", e->client, e->put ? "put" : "get");
	json_write_bytes(h->out.file, e->key, e->key_bytes);
	fputs(",\"value\":", h->out.file);
	if (valued)
		json_write_bytes(h->out.file, e->value, e->value_bytes);
	else
		fputs("null", h->out.file);
	if (e->result == KVD_OK)
		fprintf(h->out.file, ",\"version\":%" PRIu64, e->version);
	else
		fputs(",\"version\":null", h->out.file);
	fprintf(h->out.file, ",\"invoke_ns\":%" PRIu64 ",\"return_ns\":%" PRIu64 ",\"result\":\"%s\"}\n",
		e->invoke_ns, e->return_ns, result_word(e->result));
	funlockfile(h->out.file);
}

int history_delete(struct history **history, struct err *err)
{
	struct history *h = *history;
	int rc;

	if (h == NULL)
		return 0;
	rc = outfile_close(&h->out, err);
	free(h);
	*history = NULL;
	return rc;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* A backup: begun by the first question, watched by the others. */
#include <string.h>
#include <time.h>

#include "client/op/session.h"

#define ASK_NS 50000000L

/* One question; *state is kvd's enum wire_backup. */
static int ask(struct kvd_session *s, const char *path, uint64_t *state)
{
	struct op *op = op_new(s, &call_class, path, strlen(path));
	int rc = request_send(op, &(struct wire_request){ .op = WIRE_BACKUP }, 0);

	if (!rc)
		rc = session_run(op);
	if (rc)
		return rc;
	if (op->reply.status == WIRE_EUNSUPPORTED)
		return err_set(&s->err, KVD_EINVAL, "kvd at %s has no data folder: it was started "
			       "without --data-dir", s->client->addr.text);
	if (op->reply.status != WIRE_OK)
		return err_set(&s->err, KVD_EINVAL, "kvd at %s takes no backup (status %u)",
			       s->client->addr.text, op->reply.status);
	*state = op->reply.version;
	if (*state == WIRE_BACKUP_FAILED)
		return err_set(&s->err, KVD_EDISK, "backup: %.*s", (int)op->payload_bytes,
			       (const char *)op->memory->message);
	return KVD_OK;
}

int kvd_backup(kvd_session *s, const char *path)
{
	uint64_t state = WIRE_BACKUP_RUNNING;

	if (!path || !*path || strlen(path) > KVD_KEY_BYTES_MAX)
		return err_set(&s->err, KVD_EINVAL, "the path of the backup is empty or too long");
	for (;;) {
		int rc = session_settle(s) ? err_set(&s->err, KVD_EINVAL,
						    "operations of the session are in flight")
					  : session_ready(s);
		if (!rc)
			rc = ask(s, path, &state);
		if (rc || state == WIRE_BACKUP_DONE)
			return rc;
		nanosleep(&(struct timespec){ .tv_nsec = ASK_NS }, NULL);
	}
}

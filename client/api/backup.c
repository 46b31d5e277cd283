/* SPDX-License-Identifier: BSD-2-Clause */
/* A backup: begun by the first question, watched by the others. */
#include <string.h>
#include <time.h>

#include "client/again/ready.h"
#include "client/op/engine.h"
#include "client/op/operation.h"
#include "client/op/request.h"
#include "client/session/session.h"
#include "client/session/wait.h"

#define ASK_NS 50000000L

/* One question; *state is kvd's enum wire_backup. */
static int ask(struct kvd_session *s, const char *path, uint64_t *state)
{
	struct engine *e = session_engine(s);
	struct op *op = op_new(e, &call_class, path, strlen(path));
	const struct outcome *out;
	int rc = request_start(op, &(struct wire_request){ .op = WIRE_BACKUP }, NULL, 0);

	if (!rc)
		rc = session_run(s, op, &out);
	if (rc)
		return rc;
	if (out->reply.status == WIRE_EUNSUPPORTED)
		return err_set(session_err(s), KVD_EINVAL,
			       "kvd at %s has no data folder: it was started "
			       "without --data-dir",
			       e->health.peer);
	if (out->reply.status != WIRE_OK)
		return err_set(session_err(s), KVD_EINVAL, "kvd at %s takes no backup (status %u)",
			       e->health.peer, out->reply.status);
	*state = out->reply.version;
	if (*state == WIRE_BACKUP_FAILED)
		return err_set(session_err(s), KVD_EDISK, "backup: %.*s", (int)out->payload_bytes,
			       (const char *)out->payload);
	return KVD_OK;
}

int kvd_backup(kvd_session *s, const char *path)
{
	uint64_t state = WIRE_BACKUP_RUNNING;

	if (!path || !*path || strlen(path) > KVD_KEY_BYTES_MAX)
		return err_set(session_err(s), KVD_EINVAL,
			       "the path of the backup is empty or too long");
	for (;;) {
		int rc = session_ready_alone(s);
		if (!rc)
			rc = ask(s, path, &state);
		if (rc || state == WIRE_BACKUP_DONE)
			return rc;
		nanosleep(&(struct timespec){ .tv_nsec = ASK_NS }, NULL);
	}
}

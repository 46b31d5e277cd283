/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands for a cluster: begun by the first question, watched by the others. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "client/again/ready.h"
#include "client/op/engine.h"
#include "client/op/operation.h"
#include "client/op/request.h"
#include "client/session/session.h"
#include "client/session/wait.h"

#define ASK_NS 5000000L

static int refused(struct kvd_session *s, const struct outcome *out)
{
	struct engine *e = session_engine(s);

	switch ((enum wire_status)out->reply.status) {
	case WIRE_EDENIED:
		return health_denied(&e->health);
	case WIRE_EUNSUPPORTED:
		return err_set(&e->health.err, KVD_EINVAL,
			       "kvd at %s is of no cluster: it was started without --cluster",
			       e->health.peer);
	case WIRE_EELSEWHERE:
		return request_result(e, 0, WIRE_EELSEWHERE);
	default:
		return err_set(&e->health.err, KVD_EPROTOCOL, "%s answered with status %u",
			       e->health.peer, out->reply.status);
	}
}

/* One question; *state is kvd's enum wire_backup, *out its sentence. */
static int ask(struct kvd_session *s, const struct wire_request *q, const char *member,
	       uint64_t *state, const struct outcome **out)
{
	struct op *op = op_new(session_engine(s), &call_class, member, strlen(member));
	int rc = request_start(op, q, NULL, 0);

	if (!rc)
		rc = session_run(s, op, out);
	if (rc)
		return rc;
	if ((*out)->reply.status != WIRE_OK)
		return refused(s, *out);
	*state = (*out)->reply.version;
	return KVD_OK;
}

static int tell(struct kvd_session *s, uint64_t state, const struct outcome *out, char **said)
{
	if (state == WIRE_BACKUP_FAILED)
		return err_set(session_err(s), KVD_EINVAL, "%.*s", (int)out->payload_bytes,
			       (const char *)out->payload);
	if (!said)
		return KVD_OK;
	*said = strndup((const char *)out->payload, out->payload_bytes);
	return *said ? KVD_OK : err_set(session_err(s), KVD_ENOMEM, "out of memory");
}

static int run(struct kvd_session *s, const struct wire_request *q, const char *member, char **said)
{
	struct call_time *t = &session_engine(s)->time;
	const struct outcome *out = NULL;
	uint64_t state = WIRE_BACKUP_RUNNING;
	int rc;

	for (;;) {
		rc = session_ready_alone(s);
		if (!rc)
			rc = ask(s, q, member, &state, &out);
		if (!rc && state != WIRE_BACKUP_RUNNING)
			return tell(s, state, out, said);
		/* It is known by its number: who lost the answer asks again. */
		if ((rc && rc != KVD_ECONNECT) || clock_ns() >= t->end_ns)
			break;
		nanosleep(&(struct timespec){ .tv_nsec = ASK_NS }, NULL);
	}
	return rc ? rc : err_set(session_err(s), KVD_EUNKNOWN, "the cluster's command is not done in "
				 "time: it may be yet");
}

int kvd_cluster(kvd_session *s, int command, const char *member, int copies, char **said)
{
	struct wire_request q = { .op = WIRE_CLUSTER, .version = (uint64_t)command,
				  .item_flags = (uint32_t)copies };
	struct call_time *t = &session_engine(s)->time;

	if (command < KVD_CLUSTER_INIT || command > KVD_CLUSTER_FORCE || copies < 0 ||
	    (command != KVD_CLUSTER_INIT && (!member || !*member)) ||
	    (member && strlen(member) > KVD_KEY_BYTES_MAX))
		return err_set(session_err(s), KVD_EINVAL, "that is no command for a cluster: it is a "
			       "KVD_CLUSTER_*, and names a member unless it is KVD_CLUSTER_INIT");
	if (getrandom(&q.value_checksum, sizeof q.value_checksum, 0) != sizeof q.value_checksum)
		return err_set(session_err(s), KVD_EDEVICE, "no random number for a command");
	q.value_checksum |= 1;
	bool outermost = call_begin(t);
	int rc = run(s, &q, member && command != KVD_CLUSTER_INIT ? member : "", said);
	call_end(t, outermost);
	return rc;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* A session in an event loop. */
#include "client/again/ready.h"
#include "client/kvd.h"
#include "client/op/engine.h"
#include "client/session/event.h"
#include "client/session/session.h"
#include "client/session/wait.h"

int kvd_fd(kvd_session *s)
{
	int rc = session_ready(s);

	return rc ? rc : event_fd_of(session_engine(s));
}

int kvd_arm(kvd_session *s)
{
	session_arm(s);
	return session_engine(s)->done != NULL;
}

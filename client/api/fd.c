/* SPDX-License-Identifier: BSD-2-Clause */
/* A session in an event loop. */
#include "client/op/session.h"

int kvd_fd(kvd_session *s)
{
	int rc = session_ready(s);

	return rc ? rc : event_fd_of(s);
}

int kvd_arm(kvd_session *s)
{
	session_arm(s);
	return s->done != NULL;
}

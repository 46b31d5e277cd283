/* SPDX-License-Identifier: BSD-2-Clause */
/* serve.h -- answers to other processes. */
#ifndef COMMON_SOFTVERBS_EXEC_SERVE_H
#define COMMON_SOFTVERBS_EXEC_SERVE_H

#include <stdint.h>
#include "common/softverbs/object/qp.h"
#include "common/softverbs/peer/msg.h"

/* Who makes queue pairs for XRC senders (object/branch.h); control thread, no lock held. */
struct sv_join_hooks {
	/* SV_MSG_JOIN: sets *index; 0 or an errno value. */
	uint32_t (*join)(const struct sv_msg *msg, uint32_t *index);
	/* The queue pair wants to send to this process itself. */
	void (*join_own)(struct sv_qp *qp);
	/* SV_MSG_PART. */
	void (*part)(uint32_t sender_qpn, uint32_t index);
	/* The process has no link to this one any more. */
	void (*all_part)(uint32_t slot);
};
/* Before sv_serve_start(). */
void sv_serve_on_join(const struct sv_join_hooks *hooks);
void sv_serve_join_own(struct sv_qp *qp);

/* Before the control thread runs: it accepts and answers those who come to this listener,
 * which stays the caller's.  0 or an errno value. */
int sv_serve_start(int fd);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* id.c -- connection management: ids, and the one lock that guards all of it. */
#include <stdlib.h>
#include <string.h>
#include "common/softverbs/base/proc.h"
#include "common/softverbs/cm/id.h"
#include "common/softverbs/verbs/start.h"

struct sv_cm sv_cm = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.acked = PTHREAD_COND_INITIALIZER,
	.next_ns = UINT64_MAX,
};

/* In a forked child. */
static void forget_all(void)
{
	pthread_mutex_init(&sv_cm.lock, NULL);
	pthread_cond_init(&sv_cm.acked, NULL);
	sv_cm.ids = NULL;
	sv_cm.channels = NULL;
	memset(sv_cm.verbs, 0, sizeof(sv_cm.verbs));
	memset(sv_cm.pd, 0, sizeof(sv_cm.pd));
	atomic_store(&sv_cm.next_ns, UINT64_MAX);
}

static void install_fork_handler(void)
{
	pthread_atfork(NULL, NULL, forget_all);
}

int sv_cm_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, install_fork_handler);
	return sv_start();
}

void sv_cm_set_device(struct sv_id *id)
{
	uint32_t device = sv_device_of(&id->id.route.addr.src_addr);

	id->id.verbs = sv_cm.verbs[device];
	id->id.pd = sv_cm.pd[device];
	id->id.port_num = 1;
}

struct sv_id *sv_cm_new_id(struct sv_id *listener)
{
	struct sv_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->deadline_ns = UINT64_MAX;
	id->ack_timeout = 14;
	id->id.ps = RDMA_PS_TCP;
	id->id.qp_type = IBV_QPT_RC;
	sv_random(&id->psn, sizeof(id->psn));
	id->psn &= 0xffffff;
	if (listener) {
		id->id.channel = listener->id.channel;
		id->id.context = listener->id.context;
		id->id.ps = listener->id.ps;
		id->id.qp_type = listener->id.qp_type;
		id->tos = listener->tos;
	}
	id->next = sv_cm.ids;
	sv_cm.ids = id;
	return id;
}

void sv_cm_free_id(struct sv_id *id)
{
	struct sv_id **at;

	for (at = &sv_cm.ids; *at != id; at = &(*at)->next)
		;
	*at = id->next;
	free(id->ep_attr);
	free(id);
}

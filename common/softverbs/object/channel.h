/* SPDX-License-Identifier: BSD-2-Clause */
/* channel.h -- completion channels, as completion queues and links use them. */
#ifndef COMMON_SOFTVERBS_OBJECT_CHANNEL_H
#define COMMON_SOFTVERBS_OBJECT_CHANNEL_H

#include <stdatomic.h>
#include <stdint.h>
#include <infiniband/verbs.h>

/* A completion queue as its channel sees it. */
struct sv_chan_cq {
	struct ibv_cq *cq;
	uint32_t index;	    /* in sv_rw.cq */
	uint32_t rung_seen; /* of sv_rw_cq.rung, the events taken; sv_chan.lock */
	_Atomic unsigned int events_got;
	struct sv_chan_cq *next; /* sv_chan.cqs */
};

/* From the environment; 0, or EINVAL and a message. */
int sv_chan_env(void);
/* Its events come to the channel from now on; its cq and index are set. */
void sv_chan_join(struct ibv_comp_channel *channel, struct sv_chan_cq *cq);
/* Events of the CQ that nobody took are gone; the channel stays its own. */
void sv_chan_leave(struct ibv_comp_channel *channel, struct sv_chan_cq *cq);
/* After that: the channel may be destroyed. */
void sv_chan_put(struct ibv_comp_channel *channel);
/* A descriptor on which peers ring channel id; -1. Caller closes. */
int sv_chan_dup(uint32_t id);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * msg.h -- connection management: what two processes say to each other, one message on a
 * SEQPACKET connection each.
 */
#ifndef COMMON_SOFTVERBS_CM_MSG_H
#define COMMON_SOFTVERBS_CM_MSG_H

#include <netinet/in.h>
#include <stdint.h>

#define SV_CM_REQ_DATA 56
#define SV_CM_REP_DATA 196
#define SV_CM_REJ_DATA 148
/* Of datagrams' ids: the request and its answer (SIDR). */
#define SV_CM_UD_REQ_DATA 180
#define SV_CM_UD_REP_DATA 136

/* Reasons of rejection, as InfiniBand's. */
#define SV_REJ_NO_RESOURCES 3
#define SV_REJ_NO_SERVICE 8
#define SV_REJ_CONSUMER 28

enum sv_cm_type { SV_CM_REQ = 1, SV_CM_REP, SV_CM_RTU, SV_CM_REJ, SV_CM_DREQ, SV_CM_DREP };

struct sv_cm_msg {
	uint32_t type;
	uint32_t abi;
	uint32_t qpn;
	uint32_t psn;
	uint32_t reason;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t flow_control;
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t srq;
	uint8_t ack_timeout;
	uint8_t reserved;
	struct sockaddr_in6 src; /* or a sockaddr_in in its first bytes */
	struct sockaddr_in6 dst;
	uint8_t data[SV_CM_REP_DATA];
};

#endif

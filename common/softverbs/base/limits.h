/* SPDX-License-Identifier: BSD-2-Clause */
/* limits.h -- what the device has at most, as its attributes tell. */
#ifndef COMMON_SOFTVERBS_BASE_LIMITS_H
#define COMMON_SOFTVERBS_BASE_LIMITS_H

#define SV_MAX_SGE 16
#define SV_MAX_INLINE 1024
#define SV_MAX_QP_WR 16384
#define SV_MAX_SRQ_WR 65536
#define SV_MAX_CQE 4194304
#define SV_MAX_RD_ATOMIC 16
#define SV_MAX_MSG_BYTES (1u << 30)
#define SV_MAX_QP_GROUPS 64 /* multicast groups that a queue pair is in */
#define SV_MAX_GROUPS 65536

#endif

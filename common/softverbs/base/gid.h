/* SPDX-License-Identifier: BSD-2-Clause */
/* gid.h -- the devices' addresses, and those of multicast groups. */
#ifndef COMMON_SOFTVERBS_BASE_GID_H
#define COMMON_SOFTVERBS_BASE_GID_H

#include <stdbool.h>
#include <stdint.h>

#define SV_GIDS 2u
#define SV_GID_BYTES 16u

/* Entry index of the port's table: of soft0 ::ffff:127.0.0.1, then ::1; of others a number
 * more in both. */
void sv_gid_get(uint32_t device, uint32_t index, uint8_t gid[SV_GID_BYTES]);
/* A group's: of IPv6, or of IPv4 as RoCE v2 writes it. */
bool sv_gid_is_group(const uint8_t gid[SV_GID_BYTES]);

#endif

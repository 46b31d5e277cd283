/* SPDX-License-Identifier: BSD-2-Clause */
/* gid.c -- the devices' addresses, and those of multicast groups. */
#include <string.h>
#include "common/softverbs/base/gid.h"

static const uint8_t of_ipv4[12] = { [10] = 0xff, [11] = 0xff };

void sv_gid_get(uint32_t device, uint32_t index, uint8_t gid[SV_GID_BYTES])
{
	memset(gid, 0, SV_GID_BYTES);
	gid[15] = (uint8_t)(1 + device); /* ::1 */
	if (index == 0) { /* ::ffff:127.0.0.1 */
		memcpy(gid, of_ipv4, sizeof(of_ipv4));
		gid[12] = 127;
	}
}

bool sv_gid_is_group(const uint8_t gid[SV_GID_BYTES])
{
	return gid[0] == 0xff || (!memcmp(gid, of_ipv4, sizeof(of_ipv4)) && gid[12] >> 4 == 0xe);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * device.h -- the devices: how many there are, their addresses, whose port is cut.
 *
 * There is one, soft0.  SOFTVERBS_DEVICES makes it up to four, for tests of programs that use
 * several: soft1 has the address 127.0.0.2, soft2 127.0.0.3, soft3 127.0.0.4, and soft0 all others.
 * Any thread.
 */
#ifndef COMMON_SOFTVERBS_BASE_DEVICE_H
#define COMMON_SOFTVERBS_BASE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <infiniband/verbs.h>

#define SV_DEVICES 4u

/* From the environment; 0, or EINVAL and a message. */
int sv_device_env(void);
uint32_t sv_device_count(void);
/* The nth; index below SV_DEVICES. */
struct ibv_device *sv_device_at(uint32_t index);
/* Of a device of sv_device_at(). */
uint32_t sv_device_index(const struct ibv_device *device);
/* Whose address of this host it is. */
uint32_t sv_device_of(const struct sockaddr *addr);
/* Objects of one device can't be used with those of another. */
static inline bool sv_device_same(const struct ibv_context *a, const struct ibv_context *b)
{
	return a->device == b->device;
}

#define SV_GIDS 2u
#define SV_GID_BYTES 16u

/* Entry index of a device's port's table: of soft0 ::ffff:127.0.0.1, then ::1; of others a number
 * more in both. */
void sv_gid_get(uint32_t device, uint32_t index, uint8_t gid[SV_GID_BYTES]);
/* A group's: of IPv6, or of IPv4 as RoCE v2 writes it. */
bool sv_gid_is_group(const uint8_t gid[SV_GID_BYTES]);

/* Whether ports can be cut at all: SOFTVERBS_DOWN names a folder. */
bool sv_device_may_be_cut(void);
/* Whether the device's port is: a file with the device's name is in that folder.  Up to a
 * millisecond late. */
bool sv_device_is_cut(uint32_t index);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* device_json.h -- a device of this machine as JSON, and the words for what verbs say of one. */
#ifndef CLIENT_CLI_COMMAND_DEVICE_JSON_H
#define CLIENT_CLI_COMMAND_DEVICE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "common/verbs/verbs.h"

/* One line on standard output. */
void cli_device_json(const struct verbs *verbs, struct ibv_device *device);

/* Static strings. */
const char *cli_node_type(const struct ibv_device *device);
const char *cli_port_state(enum ibv_port_state state);
const char *cli_link_layer(uint8_t layer);
unsigned cli_mtu_bytes(enum ibv_mtu mtu);
/* Data lanes (VLs) of ibv_port_attr.max_vl_num; 0: not said. */
unsigned cli_lanes(uint8_t max_vl_num);
bool cli_gid_is_set(const union ibv_gid *gid);
/* A line of sysfs about a device, into buf, which it returns; "" if there is none. */
const char *cli_sysfs_line(char buf[64], const struct ibv_device *device, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* device.h -- the commands on this machine's RDMA devices; they need no server. */
#ifndef CLIENT_CLI_COMMAND_DEVICE_H
#define CLIENT_CLI_COMMAND_DEVICE_H

#include "client/cli/command/command.h"

/* device.c */
extern const struct cli_command cli_devices;

/* doctor.c */
extern const struct cli_command cli_doctor, cli_counters;

#endif

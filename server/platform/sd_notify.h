/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sd_notify.h -- tells the service manager how kvd is, by systemd's protocol: a datagram
 * to the socket that $NOTIFY_SOCKET names.  Without it nothing happens.
 */
#ifndef SERVER_PLATFORM_SD_NOTIFY_H
#define SERVER_PLATFORM_SD_NOTIFY_H

/* Lines of NAME=VALUE, as "READY=1\nSTATUS=...".  Main thread; does not block. */
void notify_manager(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * device_events.h -- the thread that takes the devices' asynchronous events.
 *
 * It takes each, says in words what happened (device_event.c), does what is to be done, and
 * acknowledges it, without which an object can't be destroyed: so whoever destroys a
 * queue pair waits for this thread, and this thread waits for nobody.
 *
 * It acts: a connection whose queue pair failed is dropped; one in error that is drained
 * is told so; clients are told that the port of kvd went down or came up; a receive queue
 * that ran low is told and watched again after a second; a device, completion queue or
 * receive queue that failed ends kvd, or, where it is not the first device's, its
 * connections (rails.h).
 */
#ifndef SERVER_HOST_DEVICE_EVENTS_H
#define SERVER_HOST_DEVICE_EVENTS_H

#include "common/err.h"

struct host;
struct watch;

/* After the workers were made.  0, or -1 after setting err. */
int watch_new(struct host *host, struct watch **watch, struct err *err);
/* After the last connection was destroyed. */
void watch_delete(struct watch **watch);
/* Readable when kvd has to end. */
int watch_fd(const struct watch *watch);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* device_event.h -- what the device tells of itself, in words, and what kvd does about it. */
#ifndef SERVER_HOST_DEVICE_EVENT_H
#define SERVER_HOST_DEVICE_EVENT_H

#include <infiniband/verbs.h>

enum event_action {
	EVENT_PASS,  /* nothing to do, nothing to tell */
	EVENT_TELL,  /* logged */
	EVENT_CONN,  /* of a queue pair: its connection ends */
	EVENT_DRAIN, /* of a queue pair in error: its last receive was taken */
	EVENT_STOP,  /* the device is of no use any more: kvd ends with EVENT_STATUS, if it is the first */
};

/* kvd's exit status then: starting it again is no use before the device is well. */
#define EVENT_STATUS 3

/* Sets *words to a sentence that says what happened, and what to look at. */
enum event_action event_judge(enum ibv_event_type type, const char **words);

#endif

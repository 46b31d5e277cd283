/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl.h -- the control thread: what it watches, and whom it calls.
 *
 * It knows nothing of queue pairs, peers or connections.  They register what it is to call:
 * ready() of what they watch, sv_ctl_on_attention() and sv_ctl_on_timer().  Everything that
 * is registered runs on the control thread, must not block, and may take any lock.
 */
#ifndef COMMON_SOFTVERBS_BASE_CTL_H
#define COMMON_SOFTVERBS_BASE_CTL_H

#include <stdint.h>

/* Something that the control thread watches.  It is freed by the control thread
 * itself, after sv_watch_retire(), so that no event finds it gone. */
struct sv_watch {
	int fd;
	void (*ready)(struct sv_watch *watch, uint32_t events);
	void (*release)(struct sv_watch *watch); /* frees it */
	struct sv_watch *next_retired;
};

/* Events as epoll's.  0 or an errno value. */
int sv_watch_add(struct sv_watch *watch, uint32_t events);
/* No more events of it; it stays the owner's. */
void sv_watch_stop(struct sv_watch *watch);
/* Any thread, once.  The control thread closes watch->fd (unless it is -1) and
 * frees; until then ready() may still run, and has to see that the object is
 * over. */
void sv_watch_retire(struct sv_watch *watch);

/* Whom a queue pair's attention word is for; set before sv_ctl_start(). */
void sv_ctl_on_attention(void (*attend)(uint32_t index));
/* run() does what is due and returns when the next is, in ns; UINT64_MAX: nothing.  Any
 * thread; for good, and again without effect. */
void sv_ctl_on_timer(uint64_t (*run)(void));
/* The control thread runs again at the latest at this time. */
void sv_ctl_wake_at(uint64_t at_ns);
/* Starts the thread; 0 or an errno value.  Once in a process. */
int sv_ctl_start(void);

#endif

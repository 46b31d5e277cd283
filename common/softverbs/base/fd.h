/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fd.h -- descriptors that a forked child must not keep.
 *
 * All descriptors of the device are noted here when they are made, and closed here.  Any
 * thread; nothing blocks but sv_fd_close_all(), which is for a forked child only.
 */
#ifndef COMMON_SOFTVERBS_BASE_FD_H
#define COMMON_SOFTVERBS_BASE_FD_H

int sv_fd_track(int fd); /* returns fd; -1 is passed on */
/* Nothing for -1. */
void sv_fd_close(int fd);
void sv_fd_close_all(void);
/* accept4() for the control thread; -1 and errno. */
int sv_accept_bounded(int listener);

#endif

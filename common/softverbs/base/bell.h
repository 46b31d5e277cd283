/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bell.h -- eventfds with one count for each queued event.
 *
 * Any thread.  A reader takes one count with read(), and sleeps there.
 */
#ifndef COMMON_SOFTVERBS_BASE_BELL_H
#define COMMON_SOFTVERBS_BASE_BELL_H

/* A descriptor, closed with sv_fd_close(); -1 and errno. */
int sv_bell_open(void);
/* Adds one count; any eventfd will do. */
void sv_bell_ring(int fd);
/* Takes one count if there is one, without blocking. */
void sv_bell_drop(int fd);

#endif

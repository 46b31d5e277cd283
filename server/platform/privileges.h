/* SPDX-License-Identifier: BSD-2-Clause */
/* privileges.h -- kvd started as root goes on as somebody who may little. */
#ifndef SERVER_PLATFORM_PRIVILEGES_H
#define SERVER_PLATFORM_PRIVILEGES_H

#include "common/err.h"

/*
 * Raises the limit of locked memory as far as it goes, becomes `user`, with his groups,
 * and gives up every capability, for good: the bounding set is empty and no program
 * that is executed gets more.  Looks whether all of that is so.  Before there is a
 * second thread, since some of it holds for one thread only, and before anything is
 * opened.  0, or -1 after setting err: kvd must not go on.
 */
int privileges_shed(const char *user, struct err *err);

/* Whoever it is: nothing that it executes gets more than it has. */
void privileges_seal(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* privileges.h -- a kvd that was started as root goes on as a user without privileges. */
#ifndef SERVER_PLATFORM_PRIVILEGES_H
#define SERVER_PLATFORM_PRIVILEGES_H

#include "common/err.h"

/*
 * Raises the limit of locked memory as far as it goes, becomes `user`, with their groups,
 * and gives up every capability, for good: the bounding set is empty and no program
 * that is executed gets more.  Checks all of that.  Before there is a second thread,
 * since some of it holds for one thread only, and before anything is opened.  0, or -1
 * after setting err: kvd must not go on.
 */
int privileges_shed(const char *user, struct err *err);

/* No program that kvd executes gets more privileges than kvd has, whichever user it runs as. */
void privileges_seal(void);

#endif

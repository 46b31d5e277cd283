/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/session/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t interrupted;

static void note(int number)
{
	(void)number;
	interrupted = 1;
}

/* Without SA_RESTART: it ends the read of a line. */
void cli_interrupt_catch(void)
{
	struct sigaction action = { .sa_handler = note }, before;

	sigaction(SIGINT, NULL, &before);
	if (before.sa_handler != SIG_IGN)
		sigaction(SIGINT, &action, NULL);
}

bool cli_interrupted(void)
{
	return interrupted;
}

void cli_interrupt_forget(void)
{
	interrupted = 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * interrupt.h -- Ctrl-C in a shell on a terminal: it ends the line that is typed, or the
 * command that runs, and not the shell.
 *
 * Elsewhere the signal keeps its own effect, which is to end kvcli.  A command that lasts asks
 * between its steps; a step is one call of <kvd.h>, which its time-out ends.
 */
#ifndef CLIENT_CLI_SESSION_INTERRUPT_H
#define CLIENT_CLI_SESSION_INTERRUPT_H

#include <stdbool.h>

/* From here on an interrupt is only noted; one that is ignored stays ignored. */
void cli_interrupt_catch(void);
/* One was noted since the last cli_interrupt_forget(). */
bool cli_interrupted(void);
void cli_interrupt_forget(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* init.h -- `kvd init`: makes a users file with a first user. */
#ifndef SERVER_INIT_H
#define SERVER_INIT_H

/* argv[0] is "init".  The process's exit status; the client's line of credentials goes
 * to standard output, everything else to standard error. */
int init_run(int argc, char **argv);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * name.h -- abstract unix addresses by which processes of the fabric say what they are.
 *
 * A name is there as long as its descriptor: it goes with its process, however that ends.
 */
#ifndef COMMON_SOFTVERBS_BASE_NAME_H
#define COMMON_SOFTVERBS_BASE_NAME_H

/* Takes "softverbs/<fabric>/<kind>/<name>": a descriptor, closed with sv_fd_close().  -1 and
 * errno: EADDRINUSE if somebody has it. */
int sv_name_take(const char *kind, const char *name);
/*
 * Calls seen() with what stands behind "<kind>/<prefix>" in each name that begins so.  A name
 * that is taken before the call is seen, unless others go in that moment (the kernel's list is
 * read in parts).  Nothing in a name is believed: any user can take it.  0, or an errno value:
 * there is no /proc.
 */
int sv_name_each(const char *kind, const char *prefix, void (*seen)(void *arg, const char *rest),
		 void *arg);

#endif

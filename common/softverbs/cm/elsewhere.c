/* SPDX-License-Identifier: BSD-2-Clause */
/* elsewhere.c -- listeners of other fabrics, which this process can't reach: for what is said
 * where a connection is refused. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "common/softverbs/base/proc.h"
#include "common/softverbs/softverbs.h"

#define NAME "@softverbs/"
/* Any user may give a socket any name: others are not repeated to somebody who may paste them. */
#define SANE "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

/* The fabric of a line of /proc/net/unix, if that is a listener of the port and the fabric is
 * none of ours; cuts the line. */
static const char *other_fabric(char *line, uint16_t port)
{
	char *fabric = strstr(line, NAME), *end = fabric ? strstr(fabric, "/cm/") : NULL;
	char *at = end ? strrchr(end + 4, '/') : NULL;

	if (!at || strtoul(at + 1, NULL, 10) != port)
		return NULL;
	*end = '\0';
	fabric += strlen(NAME);
	if (!*fabric || fabric[strspn(fabric, SANE)])
		return NULL;
	return sv_proc && strcmp(fabric, sv_proc->fabric) == 0 ? NULL : fabric;
}

bool sv_listens_elsewhere(uint16_t port, char *fabric, size_t fabric_bytes)
{
	FILE *file = fopen("/proc/net/unix", "re");
	const char *found = NULL;
	char line[256];

	while (file && !found && fgets(line, sizeof(line), file))
		found = other_fabric(line, port);
	if (file)
		fclose(file);
	if (found)
		snprintf(fabric, fabric_bytes, "%s", found);
	return found;
}

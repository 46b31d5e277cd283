/* SPDX-License-Identifier: BSD-2-Clause */
/* hugepages.h -- whether the table is in huge pages, told at start. */
#ifndef SERVER_PLATFORM_HUGEPAGES_H
#define SERVER_PLATFORM_HUGEPAGES_H

struct server;

/* One line in the log; of a device whose registration populates the table. */
void pages_tell(const struct server *server);

#endif

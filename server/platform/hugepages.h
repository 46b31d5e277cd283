/* SPDX-License-Identifier: BSD-2-Clause */
/* hugepages.h -- whether the table is in huge pages, told at start. */
#ifndef SERVER_PLATFORM_HUGEPAGES_H
#define SERVER_PLATFORM_HUGEPAGES_H

#include <stdint.h>

/* One line in the log.  Of a device whose registration populated the table. */
void hugepages_tell(const void *table, uint64_t bytes);

#endif

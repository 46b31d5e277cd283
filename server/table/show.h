/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * show.h -- what the table's header shows of a primary's lease (doc/cluster.md, 9, 10).
 *
 * One thread: a shard's.  A client's READ samples the words in any order and believes them if
 * the checksum is theirs: partner grant_seen().
 */
#ifndef SERVER_TABLE_SHOW_H
#define SERVER_TABLE_SHOW_H

#include <stdint.h>

struct table;

/* When it returns each READ that begins finds these: members may be asked for promises.  Who
 * finds them finds all that was visible in the table when it was called. */
void table_show_lease(struct table *table, uint64_t reign, uint64_t a, uint64_t g);
/* It looks like no primary's.  Nothing is stored where that is so. */
void table_hide_lease(struct table *table);

#endif

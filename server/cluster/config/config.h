/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * config.h -- who holds a shard: its configuration as a structure and as text (doc/cluster.md).
 *
 *     kvd-shard 1
 *     reign 7
 *     primary a 00000000000000a1
 *     backup b 00000000000000b2
 *     copies 2
 *     removed c 00000000000000c3
 *     handed no
 *     writer 0123456789abcdef
 *
 * No I/O, no allocation.  Any thread.
 */
#ifndef SERVER_CLUSTER_CONFIG_CONFIG_H
#define SERVER_CLUSTER_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONFIG_MEMBERS_MAX 8u
#define CONFIG_NAME_BYTES 64u   /* with its 0; letters, digits, and - _ . : */
#define CONFIG_TEXT_BYTES 1024u /* with its 0 */

struct config_member {
	char name[CONFIG_NAME_BYTES];
	uint64_t incarnation; /* never 0 */
};

struct config {
	uint64_t epoch;  /* the record's version and 1: no text of its own; 0: none is known */
	uint64_t reign;  /* the epoch in which its primary's reign began */
	uint64_t writer; /* of the life of the kvd that wrote it; never 0 */
	bool is_handed;  /* the former primary named this one, and no lease of its is good */
	unsigned copies; /* how many members the set is to have; 0: that was not said */
	/* Who was taken out last by command, and is not to be asked in again; no name: nobody. */
	struct config_member removed;
	unsigned count;  /* at least 1 */
	struct config_member set[CONFIG_MEMBERS_MAX]; /* the primary first */
};

/* Its length, without the 0. */
size_t config_print(const struct config *c, char text[CONFIG_TEXT_BYTES]);
/*
 * What a record of that version says.  0, or -1 and a sentence of static storage: it is no
 * configuration, of a later kvd, or not one that can be.
 */
int config_parse(const void *text, size_t length, int32_t version, struct config *c,
		 const char **why);

bool config_is_name(const char *name);
bool config_is_same(const struct config_member *a, const struct config_member *b);
/* Its place in the set; -1: it is none of it. */
int config_find(const struct config *c, const struct config_member *m);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* lookup.h -- where a key's entry is. */
#ifndef CLIENT_GET_LOOKUP_H
#define CLIENT_GET_LOOKUP_H

#include "client/get/state.h"

/* The entry that the mirror has for a key of that hash where its buckets are now, or 0. */
uint64_t lookup_known(const struct remote_table *table, struct hash hash);

/* The addresses as this client knows the index, with nothing taken for fresh. */
void lookup_locate(struct get *g);
/* The mirror's entry for the key, where its buckets are now or were before the last
 * expansion of their groups; or 0. */
uint64_t lookup_in_mirror(const struct get *g);

/* READs those buckets that are not fresh; first what is to be known before. */
enum step lookup_read(struct get *g);
/* Anew from the index; ASK, after too many lookups. */
enum step lookup_restart(struct get *g);
/* The next entry that may be the key's, in what was READ; and where to look if none is. */
enum step lookup_next(struct get *g);

enum step lookup_got_directory(struct get *g);
enum step lookup_got_mark(struct get *g);
enum step lookup_got_buckets(struct get *g);
enum step lookup_got_node(struct get *g);
enum step lookup_got_links(struct get *g);

#endif

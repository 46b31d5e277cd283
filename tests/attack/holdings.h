/* SPDX-License-Identifier: BSD-2-Clause */
/* holdings.h -- what memory of kvd's the software device lets a peer's process hold. */
#ifndef TESTS_ATTACK_HOLDINGS_H
#define TESTS_ATTACK_HOLDINGS_H

#include "tests/attack/raw_peer.h"

/* `known`: a writer's welcome, learnt by another process.  Exits with 1 if it is more than
 * the rights.  Adds to a lock word: leave no table behind that others use. */
void holdings_try(struct raw *raw, const struct credentials *reader,
		  const struct credentials *writer, const struct wire_welcome *known);

#endif

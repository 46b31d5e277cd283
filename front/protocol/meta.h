/* SPDX-License-Identifier: BSD-2-Clause */
/* meta.h -- inside parse.c: commands of the meta protocol, of two letters. */
#ifndef FRONT_PROTOCOL_META_H
#define FRONT_PROTOCOL_META_H

#include "front/protocol/command.h"

void meta_parse(struct command *command, const struct words *words);

#endif

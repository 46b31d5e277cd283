/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers as people read them. */
#ifndef CLIENT_CLI_TEXT_GROUP_H
#define CLIENT_CLI_TEXT_GROUP_H

#include <stddef.h>

/* "12345" as "12,345"; into buf, which it returns, as far as it has room. */
const char *cli_group(const char *digits, char *buf, size_t buf_bytes);

#endif

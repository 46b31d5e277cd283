/* SPDX-License-Identifier: BSD-2-Clause */
/* base64.h -- keys that came as base64 (RFC 4648, with padding), and back.  Any thread. */
#ifndef FRONT_PROTOCOL_BASE64_H
#define FRONT_PROTOCOL_BASE64_H

#include <stddef.h>
#include <stdint.h>

/* How many bytes were written to `to`; 0: it is no base64, or of more than `max` bytes. */
size_t base64_decode(const char *from, size_t from_bytes, uint8_t *to, size_t max);

/* Without a zero byte behind it.  How many: 4 for each 3, or part of 3, that there are. */
size_t base64_encode(const uint8_t *from, size_t from_bytes, char *to);

#endif

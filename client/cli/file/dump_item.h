/* SPDX-License-Identifier: BSD-2-Clause */
/* dump_item.h -- a key with its value, as an export holds it in either format. */
#ifndef CLIENT_CLI_FILE_DUMP_ITEM_H
#define CLIENT_CLI_FILE_DUMP_ITEM_H

#include <stddef.h>
#include <stdint.h>

struct dump_item {
	const void *key;
	size_t key_bytes;
	const void *value;
	size_t value_bytes;
	uint64_t ttl_ms; /* left when it was read; 0: for ever */
	uint32_t flags;
	int signs;       /* KVD_STALE, KVD_CLAIMED */
};

#endif

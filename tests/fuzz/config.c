/* SPDX-License-Identifier: BSD-2-Clause */
/* A configuration file, with an option of each kind. */
#include <stdbool.h>
#include <string.h>

#include "common/opt.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const char *const choices[] = { "adaptive", "busy", "event", NULL };
	const char *listen = NULL;
	uint64_t memory = 1 << 20;
	bool insecure = false;
	int workers = 1, poll = 0;
	char error[256] = "";
	const struct opt table[] = {
		{ "listen", 'l', OPT_STRING, &listen, 0, 0, NULL, "ADDR", "" },
		{ "memory", 'm', OPT_SIZE, &memory, 1 << 20, 1ll << 40, NULL, "SIZE", "" },
		{ "workers", 'w', OPT_INT, &workers, 0, 64, NULL, "N", "" },
		{ "poll", 'p', OPT_CHOICE, &poll, 0, 0, choices, "HOW", "" },
		{ "insecure", 0, OPT_FLAG, &insecure, 0, 0, NULL, NULL, "" },
		{ 0 },
	};

	if (opt_read_file(table, fuzz_file(data, bytes), error, sizeof error))
		FUZZ_CHECK(error[0] && memchr(error, 0, sizeof error));
	/* Also of what was read before a mistake. */
	FUZZ_CHECK(memory >= 1 << 20 && memory <= 1ull << 40);
	FUZZ_CHECK(workers >= 0 && workers <= 64);
	FUZZ_CHECK(poll >= 0 && poll <= 2);
	FUZZ_CHECK(!listen || strlen(listen) <= bytes);
	return 0;
}

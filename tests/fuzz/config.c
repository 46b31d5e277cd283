/* SPDX-License-Identifier: BSD-2-Clause */
/* A configuration file, with an option of each kind, and what namespaces it makes. */
#include <stdbool.h>
#include <string.h>

#include "common/opt.h"
#include "server/host/namespace.h"
#include "server/table/table.h"
#include "tests/fuzz/fuzz.h"

static void check_namespaces(const struct opt_list *list)
{
	struct namespace_options o[NAMESPACES_MAX];
	struct err err = { "" };
	unsigned count = 0;

	FUZZ_CHECK(list->count <= OPT_LIST_MAX);
	if (namespaces_parse(list, o, &count, &err)) {
		FUZZ_CHECK(err.text[0]);
		return;
	}
	FUZZ_CHECK(count <= NAMESPACES_MAX);
	for (unsigned i = 0; i < count; i++) {
		FUZZ_CHECK(space_name_is_good(o[i].name, strlen(o[i].name)));
		FUZZ_CHECK(o[i].memory_bytes >= TABLE_BYTES_MIN && o[i].workers >= 0);
		for (unsigned k = 0; k < i; k++)
			FUZZ_CHECK(strcmp(o[i].name, o[k].name) != 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const char *const choices[] = { "adaptive", "busy", "event", NULL };
	const char *listen = NULL;
	uint64_t memory = 1 << 20;
	struct opt_list list = { .count = 0 };
	bool insecure = false;
	int workers = 1, poll = 0;
	char error[256] = "";
	const struct opt table[] = {
		{ "listen", 'l', OPT_STRING, &listen, 0, 0, NULL, "ADDR", "" },
		{ "memory", 'm', OPT_SIZE, &memory, 1 << 20, 1ll << 40, NULL, "SIZE", "" },
		{ "workers", 'w', OPT_INT, &workers, 0, 64, NULL, "N", "" },
		{ "poll", 'p', OPT_CHOICE, &poll, 0, 0, choices, "HOW", "" },
		{ "insecure", 0, OPT_FLAG, &insecure, 0, 0, NULL, NULL, "" },
		{ "namespace", 0, OPT_LIST, &list, 0, 0, NULL, "SPEC", "" },
		{ 0 },
	};

	if (opt_read_file(table, fuzz_file(data, bytes), error, sizeof error))
		FUZZ_CHECK(error[0] && memchr(error, 0, sizeof error));
	/* Also of what was read before a mistake. */
	FUZZ_CHECK(memory >= 1 << 20 && memory <= 1ull << 40);
	FUZZ_CHECK(workers >= 0 && workers <= 64);
	FUZZ_CHECK(poll >= 0 && poll <= 2);
	FUZZ_CHECK(!listen || strlen(listen) <= bytes);
	check_namespaces(&list);
	opt_forget_strings();
	return 0;
}

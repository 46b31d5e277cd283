/* SPDX-License-Identifier: BSD-2-Clause */
/* A property file of kvbench, and its values as numbers. */
#include <string.h>

#include "bench/workload/property.h"
#include "tests/fuzz/fuzz.h"

static void look(void *arg, const char *key, const char *value, bool known)
{
	struct properties *p = arg;
	uint64_t n = 7;
	double x = 0.5;
	bool yes = false;
	struct err err;

	(void)known;
	FUZZ_CHECK(properties_get(p, key) != NULL);
	FUZZ_CHECK(strcmp(properties_get(p, key), value) == 0);
	properties_get_number(p, key, 5, 100, &n, &err);
	FUZZ_CHECK(n >= 5 && n <= 100);
	properties_get_real(p, key, 0, 1, &x, &err);
	FUZZ_CHECK(x >= 0 && x <= 1);
	properties_get_bool(p, key, &yes, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct properties *p = properties_new();
	struct err err = { "" };

	FUZZ_CHECK(p != NULL);
	if (properties_read(p, fuzz_file(data, bytes), &err))
		FUZZ_CHECK(err.text[0]);
	properties_each(p, look, p);
	properties_delete(&p);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * enginebench ADDRESS CASE [KEYS [VALUE-BYTES]]: one measurement of the engine; prints
 * figures as lines "name value".  bench/engine/run runs them all and knows the goals.
 */
#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "bench/engine/cache.h"
#include "bench/engine/growth.h"
#include "bench/engine/memory.h"
#include "bench/engine/reads.h"
#include "bench/engine/refusal.h"
#include "bench/engine/speed.h"
#include "bench/measure/stopwatch.h"

static const struct {
	const char *name;
	void (*run)(struct engine *e);
} cases[] = {
	{ "load", engine_case_load },
	{ "warm", engine_case_warm },
	{ "cold", engine_case_cold },
	{ "absent", engine_case_absent },
	{ "ratio", engine_case_ratio },
	{ "depth16", engine_case_depth16 },
	{ "puts1", engine_case_puts1 },
	{ "puts32", engine_case_puts32 },
	{ "refill", engine_case_refill },
	{ "changes", engine_case_changes },
	{ "fill", engine_case_fill },
	{ "idle", engine_case_idle },
	{ "bad", engine_case_bad },
	{ "long", engine_case_long },
	{ "mirror", engine_case_mirror },
	{ "growth", engine_case_growth },
	{ "cache", engine_case_cache },
};

int main(int argc, char **argv)
{
	struct engine engine = { .keys = 100000, .value_bytes = 100, .random = { 42 } };

	if (argc < 3)
		errx(2, "usage: enginebench ADDRESS CASE [KEYS [VALUE-BYTES]]");
	engine.address = argv[1];
	if (argc > 3)
		engine.keys = strtoull(argv[3], NULL, 10);
	if (argc > 4)
		engine.value_bytes = strtoull(argv[4], NULL, 10);
	stopwatch_init();
	engine_connect(&engine, 0, false);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		if (strcmp(argv[2], cases[i].name))
			continue;
		cases[i].run(&engine);
		engine_disconnect(&engine);
		return 0;
	}
	errx(2, "enginebench has no case '%s'", argv[2]);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/engine/growth.h"

#include <err.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/measure/histogram.h"
#include "bench/measure/stopwatch.h"

/* Shared with the process that loads. */
struct growth {
	_Atomic uint64_t there; /* keys that are surely there */
	_Atomic bool end;
};

static void load_for_growth(struct engine *e, struct growth *g)
{
	const uint64_t batch = 1000;

	engine_disconnect(e);
	engine_connect(e, ENGINE_NO_MIRROR, false);
	for (uint64_t at = atomic_load(&g->there); at < e->keys; at += batch) {
		engine_load(e, at, batch);
		atomic_store(&g->there, at + batch);
	}
	atomic_store(&g->end, true);
	engine_disconnect(e);
	_exit(0);
}

static double percentile_us(const struct histogram *h, double p)
{
	return (double)histogram_percentile(h, p) / 1000;
}

/* GETs of keys that are there, one at a time, for so long or until the end. */
static void read_growing(struct engine *e, struct growth *g, struct histogram *h,
			 uint64_t for_ns)
{
	char *value = malloc(e->value_bytes + 1);
	uint64_t until = stopwatch_ns() + for_ns;

	histogram_clear(h);
	for (uint64_t now = stopwatch_ns(); now < until && !atomic_load(&g->end);) {
		uint64_t n = random_below(&e->random, atomic_load(&g->there));
		histogram_record(h, engine_time_get(e, n, value));
		now = stopwatch_ns();
	}
	free(value);
}

/*
 * A process inserts keys, this one reads those that are there; every GET must find its
 * key.  Steady is while the other process inserts as fast into an index that does not
 * grow, which is to overwrite: both have the same cores to share.
 */
void engine_case_growth(struct engine *e)
{
	static struct histogram steady, growing, window;
	struct growth *g = mmap(NULL, sizeof *g, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
				-1, 0);

	ENGINE_CHECK(g != MAP_FAILED, "out of memory");
	engine_load(e, 0, 1000);
	engine_disconnect(e);
	for (int round = 0; round < 2; round++) {
		atomic_store(&g->there, 1000);
		atomic_store(&g->end, false);
		pid_t child = fork();
		ENGINE_CHECK(child >= 0, "can't fork");
		if (child == 0)
			load_for_growth(e, g);
		engine_connect(e, 512u << 20, false);
		struct histogram *h = round ? &steady : &growing;
		histogram_clear(h);
		double worst = 0;
		while (!atomic_load(&g->end)) {
			read_growing(e, g, &window, 5000000000ull);
			histogram_merge(h, &window);
			double p99 = percentile_us(&window, 99);
			worst = window.count > 10000 && p99 > worst ? p99 : worst;
		}
		int status;
		ENGINE_CHECK(waitpid(child, &status, 0) == child && status == 0,
			     "the process that inserts failed");
		figure(round ? "steady_gets" : "growing_gets", (double)h->count);
		figure(round ? "steady_p50_us" : "growing_p50_us", percentile_us(h, 50));
		figure(round ? "steady_p99_us" : "growing_p99_us", percentile_us(h, 99));
		figure(round ? "steady_worst_5s_p99_us" : "growing_worst_5s_p99_us", worst);
		engine_disconnect(e);
	}
	figure("p99_ratio", percentile_us(&growing, 99) / percentile_us(&steady, 99));
	engine_connect(e, 0, false);
	figure("bytes_per_key", (double)engine_server_kib("VmRSS") * 1024 / (double)e->keys);
}

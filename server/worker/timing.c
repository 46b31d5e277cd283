/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/worker/timing.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "server/worker/server.h"

/* More slow ones of a worker in a second are only counted. */
#define TOLD_PER_SECOND 5u

#define SHOWN_BYTES (TIMING_KEY_BYTES + 8)

#define US 1000ull
#define MS 1000000ull
#define S 1000000000ull
const uint64_t timing_bound_ns[TIMING_BOUNDS] = {
	1 * US,  2 * US,   5 * US,   10 * US, 20 * US, 50 * US,  100 * US,
	200 * US, 500 * US, 1 * MS,  2 * MS,  5 * MS,  10 * MS,  20 * MS,
	50 * MS, 100 * MS, 200 * MS, 500 * MS, 1 * S,  2 * S,    5 * S,
};

static void add(_Atomic uint64_t *counter, uint64_t n)
{
	/* Only this worker writes it; others read. */
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

static unsigned bucket_of(uint64_t ns)
{
	unsigned low = 0, high = TIMING_BOUNDS;

	while (low < high) {
		unsigned middle = (low + high) / 2;
		if (ns <= timing_bound_ns[middle])
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* What of a key can stand in a line. */
static const char *show_key(const unsigned char *key, unsigned bytes, char buf[SHOWN_BYTES])
{
	unsigned n = bytes < TIMING_KEY_BYTES ? bytes : TIMING_KEY_BYTES;

	for (unsigned i = 0; i < n; i++)
		buf[i] = key[i] > ' ' && key[i] < 0x7f ? (char)key[i] : '.';
	snprintf(buf + n, SHOWN_BYTES - n, "%s", bytes > n ? "..." : "");
	return buf;
}

static void tell_slow(struct worker *w, const struct conn *c, const struct wire_request *q,
		      const void *key, uint64_t ns, uint64_t now)
{
	char shown[SHOWN_BYTES];

	if (now - w->slow_since_ns > S) {
		if (w->slow_count > TOLD_PER_SECOND)
			log_warn("worker %u: %u more slow operations", w->id,
				 w->slow_count - TOLD_PER_SECOND);
		w->slow_since_ns = now;
		w->slow_count = 0;
	}
	if (w->slow_count++ >= TOLD_PER_SECOND)
		return;
	log_warn("slow: %s of %s took %.1f ms (key %s, %llu bytes)", stats_op_name(q->op),
		 c->peer.text, (double)ns / 1e6,
		 q->key_bytes ? show_key(key, q->key_bytes, shown) : "-",
		 (unsigned long long)q->value_bytes);
}

uint64_t timing_keep(struct worker *w, uint8_t copy[TIMING_KEY_BYTES], const void *key,
		     unsigned key_bytes)
{
	uint64_t begun_ns = w->begun_ns;

	w->begun_ns = 0;
	if (begun_ns)
		memcpy(copy, key, key_bytes < TIMING_KEY_BYTES ? key_bytes : TIMING_KEY_BYTES);
	return begun_ns;
}

void timing_note(struct worker *w, const struct conn *c, const struct wire_request *q,
		 const void *key, uint64_t since_ns)
{
	if (!since_ns)
		return;
	uint64_t now = clock_ns(), ns = now - since_ns;
	uint64_t slow_ms = (uint64_t)w->server->options.slow_ms;

	add(&w->timing[q->op].bucket[bucket_of(ns)], 1);
	add(&w->timing[q->op].sum_ns, ns);
	if (slow_ms && ns >= slow_ms * MS)
		tell_slow(w, c, q, key, ns, now);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/worker/timing.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "server/worker/stats.h"

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

const char *timing_op_name(unsigned op)
{
	static const char *const names[WIRE_OPS] = {
		[WIRE_HELLO] = "hello", [WIRE_PING] = "ping",       [WIRE_GET] = "get",
		[WIRE_PUT] = "put",     [WIRE_DELETE] = "delete",   [WIRE_KEYS] = "keys",
		[WIRE_FLUSH] = "flush", [WIRE_STATS] = "stats",     [WIRE_RELEASE] = "release",
		[WIRE_LOCK] = "lock",   [WIRE_UNLOCK] = "unlock",
		[WIRE_FATE] = "fate",   [WIRE_TXN] = "txn",         [WIRE_INCR] = "incr",
		[WIRE_APPEND] = "append", [WIRE_TOUCH] = "touch",   [WIRE_BACKUP] = "backup",
		[WIRE_HINTS] = "hints",   [WIRE_PREPEND] = "prepend",
		[WIRE_WHERE] = "where",   [WIRE_CLUSTER] = "cluster",
	};

	return op < WIRE_OPS && names[op] ? names[op] : "unknown";
}

static void tell_slow(struct timings *t, const char *peer, const struct wire_request *q,
		      const void *key, uint64_t ns, uint64_t now)
{
	char shown[SHOWN_BYTES];

	if (now - t->slow_since_ns > S) {
		if (t->slow_count > TOLD_PER_SECOND)
			log_warn("worker %u: %u more slow operations", t->worker,
				 t->slow_count - TOLD_PER_SECOND);
		t->slow_since_ns = now;
		t->slow_count = 0;
	}
	if (t->slow_count++ >= TOLD_PER_SECOND)
		return;
	log_warn("slow: %s of %s took %.1f ms (key %s, %llu bytes)", timing_op_name(q->op), peer,
		 (double)ns / 1e6, q->key_bytes ? show_key(key, q->key_bytes, shown) : "-",
		 (unsigned long long)q->value_bytes);
}

void timing_note(struct timings *t, const char *peer, const struct wire_request *q,
		 const void *key, uint64_t since_ns)
{
	if (!since_ns)
		return;
	uint64_t now = clock_ns(), ns = now - since_ns;

	stats_add(&t->op[q->op].bucket[bucket_of(ns)], 1);
	stats_add(&t->op[q->op].sum_ns, ns);
	if (t->slow_ns && ns >= t->slow_ns)
		tell_slow(t, peer, q, key, ns, now);
}

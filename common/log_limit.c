/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/clock.h"
#include "common/log_limit.h"

#include <pthread.h>
#include <stdarg.h>
#include <string.h>

#define S 1000000000ull

/* A leaf; not held while a line is written, which may wait for its reader. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct log_bucket buckets[LOG_LIMIT_KINDS];

bool log_bucket_take(struct log_bucket *b, uint64_t now_ns)
{
	if (!b->filled_ns) {
		b->lines = LOG_LIMIT_BURST;
		b->filled_ns = now_ns;
	}
	/* Another thread's clock may be a little ahead. */
	if (now_ns > b->filled_ns) {
		b->lines += (double)(now_ns - b->filled_ns) / (double)S * LOG_LIMIT_PER_S;
		b->filled_ns = now_ns;
	}
	if (b->lines > LOG_LIMIT_BURST)
		b->lines = LOG_LIMIT_BURST;
	if (b->lines >= 1) {
		b->lines -= 1;
		return true;
	}
	if (!b->unsaid++)
		b->unsaid_since_ns = now_ns;
	return false;
}

/* Lock held. */
static struct log_bucket *bucket_of(enum log_level level, const char *kind)
{
	struct log_bucket *b = buckets, *last = &buckets[LOG_LIMIT_KINDS - 1];

	while (b < last && b->kind && (b->level != level || strcmp(b->kind, kind) != 0))
		b++;
	if (!b->kind)
		*b = (struct log_bucket){ .kind = b < last ? kind : "of several kinds", .level = level };
	return b;
}

void log_limited(enum log_level level, const char *kind, const char *format, ...)
{
	va_list args;
	bool may = true;

	if (!log_shows(level))
		return;
	if (!log_shows(LOG_LEVEL_DEBUG)) {
		pthread_mutex_lock(&lock);
		may = log_bucket_take(bucket_of(level, kind), clock_ns());
		pthread_mutex_unlock(&lock);
	}
	if (!may)
		return;
	va_start(args, format);
	log_args(level, format, args);
	va_end(args);
}

static void tell(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void tell(enum log_level level, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_args(level, format, args);
	va_end(args);
}

void log_limit_tell(uint64_t now_ns, bool all)
{
	for (unsigned i = 0; i < LOG_LIMIT_KINDS; i++) {
		pthread_mutex_lock(&lock);
		struct log_bucket b = buckets[i];
		uint64_t for_ns = now_ns > b.unsaid_since_ns ? now_ns - b.unsaid_since_ns : 0;
		bool due = b.unsaid && (all || for_ns >= LOG_LIMIT_TELL_S * S);
		if (due)
			buckets[i].unsaid = 0;
		pthread_mutex_unlock(&lock);
		if (due)
			tell(b.level, "%llu more like this suppressed in the last %llu s: %s",
			     (unsigned long long)b.unsaid, (unsigned long long)(for_ns / S + 1), b.kind);
	}
}

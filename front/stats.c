/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/stats.h"

#include "config.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "front/protocol/word.h"

static const struct options *options;
static time_t started;

void stats_begin(const struct options *o)
{
	options = o;
	started = time(NULL);
}

static const char *const names[] = {
#define X(name) #name,
	COUNTERS(X)
#undef X
};

/* Some begin again at "stats reset": from there on. */
static _Atomic uint64_t base[COUNTERS_ALL];

static uint64_t total(const struct front *front, enum counter counter)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < front->loop_count; i++)
		n += atomic_load_explicit(&front->loops[i]->counters.value[counter],
					  memory_order_relaxed);
	return n;
}

static uint64_t since_reset(const struct front *front, enum counter counter)
{
	return total(front, counter) - atomic_load_explicit(&base[counter], memory_order_relaxed);
}

static void reset(const struct front *front)
{
	for (unsigned i = 0; i < COUNTERS_ALL; i++)
		if (i != COUNTER_curr_connections)
			atomic_store_explicit(&base[i], total(front, i), memory_order_relaxed);
}

/* ------------------------------------------------------------- kvd's figures */

/* A number of kvd's JSON by the last word of its path, where the one before is `in`. */
static bool find_number(const char *json, const char *in, const char *name, uint64_t *number)
{
	char quoted[48];

	snprintf(quoted, sizeof quoted, "\"%s\":", in);
	json = *in ? strstr(json, quoted) : json;
	snprintf(quoted, sizeof quoted, "\"%s\":", name);
	json = json ? strstr(json, quoted) : NULL;
	if (!json)
		return false;
	*number = strtoull(json + strlen(quoted), NULL, 10);
	return true;
}

static void print_kvd(FILE *f, const char *json)
{
	static const struct {
		const char *stat, *in, *name;
	} all[] = {
		{ "curr_items", "", "keys" },
		{ "bytes", "memory", "used_bytes" },
		{ "limit_maxbytes", "memory", "budget_bytes" },
		{ "evictions", "", "evicted" },
		{ "reclaimed", "", "expired" },
	};
	uint64_t number;

	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		if (find_number(json, all[i].in, all[i].name, &number))
			fprintf(f, "STAT %s %" PRIu64 "\r\n", all[i].stat, number);
}

/* -------------------------------------------------------------------- forms */

static void print_time(FILE *f, const char *name, struct timeval tv)
{
	fprintf(f, "STAT %s %ld.%06ld\r\n", name, (long)tv.tv_sec, (long)tv.tv_usec);
}

static void print_general(FILE *f, const struct front *front, const char *kvd_json)
{
	struct rusage usage;
	time_t now = time(NULL);

	getrusage(RUSAGE_SELF, &usage);
	fprintf(f, "STAT pid %ld\r\nSTAT uptime %ld\r\nSTAT time %ld\r\n", (long)getpid(),
		(long)(now - started), (long)now);
	fprintf(f, "STAT version 1.6.18-kvfront-%s\r\nSTAT libevent %s\r\n", PACKAGE_VERSION,
		event_get_version());
	fprintf(f, "STAT pointer_size %u\r\n", (unsigned)(8 * sizeof(void *)));
	print_time(f, "rusage_user", usage.ru_utime);
	print_time(f, "rusage_system", usage.ru_stime);
	fprintf(f, "STAT max_connections %d\r\n", options->connections);
	for (unsigned i = 0; i < COUNTERS_ALL; i++)
		fprintf(f, "STAT %s %" PRIu64 "\r\n", names[i], since_reset(front, i));
	fprintf(f, "STAT threads %u\r\nSTAT accepting_conns 1\r\n", front->loop_count);
	fprintf(f, "STAT kvd_reachable %d\r\n", kvd_json != NULL);
	if (kvd_json)
		print_kvd(f, kvd_json);
}

static void print_settings(FILE *f, const struct front *front)
{
	const struct options *o = options;

	fprintf(f, "STAT maxbytes 0\r\nSTAT maxconns %d\r\n", o->connections);
	fprintf(f, "STAT tcpport %d\r\nSTAT udpport 0\r\n", o->port);
	fprintf(f, "STAT inter %s\r\n", o->port ? o->listen : "NULL");
	fprintf(f, "STAT verbosity %d\r\n",
		atomic_load_explicit(&front->verbosity, memory_order_relaxed));
	fprintf(f, "STAT domain_socket %s\r\nSTAT umask %o\r\n", o->socket ? o->socket : "NULL",
		(unsigned)o->socket_mode);
	fprintf(f, "STAT num_threads %u\r\nSTAT cas_enabled yes\r\n", front->loop_count);
	fprintf(f, "STAT tcp_backlog %d\r\nSTAT auth_enabled_ascii %s\r\n", o->backlog,
		front->auth ? "yes" : "no");
	fprintf(f, "STAT item_size_max %" PRIu64 "\r\nSTAT maxconns_fast yes\r\n",
		o->item_bytes_max);
	fprintf(f, "STAT flush_enabled %s\r\nSTAT shutdown_command %s\r\n",
		front->rules.may_flush ? "yes" : "no", front->rules.may_shut_down ? "yes" : "no");
	fprintf(f, "STAT idle_timeout %.0f\r\nSTAT binding_protocol ascii\r\n", o->idle_s);
}

/* NULL: it is answered without STAT lines and END. */
static const char *print_words(FILE *f, const struct front *front, const struct words *w)
{
	struct word first = w->word[0];

	if (!w->count || word_is(first, "settings") || word_is(first, "items") ||
	    word_is(first, "slabs")) {
		if (w->count && word_is(first, "settings"))
			print_settings(f, front);
		else if (w->count && word_is(first, "slabs"))
			fputs("STAT active_slabs 0\r\nSTAT total_malloced 0\r\n", f);
		return "END\r\n";
	}
	if (word_is(first, "sizes"))
		return "STAT sizes_status disabled\r\nEND\r\n";
	if (word_is(first, "reset")) {
		reset(front);
		return "RESET\r\n";
	}
	if (word_is(first, "detail"))
		return w->count == 2 && word_is(w->word[1], "dump") ? "END\r\n"
		       : w->count == 2 &&
				       (word_is(w->word[1], "on") || word_is(w->word[1], "off"))
			       ? "OK\r\n"
			       : "CLIENT_ERROR usage: stats detail on|off|dump\r\n";
	if (word_is(first, "cachedump"))
		return w->count < 3 ? "CLIENT_ERROR bad command line\r\n" : "END\r\n";
	return "ERROR\r\n";
}

char *stats_text(const struct front *front, const char *words, size_t bytes, const char *kvd_json)
{
	struct words w;
	char *text = NULL;
	size_t text_bytes;
	FILE *f = open_memstream(&text, &text_bytes);

	if (!f)
		return NULL;
	words_split(&w, words ? words : "", bytes);
	if (!w.count)
		print_general(f, front, kvd_json);
	fputs(print_words(f, front, &w), f);
	if (!fclose(f))
		return text;
	free(text);
	return NULL;
}

char *stats_prometheus(const struct front *front)
{
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	if (!f)
		return NULL;
	for (unsigned i = 0; i < COUNTERS_ALL; i++) {
		bool gauge = i == COUNTER_curr_connections;
		fprintf(f, "# HELP kvfront_%s%s As \"stats\" tells it; see kvfront(8).\n", names[i],
			gauge ? "" : "_total");
		fprintf(f, "# TYPE kvfront_%s%s %s\nkvfront_%s%s %" PRIu64 "\n", names[i],
			gauge ? "" : "_total", gauge ? "gauge" : "counter", names[i],
			gauge ? "" : "_total", total(front, i));
	}
	fprintf(f, "# HELP kvfront_buffers_bytes Values on their way that are on the heap.\n"
		   "# TYPE kvfront_buffers_bytes gauge\nkvfront_buffers_bytes %" PRIu64 "\n",
		atomic_load_explicit(&front->budget.used, memory_order_relaxed));
	if (!fclose(f))
		return text;
	free(text);
	return NULL;
}

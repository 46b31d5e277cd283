/* SPDX-License-Identifier: BSD-2-Clause */
/* api_reads.c -- how many READs and bytes a GET takes. */
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/integration/api.h"

static size_t value_length = 100;

static uint64_t draw(uint64_t *x)
{
	*x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
	return *x;
}

/* A key of 16 bytes. */
static void name_key(char *key, uint64_t n)
{
	snprintf(key, 17, "%016" PRIx64, (uint64_t)((n + 1) * 0x9e3779b97f4a7c15ull));
}

static void submit_and_reap(int (*submit)(uint64_t n, void *tag), uint64_t count)
{
	struct kvd_completion c[32];
	uint64_t done = 0;

	for (uint64_t n = 0; done < count;) {
		while (n < count && submit(n, &size) == KVD_OK)
			n++;
		int got = kvd_poll(session, c, 32, -1);
		for (int i = 0; i < got; i++)
			CHECK(c[i].result == KVD_OK && c[i].tag == &size);
		done += (uint64_t)got;
	}
}

static char some_value[16384];

static int load_one(uint64_t n, void *tag)
{
	char key[17];

	name_key(key, n);
	return kvd_submit_put(session, key, 16, some_value, value_length, tag);
}

static int get_one(uint64_t n, void *tag)
{
	char key[17];

	name_key(key, n % size);
	return kvd_submit_get(session, key, 16, some_value, sizeof some_value, tag);
}

static void tell(const char *what, const struct kvd_counters *a, const struct kvd_counters *b,
		 double reads_max, double bytes_max)
{
	double gets = (double)(b->gets - a->gets), reads = (double)(b->reads - a->reads) / gets;
	double bytes = (double)(b->read_bytes - a->read_bytes) / gets;

	fprintf(stderr, "%s: %.0f GETs, %.4f READs, %.1f bytes READ, %.4f mirror hits, "
		"%.4f retries a GET; %llu fallbacks\n", what, gets, reads, bytes,
		(double)(b->mirror_hits - a->mirror_hits) / gets,
		(double)(b->retries - a->retries) / gets,
		(unsigned long long)(b->fallbacks - a->fallbacks));
	CHECK(reads <= reads_max);
	CHECK(bytes <= bytes_max);
}

static void renew(bool ahead)
{
	struct kvd_options options = { .size = sizeof options, .timeout_ms = 60000,
				       .mirror_ahead = ahead };
	char address[128];

	snprintf(address, sizeof address, "%s", shared_file);
	kvd_session_delete(&session);
	kvd_client_delete(&client);
	CHECK(kvd_client_new(address, &options, &client) == KVD_OK);
	CHECK(kvd_session_new(client, &session) == KVD_OK);
}

/* `size` keys: each read once to warm the mirror, then again. */
void case_reads(void)
{
	static const size_t lengths[] = { 100, 1000 };
	struct kvd_counters a, b;
	char key[17], value[8];
	size_t bytes;

	for (unsigned i = 0; i < 2; i++) {
		value_length = lengths[i];
		submit_and_reap(load_one, size);
		renew(false);
		submit_and_reap(get_one, size);
		kvd_session_counters(session, &a);
		submit_and_reap(get_one, size);
		kvd_session_counters(session, &b);
		tell(i ? "warm, 1,000 B" : "warm, 100 B", &a, &b, 1.02,
		     16 + (double)value_length + 64);
	}
	renew(true);
	kvd_session_counters(session, &a);
	submit_and_reap(get_one, size);
	kvd_session_counters(session, &b);
	tell("first GET, index READ ahead", &a, &b, 1.10, 1e9);
	kvd_session_counters(session, &a);
	for (unsigned i = 0; i < 1000; i++) {
		name_key(key, size + i);
		CHECK(kvd_get(session, key, 16, value, sizeof value, &bytes, NULL) == KVD_NOT_FOUND);
	}
	kvd_session_counters(session, &b);
	/* Two buckets; more where one of them has an overflow node of the key's class. */
	tell("absent", &a, &b, 2.1, 1e9);
	CHECK((double)(b.round_trips - a.round_trips) <= 1.1 * 1000);
}

static uint64_t *map_shared(void)
{
	int fd = open(shared_file, O_RDWR | O_CREAT, 0600);

	CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
	uint64_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(shared != MAP_FAILED);
	close(fd);
	return shared;
}

/*
 * One of several processes: 5 % of its operations insert the next key of all, the
 * rest read keys that any of them inserted, the latest most often.
 */
void case_latest(void)
{
	uint64_t *shared = map_shared(), x = (uint64_t)getpid() * 0x9e3779b97f4a7c15ull;
	struct kvd_counters a, b;
	char key[17], value[128] = "";
	size_t bytes;

	kvd_session_counters(session, &a);
	for (uint64_t i = 0; i < size; i++) {
		uint64_t known = __atomic_load_n(&shared[1], __ATOMIC_ACQUIRE);
		if (draw(&x) % 20 == 0 || !known) {
			uint64_t n = __atomic_fetch_add(&shared[0], 1, __ATOMIC_RELAXED);
			name_key(key, n);
			CHECK(kvd_put(session, key, 16, value, 100, NULL) == KVD_OK);
			/* In order: all before it are there. */
			while (__atomic_load_n(&shared[1], __ATOMIC_ACQUIRE) != n)
				sched_yield();
			__atomic_store_n(&shared[1], n + 1, __ATOMIC_RELEASE);
			continue;
		}
		/* Zipf-like: a power law of the age. */
		double u = (double)(draw(&x) >> 11) / 9007199254740992.0;
		uint64_t age = (uint64_t)(pow((double)known, u) - 1);
		name_key(key, known - 1 - (age < known ? age : known - 1));
		CHECK(kvd_get(session, key, 16, value, sizeof value, &bytes, NULL) == KVD_OK);
	}
	kvd_session_counters(session, &b);
	tell("latest", &a, &b, 1.20, 1e9);
}

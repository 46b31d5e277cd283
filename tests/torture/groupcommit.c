/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * groupcommit DIR THREADS SECONDS KEYS VALUE_BYTES
 *
 * What RocksDB's own group commit makes of a disk: threads that each put a record of a
 * random key and wait for it to be synced.  Prints records a second.  For
 * bench/durability, next to kvd's PUTs of the same records.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <rocksdb/c.h>

#define THREADS_MAX 256

static rocksdb_t *db;
static rocksdb_writeoptions_t *sync_write;
static atomic_bool stop;
static unsigned long keys;
static size_t value_bytes;

struct thread {
	pthread_t id;
	unsigned long random;
	unsigned long puts;
};

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void die(const char *why)
{
	fprintf(stderr, "groupcommit: %s\n", why);
	exit(1);
}

static void *run(void *arg)
{
	struct thread *t = arg;
	char *value = calloc(1, value_bytes + 1), key[64], *why = NULL;

	while (value && !atomic_load(&stop)) {
		t->random = t->random * 6364136223846793005ul + 1442695040888963407ul;
		int n = snprintf(key, sizeof key, "user%020lu", (t->random >> 20) % keys);
		memcpy(value, &t->random, value_bytes < sizeof t->random ? value_bytes : sizeof t->random);
		rocksdb_put(db, sync_write, key, (size_t)n, value, value_bytes, &why);
		if (why)
			die(why);
		t->puts++;
	}
	free(value);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct thread threads[THREADS_MAX];
	char *why = NULL;

	if (argc != 6)
		die("usage: groupcommit DIR THREADS SECONDS KEYS VALUE_BYTES");
	int n = atoi(argv[2]);
	double seconds = atof(argv[3]);
	keys = strtoul(argv[4], NULL, 10);
	value_bytes = strtoul(argv[5], NULL, 10);
	if (n < 1 || n > THREADS_MAX || seconds <= 0 || !keys)
		die("out of range");
	rocksdb_options_t *o = rocksdb_options_create();
	rocksdb_options_set_create_if_missing(o, 1);
	sync_write = rocksdb_writeoptions_create();
	rocksdb_writeoptions_set_sync(sync_write, 1);
	db = rocksdb_open(o, argv[1], &why);
	if (why)
		die(why);
	double begin = now();
	for (int i = 0; i < n; i++) {
		threads[i].random = (unsigned long)i + 1;
		if (pthread_create(&threads[i].id, NULL, run, &threads[i]))
			die("no thread");
	}
	struct timespec t = { .tv_sec = (time_t)seconds,
			      .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) };
	nanosleep(&t, NULL);
	atomic_store(&stop, true);
	unsigned long puts = 0;
	for (int i = 0; i < n; i++) {
		pthread_join(threads[i].id, NULL);
		puts += threads[i].puts;
	}
	printf("%.0f\n", (double)puts / (now() - begin));
	rocksdb_close(db);
	return 0;
}

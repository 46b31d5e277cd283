/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * acks ADDR run FILE KEYS SECONDS | acks ADDR check FILE
 *
 * run: two threads put numbers, one higher each time, into keys of their own, two read
 * any of them; what was acknowledged and what was read is appended to the file, a line
 * each, before the next call.  The file is on another machine than kvd, which is
 * killed, page cache and all.  check: each key has what was last acknowledged or read,
 * or the one number that was under way, and every byte of its value.  A line at the
 * end; exit 0 if all is well.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/kvd.h"
#include "tests/torture/value.h"

#define KEYS_MAX 1000u
#define WRITERS 2u
#define READERS 2u
#define VALUE_BYTES_MAX 6000u

static struct key {
	_Atomic uint64_t acknowledged;
	uint64_t read;
} keys[KEYS_MAX];

static kvd_client *client;
static unsigned key_count;
static int file;
static atomic_bool stop;
static _Atomic uint64_t put_count, get_count, refused_count;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "acks: %s: %s\n", what, why);
	exit(1);
}

/* The number is the value's id; its length follows from it. */
static uint64_t bytes_of(uint64_t n)
{
	return VALUE_BYTES_MIN + n * 7919 % (n % 4 ? 200 : VALUE_BYTES_MAX - VALUE_BYTES_MIN);
}

static int get(kvd_session *s, unsigned i, uint64_t *n)
{
	static _Thread_local uint8_t value[VALUE_BYTES_MAX];
	char key[32];
	size_t bytes;
	int key_bytes = sprintf(key, "key%u", i);
	int rc = kvd_get(s, key, (size_t)key_bytes, value, sizeof value, &bytes, NULL);

	if (rc == KVD_OK) {
		*n = value_check(value, bytes, i);
		if (!*n)
			die("check", "bytes that nobody stored");
	}
	return rc;
}

static int put(kvd_session *s, unsigned i, uint64_t n)
{
	static _Thread_local uint8_t value[VALUE_BYTES_MAX];
	char key[32];
	int key_bytes = sprintf(key, "key%u", i);

	value_make(value, bytes_of(n), i, n);
	return kvd_put(s, key, (size_t)key_bytes, value, bytes_of(n), NULL);
}

static void note(char what, unsigned i, uint64_t n)
{
	char line[64];
	int bytes = sprintf(line, "%c %u %llu\n", what, i, (unsigned long long)n);

	if (write(file, line, (size_t)bytes) != bytes)
		die("the file", strerror(errno));
}

static void *run(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg, random = me * 7919 + 1;
	kvd_session *s;

	if (kvd_session_new(client, &s) < 0)
		die("connect", kvd_client_error(client));
	while (!atomic_load(&stop)) {
		random = random * 1103515245 + 12345;
		unsigned i = (random >> 8) % key_count;
		uint64_t n;
		if (me >= WRITERS) {
			if (get(s, i, &n) == KVD_OK)
				note('r', i, n);
			atomic_fetch_add(&get_count, 1);
			continue;
		}
		i = i / WRITERS * WRITERS + me;
		if (i >= key_count)
			continue;
		n = atomic_load(&keys[i].acknowledged) + 1;
		int rc = put(s, i, n);
		if (rc == KVD_EDISK) {
			atomic_fetch_add(&refused_count, 1);
			continue;
		}
		if (rc != KVD_OK)
			die("put", kvd_session_error(s));
		note('a', i, n);
		atomic_store(&keys[i].acknowledged, n);
		atomic_fetch_add(&put_count, 1);
	}
	kvd_session_delete(&s);
	return NULL;
}

/* What was acknowledged and read before; a last line that is cut off doesn't count. */
static void read_file(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[64], what;
	unsigned i;
	unsigned long long n;

	while (f && fgets(line, sizeof line, f)) {
		if (!strchr(line, '\n') || sscanf(line, "%c %u %llu", &what, &i, &n) != 3 || i >= KEYS_MAX)
			continue;
		if (what == 'a' && n > keys[i].acknowledged)
			keys[i].acknowledged = n;
		else if (what == 'r' && n > keys[i].read)
			keys[i].read = n;
	}
	if (f)
		fclose(f);
}

static int check(kvd_session *s)
{
	unsigned wrong = 0, there = 0;

	for (unsigned i = 0; i < KEYS_MAX; i++) {
		uint64_t acknowledged = keys[i].acknowledged, least = acknowledged, n = 0;
		int rc = get(s, i, &n);
		least = keys[i].read > least ? keys[i].read : least;
		if (rc < 0)
			die("get", kvd_session_error(s));
		there += n != 0;
		if (n < least || n > acknowledged + 1) {
			fprintf(stderr, "WRONG: key%u has %llu; acknowledged %llu, read %llu\n", i,
				(unsigned long long)n, (unsigned long long)acknowledged,
				(unsigned long long)keys[i].read);
			wrong++;
		}
		/* It was read now: from here on it counts. */
		if (n > acknowledged)
			note('a', i, n);
	}
	printf("acks: %u keys, %u wrong\n", there, wrong);
	return wrong != 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[WRITERS + READERS];
	kvd_session *s;

	if (argc < 4 || (strcmp(argv[2], "run") ? argc != 4 : argc != 6))
		die("usage", "acks ADDR run FILE KEYS SECONDS | acks ADDR check FILE");
	file = open(argv[3], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0)
		die(argv[3], strerror(errno));
	read_file(argv[3]);
	if (kvd_client_new(argv[1], NULL, &client) < 0)
		die("connect", client ? kvd_client_error(client) : "out of memory");
	if (argc == 4) {
		if (kvd_session_new(client, &s) < 0)
			die("connect", kvd_client_error(client));
		return check(s);
	}
	key_count = (unsigned)atoi(argv[4]);
	if (key_count < WRITERS || key_count > KEYS_MAX)
		die("keys", "2 to 1000");
	for (unsigned i = 0; i < WRITERS + READERS; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)(uintptr_t)i))
			die("threads", "none");
	nanosleep(&(struct timespec){ .tv_sec = atoi(argv[5]) }, NULL);
	atomic_store(&stop, true);
	for (unsigned i = 0; i < WRITERS + READERS; i++)
		pthread_join(threads[i], NULL);
	printf("acks: %llu puts, %llu refused, %llu gets\n", (unsigned long long)put_count,
	       (unsigned long long)refused_count, (unsigned long long)get_count);
	return 0;
}

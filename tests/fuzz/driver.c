/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The main function of a harness without libFuzzer.
 *
 *	HARNESS [-n MUTANTS] [-s SEED] CORPUS-FOLDER
 *
 * Runs every file of the folder, then MUTANTS inputs made from them; what it is at
 * stands in a file of the same name as the program's with .last behind it when it dies.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

#define FILES_MAX 4096u
#define BYTES_MAX 16384u

struct input {
	uint8_t *data;
	size_t bytes;
};

static struct input corpus[FILES_MAX];
static unsigned count;
static uint64_t state = 1;

/* What runs, for the file that a crash leaves. */
static uint8_t now[BYTES_MAX];
static size_t now_bytes;
static char last_path[512];

static void on_crash(int sig)
{
	int fd = open(last_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd >= 0 && write(fd, now, now_bytes) < 0)
		_exit(126);
	signal(sig, SIG_DFL);
	raise(sig);
}

static uint64_t next(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static void load(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *e;
	char path[4096];

	FUZZ_CHECK(dir != NULL);
	while ((e = readdir(dir)) && count < FILES_MAX) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
		FILE *f = fopen(path, "rb");
		FUZZ_CHECK(f != NULL);
		corpus[count].data = malloc(BYTES_MAX);
		FUZZ_CHECK(corpus[count].data != NULL);
		corpus[count].bytes = fread(corpus[count].data, 1, BYTES_MAX, f);
		count++;
		fclose(f);
	}
	closedir(dir);
	FUZZ_CHECK(count > 0);
}

static void run(void)
{
	/* Of its very size, so that a sanitizer sees who reads behind it. */
	uint8_t *exact = malloc(now_bytes ? now_bytes : 1);

	FUZZ_CHECK(exact != NULL);
	memcpy(exact, now, now_bytes);
	LLVMFuzzerTestOneInput(exact, now_bytes);
	free(exact);
}

static void change_once(void)
{
	static const uint64_t odd[] = { 0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 1ull << 30, 1ull << 31,
					0xffffffff, 1ull << 32, 1ull << 40, 1ull << 63, ~0ull };
	size_t at = now_bytes ? next() % now_bytes : 0, n;
	uint64_t value = odd[next() % (sizeof odd / sizeof *odd)];

	switch (next() % 6) {
	case 0:
		now[at] ^= (uint8_t)(1u << next() % 8);
		break;
	case 1:
		now[at] = (uint8_t)next();
		break;
	case 2: /* a number that is at a border */
		n = 1ull << next() % 4;
		if (at + n <= now_bytes)
			memcpy(now + at, &value, n);
		break;
	case 3: /* shorter */
		now_bytes = at;
		break;
	case 4: /* longer */
		n = next() % 64;
		while (n-- && now_bytes < BYTES_MAX)
			now[now_bytes++] = (uint8_t)next();
		break;
	default: { /* a piece of another */
		const struct input *other = &corpus[next() % count];
		size_t from = other->bytes ? next() % other->bytes : 0;
		n = next() % 128;
		if (n > other->bytes - from)
			n = other->bytes - from;
		if (at + n > BYTES_MAX)
			n = BYTES_MAX - at;
		memcpy(now + at, other->data + from, n);
		if (at + n > now_bytes)
			now_bytes = at + n;
	}
	}
}

int main(int argc, char **argv)
{
	uint64_t mutants = 0;
	int opt;

	while ((opt = getopt(argc, argv, "n:s:")) != -1) {
		if (opt == 'n')
			mutants = strtoull(optarg, NULL, 10);
		else if (opt == 's')
			state = strtoull(optarg, NULL, 10);
		else
			return 2;
	}
	if (optind + 1 != argc)
		return 2;
	snprintf(last_path, sizeof last_path, "%s.last", argv[0]);
	signal(SIGABRT, on_crash);
	signal(SIGSEGV, on_crash);
	signal(SIGBUS, on_crash);
	load(argv[optind]);
	for (unsigned i = 0; i < count; i++) {
		now_bytes = corpus[i].bytes;
		memcpy(now, corpus[i].data, now_bytes);
		run();
	}
	for (uint64_t i = 0; i < mutants; i++) {
		const struct input *in = &corpus[next() % count];
		now_bytes = in->bytes;
		memcpy(now, in->data, now_bytes);
		for (unsigned n = 1 + (unsigned)(next() % 4); n; n--)
			change_once();
		run();
	}
	printf("%u inputs and %llu mutants of them\n", count, (unsigned long long)mutants);
	for (unsigned i = 0; i < count; i++)
		free(corpus[i].data);
	return 0;
}

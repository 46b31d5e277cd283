/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * front.c -- all of kvfront behind one connection: its loop, parser and answers, over a
 * libkvd that is a table of this process and fails now and then.  Whatever comes in, what goes
 * out is the protocol's, the connection ends, and no memory stays.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/kvd.h"
#include "front/loop.h"
#include "front/options.h"
#include "front/stats.h"
#include "tests/fuzz/fuzz.h"

/* ------------------------------------------------------------------- libkvd */

#define KEYS 16u
#define VALUE_BYTES_MAX 70000u
#define FLIGHTS 128u

struct kvd_session {
	int fd;
	struct kvd_completion done[FLIGHTS];
	unsigned count;
};

static struct item {
	uint8_t key[KVD_KEY_BYTES_MAX];
	size_t key_bytes; /* 0: free */
	uint8_t *value;
	size_t value_bytes;
	uint64_t version;
	uint32_t flags;
	int signs;
} items[KEYS];
static uint64_t versions;
static _Atomic uint64_t calls; /* by a loop and by the clerk */
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;

static struct item *find(const void *key, size_t bytes)
{
	for (unsigned i = 0; i < KEYS; i++)
		if (items[i].key_bytes == bytes && !memcmp(items[i].key, key, bytes))
			return &items[i];
	return NULL;
}

static void drop(struct item *item)
{
	free(item->value);
	*item = (struct item){ .key_bytes = 0 };
}

static struct item *make(const void *key, size_t bytes)
{
	struct item *item = find(key, bytes);

	if (!item) {
		item = &items[versions % KEYS];
		drop(item);
		memcpy(item->key, key, bytes);
		item->key_bytes = bytes;
	}
	return item;
}

/* One in 13 fails, each way in turn. */
static int mishap(bool change)
{
	static const int ways[] = { KVD_EUNKNOWN, KVD_ECONNECT, KVD_EBUSY, KVD_EFULL,
				    KVD_ETIMEDOUT, KVD_EDENIED, KVD_ETOOBIG };

	if (++calls % 13)
		return KVD_OK;
	int way = ways[calls / 13 % (sizeof ways / sizeof *ways)];
	return change || way == KVD_ECONNECT || way == KVD_EDENIED ? way : KVD_ETIMEDOUT;
}

static int complete(kvd_session *s, void *tag, struct kvd_completion end)
{
	if (s->count == FLIGHTS)
		return KVD_EBUSY;
	end.tag = tag;
	s->done[s->count++] = end;
	eventfd_write(s->fd, 1);
	return KVD_OK;
}

static bool holds(const struct item *item, const struct kvd_change *change)
{
	switch (change ? change->condition : KVD_ALWAYS) {
	case KVD_IF_ABSENT:
		return !item;
	case KVD_IF_PRESENT:
		return item;
	case KVD_IF_VERSION:
		return item && item->version == change->version;
	}
	return true;
}

static struct kvd_completion refused(const struct item *item)
{
	return (struct kvd_completion){ .result = KVD_CONDITION,
					.version = item ? item->version : 0 };
}

static int store(kvd_session *s, const void *key, size_t key_bytes, const void *value,
		 size_t value_bytes, const struct kvd_change *change, size_t keep, bool before,
		 void *tag)
{
	int rc = mishap(true);

	FUZZ_CHECK(key_bytes && key_bytes <= 250 && change->size == sizeof *change);
	pthread_mutex_lock(&table);
	struct item *item = find(key, key_bytes);
	struct kvd_completion end = { .result = rc };
	if (!rc && !holds(item, change)) {
		end = refused(item);
	} else if (!rc) {
		item = make(key, key_bytes);
		keep = keep ? item->value_bytes : 0;
		if (keep + value_bytes > VALUE_BYTES_MAX)
			keep = 0;
		uint8_t *all = malloc(keep + value_bytes + 1);
		FUZZ_CHECK(all != NULL);
		if (keep)
			memcpy(all + (before ? value_bytes : 0), item->value, keep);
		if (value_bytes)
			memcpy(all + (before ? 0 : keep), value, value_bytes);
		free(item->value);
		item->value = all;
		item->value_bytes = keep + value_bytes;
		item->version = end.version = ++versions;
		item->flags = change->flags;
		item->signs = change->signs;
	}
	pthread_mutex_unlock(&table);
	return complete(s, tag, end);
}

int kvd_submit_put_with(kvd_session *s, const void *key, size_t key_bytes, const void *value,
			size_t value_bytes, const struct kvd_change *change, void *tag)
{
	return store(s, key, key_bytes, value, value_bytes, change, 0, false, tag);
}

int kvd_submit_append(kvd_session *s, const void *key, size_t key_bytes, const void *value,
		      size_t value_bytes, const struct kvd_change *change, void *tag)
{
	return store(s, key, key_bytes, value, value_bytes, change, 1, false, tag);
}

int kvd_submit_prepend(kvd_session *s, const void *key, size_t key_bytes, const void *value,
		       size_t value_bytes, const struct kvd_change *change, void *tag)
{
	return store(s, key, key_bytes, value, value_bytes, change, 1, true, tag);
}

int kvd_submit_get(kvd_session *s, const void *key, size_t key_bytes, void *value,
		   size_t value_bytes_max, void *tag)
{
	int rc = mishap(false);

	FUZZ_CHECK(key_bytes && key_bytes <= 250);
	pthread_mutex_lock(&table);
	const struct item *item = find(key, key_bytes);
	struct kvd_completion end = { .result = rc ? rc : KVD_NOT_FOUND };
	if (!rc && item) {
		end = (struct kvd_completion){ .result = KVD_OK, .value_bytes = item->value_bytes,
					       .version = item->version, .ttl_ms = calls % 3 * 9000,
					       .flags = item->flags, .signs = item->signs };
		if (item->value_bytes > value_bytes_max)
			end.result = KVD_ESPACE;
		else if (item->value_bytes)
			memcpy(value, item->value, item->value_bytes);
	}
	pthread_mutex_unlock(&table);
	return complete(s, tag, end);
}

int kvd_submit_del_with(kvd_session *s, const void *key, size_t key_bytes,
			const struct kvd_change *change, void *tag)
{
	int rc = mishap(true);

	pthread_mutex_lock(&table);
	struct item *item = find(key, key_bytes);
	struct kvd_completion end = { .result = rc ? rc : item ? KVD_OK : KVD_NOT_FOUND };
	if (!rc && item && !holds(item, change))
		end = refused(item);
	else if (!rc && item)
		drop(item);
	pthread_mutex_unlock(&table);
	return complete(s, tag, end);
}

int kvd_submit_touch_with(kvd_session *s, const void *key, size_t key_bytes,
			  const struct kvd_change *change, void *tag)
{
	int rc = mishap(true);

	pthread_mutex_lock(&table);
	struct item *item = find(key, key_bytes);
	struct kvd_completion end = { .result = rc ? rc : item ? KVD_OK : KVD_NOT_FOUND };
	if (!rc && item && !holds(item, change)) {
		end = refused(item);
	} else if (!rc && item) {
		item->version = end.version = ++versions;
		if (change->options & KVD_SET_SIGNS)
			item->signs = change->signs;
		if (change->expires_unix_ms == 1)
			drop(item);
	}
	pthread_mutex_unlock(&table);
	return complete(s, tag, end);
}

static int add(kvd_session *s, const void *key, size_t key_bytes, uint64_t delta,
	       const uint64_t *initial, void *tag)
{
	int rc = mishap(true);

	pthread_mutex_lock(&table);
	const struct item *item = find(key, key_bytes);
	struct kvd_completion end = { .result = rc		? rc
						: item && delta & 1 ? KVD_ENUMBER
						: item || initial ? KVD_OK
								  : KVD_NOT_FOUND };
	end.version = ++versions;
	end.number = (int64_t)(initial ? *initial : delta);
	pthread_mutex_unlock(&table);
	return complete(s, tag, end);
}

int kvd_submit_incr_u64(kvd_session *s, const void *key, size_t key_bytes, uint64_t delta,
			const uint64_t *initial, const struct kvd_change *change, void *tag)
{
	(void)change;
	return add(s, key, key_bytes, delta, initial, tag);
}

int kvd_submit_decr_u64(kvd_session *s, const void *key, size_t key_bytes, uint64_t delta,
			const uint64_t *initial, const struct kvd_change *change, void *tag)
{
	(void)change;
	return add(s, key, key_bytes, delta, initial, tag);
}

int kvd_poll(kvd_session *s, struct kvd_completion *completions, int max, int timeout_ms)
{
	unsigned n = s->count < (unsigned)max ? s->count : (unsigned)max;
	eventfd_t ignored;

	(void)timeout_ms;
	eventfd_read(s->fd, &ignored);
	/* Not in the order in which they were sent. */
	for (unsigned i = 0; i < n; i++)
		completions[i] = s->done[--s->count];
	return (int)n;
}

int kvd_arm(kvd_session *s)
{
	return s->count > 0;
}

int kvd_fd(kvd_session *s)
{
	return s->fd;
}

int kvd_connected(const kvd_session *s)
{
	return s != NULL;
}

void kvd_session_counters(const kvd_session *s, struct kvd_counters *counters)
{
	(void)s;
	*counters = (struct kvd_counters){ .reads = calls };
}

int kvd_ping(kvd_session *s, uint64_t *round_trip_ns)
{
	(void)s;
	*round_trip_ns = 1;
	return KVD_OK;
}

int kvd_flush(kvd_session *s)
{
	(void)s;
	pthread_mutex_lock(&table);
	for (unsigned i = 0; i < KEYS; i++)
		drop(&items[i]);
	pthread_mutex_unlock(&table);
	return KVD_OK;
}

int kvd_flush_at(kvd_session *s, uint64_t unix_ms)
{
	(void)s;
	FUZZ_CHECK(unix_ms <= KVD_UNIX_MS_MAX);
	return mishap(true);
}

int kvd_stats(kvd_session *s, char **json)
{
	(void)s;
	*json = strdup("{\"keys\":3,\"memory\":{\"used_bytes\":7}}");
	return *json ? KVD_OK : KVD_ENOMEM;
}

int kvd_session_new(kvd_client *client, kvd_session **session)
{
	(void)client;
	*session = calloc(1, sizeof **session);
	FUZZ_CHECK(*session != NULL);
	(*session)->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	FUZZ_CHECK((*session)->fd >= 0);
	return KVD_OK;
}

void kvd_session_delete(kvd_session **session)
{
	if (*session)
		close((*session)->fd);
	free(*session);
	*session = NULL;
}

/* The buffer is its memory. */
int kvd_buffer_alloc(kvd_client *client, size_t bytes, void **addr, kvd_buffer **buffer)
{
	(void)client;
	*addr = calloc(1, bytes);
	*buffer = *addr;
	FUZZ_CHECK(*addr);
	return KVD_OK;
}

void kvd_buffer_delete(kvd_buffer **buffer)
{
	free(*buffer);
	*buffer = NULL;
}

const char *kvd_session_error(const kvd_session *session)
{
	(void)session;
	return "kvd failed as it was to\r\nstill";
}

const char *kvd_client_error(const kvd_client *client)
{
	(void)client;
	return "no kvd";
}

const char *kvd_strerror(int result)
{
	(void)result;
	return "an error";
}

/* -------------------------------------------------------------------- front */

static struct front front;
static struct loop *loop;

static void on_shutdown(void)
{
}

static void begin(void)
{
	static struct options options = { .listen = "127.0.0.1", .connections = 10 };
	struct err err;

	front = (struct front){ .rules = { true, true }, .item_bytes_max = 66000,
				.timeout_ns = 2000000000, .stall_ns = 60000000000ull,
				.loops = &loop, .loop_count = 1, .on_shutdown = on_shutdown,
				.stats = stats_text, .budget = { .max = 1 << 20 } };
	stats_begin(&options);
	FUZZ_CHECK(!clerk_new(NULL, &front.clerk, &err));
	FUZZ_CHECK(!loop_new(&front, NULL, &loop, &err));
	FUZZ_CHECK(!loop_start(loop, &err));
}

/* -------------------------------------------------------------------- check */

struct got {
	uint8_t *at;
	size_t bytes, room;
};

/* Seconds in which nothing comes, and no thread has anything to do. */
#define STUCK_S 20u
/* Seconds in which nothing comes, whatever the threads do: one that spins is stuck, too. */
#define SILENT_S 60u

/* Another thread would run, if it got the processor. */
static bool is_runnable(const char *tid)
{
	char path[300], text[200];

	snprintf(path, sizeof path, "/proc/self/task/%s/stat", tid);
	FILE *f = atoi(tid) == gettid() ? NULL : fopen(path, "r");
	size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
	if (f)
		fclose(f);
	text[n] = '\0';
	const char *state = strrchr(text, ')');
	return state && strncmp(state, ") S", 3) != 0;
}

static bool others_run(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *e;
	bool any = false;

	FUZZ_CHECK(dir != NULL);
	while (!any && (e = readdir(dir)))
		any = e->d_name[0] != '.' && is_runnable(e->d_name);
	closedir(dir);
	return any;
}

/* On a machine with other work kvfront may not run for a while; that is no fault of its. */
static void await_input(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (unsigned silent = 0, stuck = 0; poll(&p, 1, 1000) != 1; stuck += !others_run())
		FUZZ_CHECK(++silent < SILENT_S && stuck < STUCK_S);
}

/* Values have the length that their line says, and each line is one. */
static void check(const struct got *out)
{
	size_t at = 0;

	while (at < out->bytes) {
		const uint8_t *line = out->at + at;
		const uint8_t *end = memchr(line, '\n', out->bytes - at);
		unsigned long bytes;
		char head[700] = "";
		FUZZ_CHECK(end && end > line && end[-1] == '\r');
		size_t n = (size_t)(end - line) - 1;
		FUZZ_CHECK(n < sizeof head);
		for (size_t i = 0; i < n; i++)
			head[i] = line[i] ? (char)line[i] : '0';
		at += n + 2;
		const char *number = NULL;
		if (!strncmp(head, "VA ", 3))
			number = head + 3;
		else if (!strncmp(head, "VALUE ", 6) && strchr(head + 6, ' '))
			number = strchr(strchr(head + 6, ' ') + 1, ' ');
		if (!number)
			continue;
		bytes = strtoul(number, NULL, 10);
		FUZZ_CHECK(bytes + 2 <= out->bytes - at);
		FUZZ_CHECK(!memcmp(out->at + at + bytes, "\r\n", 2));
		at += bytes + 2;
	}
}

static void receive(int fd, struct got *out, bool *open)
{
	if (out->room - out->bytes < 65536) {
		out->room = 2 * out->room + 131072;
		out->at = realloc(out->at, out->room);
		FUZZ_CHECK(out->at != NULL);
	}
	ssize_t n = recv(fd, out->at + out->bytes, out->room - out->bytes, MSG_DONTWAIT);
	if (n > 0)
		out->bytes += (size_t)n;
	else if (!n || (errno != EAGAIN && errno != EINTR))
		*open = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct got out;
	int fds[2];
	size_t sent = 0;
	bool open = true, told = false;

	if (!loop)
		begin();
	FUZZ_CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
	out.bytes = 0;
	atomic_fetch_add(&front.connections, 1);
	FUZZ_CHECK(!loop_adopt(loop, fds[1]));
	while (open) {
		if (sent < bytes) {
			/* In pieces, which end where they like. */
			size_t piece = 1 + data[sent] * 64u;
			piece = piece < bytes - sent ? piece : bytes - sent;
			ssize_t n = send(fds[0], data + sent, piece, MSG_DONTWAIT | MSG_NOSIGNAL);
			sent = n >= 0 ? sent + (size_t)n : errno == EAGAIN ? sent : bytes;
		} else if (!told) {
			shutdown(fds[0], SHUT_WR);
			told = true;
		}
		if (told)
			await_input(fds[0]);
		receive(fds[0], &out, &open);
	}
	close(fds[0]);
	check(&out);
	FUZZ_CHECK(!atomic_load(&front.budget.used));
	return 0;
}

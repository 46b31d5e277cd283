/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frontbench -- a client of memcached's text protocol that costs little: bench/front/run.
 *
 *     frontbench SOCKET load|get|set SECONDS CONNECTIONS PIPELINE KEYS VALUE-BYTES
 *
 * One thread.  Each connection has PIPELINE requests for random keys on their way, and sends
 * the next ones when all are answered.  All answers have one length, which is known, so that
 * what they cost the client is the same whoever answers; that of each of them is looked at where
 * it begins and where it ends.  Prints requests per second, the 50th and the 99th percentile
 * of the time from sending to the answer's end in us, and the client's CPU time in us a request.
 */
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench/measure/histogram.h"
#include "bench/measure/stopwatch.h"

#define KEY_FORMAT "key:%010u"
#define KEY_BYTES 14u
#define STORED "STORED\r\n"
#define REFUSAL_BYTES_MAX 300 /* of an error's line */
#define ENDING "\r\nEND\r\n"
#define QUIET_MS 30000 /* nothing is answered for so long: it has failed */
#define NS 1e9

struct conn {
	int fd;
	uint8_t *out, *in; /* a pipeline of requests, of answers */
	size_t out_bytes, sent, got;
	unsigned answered; /* of the pipeline */
	uint64_t sent_ns;
	bool writes;       /* waits until it can send more */
	unsigned keys[];   /* that were asked for */
};

struct run {
	const char *path;
	bool sets;
	double seconds;
	unsigned connections, pipeline, keys, value_bytes;
	bool in_order; /* all keys, once each */
	unsigned next_key;
	int epoll;
	size_t answer_bytes, head_bytes;
	uint8_t *value;
	uint64_t seed, warm_ns, end_ns;
	struct histogram times;
};

static unsigned pick(struct run *r)
{
	if (r->in_order)
		return r->next_key++ % r->keys;
	r->seed = r->seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((r->seed >> 33) % r->keys);
}

/* ------------------------------------------------------------------ requests */

static void compose(struct run *r, struct conn *c)
{
	size_t n = 0;

	for (unsigned i = 0; i < r->pipeline; i++) {
		c->keys[i] = pick(r);
		if (!r->sets) {
			n += (size_t)sprintf((char *)c->out + n, "get " KEY_FORMAT "\r\n", c->keys[i]);
			continue;
		}
		n += (size_t)sprintf((char *)c->out + n, "set " KEY_FORMAT " 0 0 %u\r\n", c->keys[i],
				     r->value_bytes);
		memcpy(c->out + n, r->value, r->value_bytes);
		n += r->value_bytes;
		n += (size_t)sprintf((char *)c->out + n, "\r\n");
	}
	c->out_bytes = n;
	c->sent = c->got = c->answered = 0;
}

static void await(struct run *r, struct conn *c, bool writes)
{
	struct epoll_event e = { .events = EPOLLIN | (writes ? EPOLLOUT : 0), .data.ptr = c };

	if (c->writes != writes && epoll_ctl(r->epoll, EPOLL_CTL_MOD, c->fd, &e))
		err(1, "epoll_ctl");
	c->writes = writes;
}

static void send_more(struct run *r, struct conn *c)
{
	while (c->sent < c->out_bytes) {
		ssize_t n = send(c->fd, c->out + c->sent, c->out_bytes - c->sent, MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			err(1, "send");
		c->sent += (size_t)n;
	}
	await(r, c, c->sent < c->out_bytes);
}

static void begin(struct run *r, struct conn *c)
{
	compose(r, c);
	c->sent_ns = stopwatch_ns();
	send_more(r, c);
}

/* ------------------------------------------------------------------- answers */

/* Another answer than was expected begins there; the whole line. */
static void refused(const struct run *r, const struct conn *c, const uint8_t *at)
{
	const uint8_t *end = c->in + c->got;
	const uint8_t *line_end = memchr(at, '\r', (size_t)(end - at));

	if (!line_end && end - at < REFUSAL_BYTES_MAX)
		return; /* it has not come yet, and is looked at again */
	if (!line_end || line_end - at > REFUSAL_BYTES_MAX)
		line_end = at + REFUSAL_BYTES_MAX;
	errx(1, "a %s was answered: %.*s", r->sets ? "set" : "get", (int)(line_end - at), at);
}

/* False: it is another one, of which more is to come. */
static bool check(const struct run *r, const struct conn *c, unsigned i)
{
	const uint8_t *at = c->in + i * r->answer_bytes;
	char head[64];

	snprintf(head, sizeof head, "VALUE " KEY_FORMAT " 0 %u\r\n", c->keys[i], r->value_bytes);
	if (r->sets ? memcmp(at, STORED, r->answer_bytes) == 0
		    : memcmp(at, head, r->head_bytes) == 0 &&
			      memcmp(at + r->answer_bytes - strlen(ENDING), ENDING, strlen(ENDING)) == 0)
		return true;
	refused(r, c, at);
	return false;
}

static void receive(struct run *r, struct conn *c)
{
	size_t all = r->pipeline * r->answer_bytes;
	ssize_t n = recv(c->fd, c->in + c->got, all + REFUSAL_BYTES_MAX - c->got, 0);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
		err(1, "the other end closed; recv");
	c->got += (size_t)n;
	/* An answer of another length than is known is an error, and may be the last. */
	if (c->got >= 5 && !r->sets && memcmp(c->in, "VALUE", 5) != 0)
		refused(r, c, c->in);
	uint64_t now = stopwatch_ns();
	while (c->answered < r->pipeline && (c->answered + 1) * r->answer_bytes <= c->got) {
		if (!check(r, c, c->answered))
			return;
		c->answered++;
		if (now >= r->warm_ns)
			histogram_record(&r->times, now - c->sent_ns);
	}
	if (c->got == all && !(r->in_order && r->next_key >= r->keys))
		begin(r, c);
}

/* ----------------------------------------------------------------------- run */

static struct conn *open_conn(struct run *r)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct conn *c = calloc(1, sizeof *c + r->pipeline * sizeof *c->keys);
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };

	if (!c || strlen(r->path) >= sizeof addr.sun_path)
		errx(1, "%s: too long, or out of memory", r->path);
	strcpy(addr.sun_path, r->path);
	c->in = malloc(r->pipeline * r->answer_bytes + REFUSAL_BYTES_MAX);
	c->out = malloc(r->pipeline * (r->value_bytes + 64));
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (!c->in || !c->out || c->fd < 0 || connect(c->fd, (struct sockaddr *)&addr, sizeof addr))
		err(1, "%s", r->path);
	if (epoll_ctl(r->epoll, EPOLL_CTL_ADD, c->fd, &e))
		err(1, "epoll_ctl");
	return c;
}

static void close_conn(struct conn *c)
{
	close(c->fd);
	free(c->in);
	free(c->out);
	free(c);
}

static bool is_over(const struct run *r)
{
	if (r->in_order)
		return r->next_key >= r->keys && r->times.count >= r->next_key;
	return stopwatch_ns() >= r->end_ns;
}

static void drive(struct run *r)
{
	struct epoll_event events[64];

	struct conn **conns = calloc(r->connections, sizeof *conns);

	if (!conns)
		err(1, "connections");
	for (unsigned i = 0; i < r->connections; i++)
		begin(r, conns[i] = open_conn(r));
	while (!is_over(r)) {
		int n = epoll_wait(r->epoll, events, 64, QUIET_MS);
		if (n == 0)
			errx(1, "no answer for %d s", QUIET_MS / 1000);
		for (int i = 0; i < n; i++) {
			struct conn *c = events[i].data.ptr;
			if (events[i].events & EPOLLOUT)
				send_more(r, c);
			if (events[i].events & ~(uint32_t)EPOLLOUT)
				receive(r, c);
		}
	}
	for (unsigned i = 0; i < r->connections; i++)
		close_conn(conns[i]);
	free(conns);
}

static double cpu_us(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return 1e6 * (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void measure(struct run *r)
{
	char head[64];

	r->head_bytes = (size_t)snprintf(head, sizeof head, "VALUE " KEY_FORMAT " 0 %u\r\n", 0u,
					 r->value_bytes);
	r->answer_bytes = r->sets ? strlen(STORED) : r->head_bytes + r->value_bytes + strlen(ENDING);
	r->value = malloc(r->value_bytes + 1);
	r->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (!r->value || r->epoll < 0)
		err(1, "epoll_create1");
	memset(r->value, 'v', r->value_bytes);
	stopwatch_init();
	histogram_clear(&r->times);
	uint64_t begun = stopwatch_ns();
	r->warm_ns = r->in_order ? 0 : begun + (uint64_t)(0.1 * r->seconds * NS);
	r->end_ns = begun + (uint64_t)(1.1 * r->seconds * NS);
	double cpu = cpu_us();
	drive(r);
	free(r->value);
	close(r->epoll);
	double taken = (double)(stopwatch_ns() - (r->warm_ns ? r->warm_ns : begun)) / NS;
	double n = r->times.count ? (double)r->times.count : 1;
	printf("%.0f %.1f %.1f %.3f\n", n / taken, (double)histogram_percentile(&r->times, 50) / 1e3,
	       (double)histogram_percentile(&r->times, 99) / 1e3, (cpu_us() - cpu) / n / 1.1);
}

int main(int argc, char **argv)
{
	if (argc != 8)
		errx(2, "usage: frontbench SOCKET load|get|set SECONDS CONNECTIONS PIPELINE KEYS VALUE-BYTES");
	struct run r = {
		.path = argv[1], .sets = strcmp(argv[2], "get") != 0,
		.in_order = strcmp(argv[2], "load") == 0, .seconds = atof(argv[3]),
		.connections = (unsigned)atoi(argv[4]), .pipeline = (unsigned)atoi(argv[5]),
		.keys = (unsigned)atoi(argv[6]), .value_bytes = (unsigned)atoi(argv[7]), .seed = 1,
	};

	if (r.seconds <= 0 || !r.connections || !r.pipeline || !r.keys || r.value_bytes > 1000000)
		errx(2, "a number is out of range");
	measure(&r);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* kvbench raw. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/command/command.h"
#include "bench/command/raw.h"
#include "bench/format/json.h"
#include "bench/format/outfile.h"
#include "bench/raw/peer.h"
#include "bench/raw/raw.h"
#include "bench/raw/relay.h"
#include "bench/run/options.h"
#include "client/kvd.h"
#include "common/opt.h"

#define SIZES_MAX 64
#define SIZE_MAX_BYTES (256ll << 20)
#define CPUS_MAX (2 + RAWRELAY_MAX)

static struct {
	const char *server; /* NULL: a peer of our own */
	const char *listen;
	const char *address;
	const char *device;
	const char *size, *op; /* taken out before */
	uint64_t region_bytes;
	uint64_t inline_bytes;
	int relay;
	struct rawend_legs legs;
	int depth, batch, signal, poll, memory, transport;
	const char *cpus_text;
	const char *json_path;
	bool help;

	uint64_t sizes[SIZES_MAX];
	unsigned size_count;
	bool ops[RAW_OPS];
	double seconds;
	int cpus[CPUS_MAX]; /* of this process, of the peer, of those that it forwards to */
	unsigned cpu_count; /* 0: any */
} o;

static const char *const polls[] = { "busy", "event", NULL };
static const char *const memories[] = { "device", "plain", NULL };
static const char *const transports[] = { "rc", "uc", "ud", "all", NULL };

static const struct opt table[] = {
	{ .name = "", .help = "What:" },
	{ "size", 0, OPT_STRING, &o.size, 0, 0, NULL, "SIZE",
	  "bytes of a message; may be given many times (64)" },
	{ "op", 0, OPT_STRING, &o.op, 0, 0, NULL, "NAME",
	  "READ, WRITE, CAS, ...; may be given many times (all)" },
	{ "transport", 0, OPT_CHOICE, &o.transport, 0, 0, transports, "rc|uc|ud|all",
	  "connected, unreliable, datagrams (rc): those verbs that it has" },
	{ "duration", 0, OPT_TIME, &o.seconds, 0, OPTIONS_SECONDS_MAX, NULL, "S",
	  "of each figure (500ms)" },
	{ .name = "", .help = "EXCHANGE:" },
	{ "relay", 0, OPT_INT, &o.relay, 1, RAWRELAY_MAX, NULL, "N",
	  "the peer forwards it to N others, awaits them, then answers" },
	{ "record", 0, OPT_SIZE, &o.legs.record_bytes, 1, SIZE_MAX_BYTES, NULL, "SIZE",
	  "bytes of what it forwards (those of the message)" },
	{ "ack", 0, OPT_SIZE, &o.legs.ack_bytes, 1, SIZE_MAX_BYTES, NULL, "SIZE",
	  "bytes of the others' answers to it (the same)" },
	{ "answer", 0, OPT_SIZE, &o.legs.answer_bytes, 1, SIZE_MAX_BYTES, NULL, "SIZE",
	  "bytes of the peer's own answer (the same)" },
	{ .name = "", .help = "With whom:" },
	{ "server", 's', OPT_STRING, &o.server, 0, 0, NULL, "ADDR:PORT",
	  "a kvbench raw --listen (a process of its own)" },
	{ "listen", 0, OPT_STRING, &o.listen, 0, 0, NULL, "ADDR[:PORT]",
	  "answer others, until a signal" },
	{ "address", 0, OPT_STRING, &o.address, 0, 0, NULL, "ADDR",
	  "of the process of its own (127.0.0.1)" },
	{ "device", 0, OPT_STRING, &o.device, 0, 0, NULL, "NAME",
	  "RDMA device; soft: the software device" },
	{ .name = "", .help = "How:" },
	{ "region", 0, OPT_SIZE, &o.region_bytes, 64, 1 << 30, NULL, "SIZE",
	  "memory that addresses are drawn from (16M)" },
	{ "memory", 0, OPT_CHOICE, &o.memory, 0, 0, memories, "device|plain",
	  "the peer's: from its device, or a program's own" },
	{ "inline", 0, OPT_SIZE, &o.inline_bytes, 0, 65536, NULL, "SIZE",
	  "messages up to this go inline, if the device can (256)" },
	{ "depth", 'd', OPT_INT, &o.depth, 1, RAW_DEPTH_MAX, NULL, "N",
	  "under way at once, for the rate (64)" },
	{ "batch", 0, OPT_INT, &o.batch, 1, RAW_DEPTH_MAX, NULL, "N",
	  "posted with one doorbell, for the rate (1)" },
	{ "signal", 0, OPT_INT, &o.signal, 1, RAW_DEPTH_MAX, NULL, "N",
	  "signal every so many, for the rate (1)" },
	{ "poll", 0, OPT_CHOICE, &o.poll, 0, 0, polls, "busy|event", "how to wait, on both sides" },
	{ "cpus", 0, OPT_STRING, &o.cpus_text, 0, 0, NULL, "N,N,...",
	  "the processor of kvbench, of the peer, of each other (any)" },
	{ .name = "", .help = "Reports:" },
	{ "json", 0, OPT_STRING, &o.json_path, 0, 0, NULL, "FILE", "everything, as JSON" },
	{ "help", 'h', OPT_FLAG, &o.help, 0, 0, NULL, NULL, "this list" },
	{ .name = NULL },
};

/* ------------------------------------------------------------------ arguments */

static int add_size(const char *text, struct err *err)
{
	uint64_t bytes;

	if (!opt_parse_size(text, &bytes) || bytes == 0 || bytes > (uint64_t)SIZE_MAX_BYTES)
		return err_set(err, -1, "--size: '%s' is not a size from 1 to 256M", text);
	if (o.size_count == SIZES_MAX)
		return err_set(err, -1, "--size: more than %d", SIZES_MAX);
	o.sizes[o.size_count++] = bytes;
	return 0;
}

static int add_op(const char *text, struct err *err)
{
	for (int i = 0; i < RAW_OPS; i++) {
		if (strcasecmp(text, raw_names[i]) == 0) {
			o.ops[i] = true;
			return 0;
		}
	}
	return err_set(err, -1, "--op: '%s' is none of READ, WRITE, WRITE_WITH_IMM, CAS, FADD, SEND, "
		       "SEND_WITH_IMM, EXCHANGE", text);
}

static int take_repeated(void *arg, const char *name, const char *value, struct err *err)
{
	(void)arg;
	return strcmp(name, "size") == 0 ? add_size(value, err) : add_op(value, err);
}

static void set_defaults(void)
{
	memset(&o, 0, sizeof o);
	o.address = "127.0.0.1";
	o.region_bytes = 16 << 20;
	o.inline_bytes = 256;
	o.depth = 64;
	o.batch = o.signal = 1;
	o.seconds = 0.5;
}

static void complete_lists(void)
{
	bool any = false;

	for (int i = 0; i < RAW_OPS; i++)
		any |= o.ops[i];
	for (int i = 0; i < RAW_OPS && !any; i++)
		o.ops[i] = i != RAW_EXCHANGE || o.relay > 0;
	if (o.size_count == 0)
		o.sizes[o.size_count++] = 64;
}

static bool is_chosen(int transport)
{
	return o.transport == RAWTRANSPORTS || o.transport == transport;
}

/* What each of them has, in words. */
static const char *const verbs_of[RAWTRANSPORTS] = {
	[RAWTRANSPORT_RC] = "all",
	[RAWTRANSPORT_UC] = "WRITE, WRITE_WITH_IMM, SEND and SEND_WITH_IMM",
	[RAWTRANSPORT_UD] = "SEND and SEND_WITH_IMM",
};

/* A verb by name, of a transport by name, which doesn't have it. */
static int check_transport(struct err *err)
{
	enum rawtransport t = (enum rawtransport)o.transport;

	if (o.relay > 0 && o.transport != RAWTRANSPORT_RC)
		return err_set(err, -1, "--relay is for --transport rc: a message that nobody "
			       "acknowledges is not forwarded");
	for (int op = 0; op < RAW_OPS && o.transport != RAWTRANSPORTS; op++) {
		if (o.ops[op] && !raw_has(t, (enum raw_op)op))
			return err_set(err, -1, "--op: %s has no %s; it has %s",
				       rawtransport_names[t], raw_names[op], verbs_of[t]);
	}
	return 0;
}

/* One for each process of this one's. */
static int parse_cpus(struct err *err)
{
	unsigned want = o.server != NULL || o.listen != NULL ? 1 : 2 + (unsigned)o.relay;
	const char *at = o.cpus_text;

	while (at != NULL && o.cpu_count < CPUS_MAX) {
		char *end;
		long cpu = strtol(at, &end, 10);
		if (end == at || cpu < 0 || cpu >= CPU_SETSIZE || (*end != ',' && *end != '\0'))
			break;
		o.cpus[o.cpu_count++] = (int)cpu;
		at = *end == ',' ? end + 1 : NULL;
	}
	if (at != NULL || (o.cpus_text != NULL && o.cpu_count != want))
		return err_set(err, -1, "--cpus: '%s' is not %u number%s of processors, one for each "
			       "process", o.cpus_text, want, want == 1 ? "" : "s");
	return 0;
}

static int check_exchange(struct err *err)
{
	const struct rawend_legs *legs = &o.legs;

	if (o.relay > 0 && (o.server != NULL || o.listen != NULL))
		return err_set(err, -1, "--relay is for processes of kvbench's own, without --server "
			       "and --listen");
	if (o.relay == 0 && o.ops[RAW_EXCHANGE])
		return err_set(err, -1, "--op EXCHANGE needs --relay");
	if (o.relay == 0 && (legs->record_bytes || legs->ack_bytes || legs->answer_bytes))
		return err_set(err, -1, "--record, --ack and --answer are of an exchange: with --relay");
	return 0;
}

static int parse(int argc, char **argv, struct err *err)
{
	static const char *const repeated[] = { "size", "op", NULL };

	set_defaults();
	argc = options_take(table, repeated, argc, argv, take_repeated, NULL, err);
	if (argc < 0)
		return -1;
	int operand = opt_parse(table, argc, argv, err->text, sizeof err->text);
	if (operand < 0)
		return -1;
	if (operand < argc)
		return err_set(err, -1, "'%s' is not an option", argv[operand]);
	if (o.batch > o.depth || 2 * o.signal > o.depth + 1)
		return err_set(err, -1, "--depth: must be at least --batch, and twice --signal");
	if (o.listen != NULL && o.server != NULL)
		return err_set(err, -1, "--listen and --server exclude each other");
	if (check_exchange(err) < 0 || check_transport(err) < 0 || parse_cpus(err) < 0)
		return -1;
	complete_lists();
	return 0;
}

/* --------------------------------------------------------------------- report */

static double us(double ns)
{
	return ns / 1e3;
}

static void print_head(const struct device *device)
{
	printf("%s\n\n", device->line);
	printf("%-18s %9s  %9s %9s %9s %9s  %12s %9s\n", "", "bytes", "mean us", "p50 us",
	       "p99 us", "p99.9 us", "1/s", "MB/s");
	fflush(stdout);
}

static void print_figure(const struct raw_figure *f)
{
	const struct histogram *h = &f->latency;
	char name[32];

	snprintf(name, sizeof name, "%s%s%s", f->transport != 0 ? rawtransport_names[f->transport] : "",
		 f->transport != 0 ? " " : "", raw_names[f->op]);
	printf("%-18s %9" PRIu64 "  %9.3f %9.3f %9.3f %9.3f", name, f->bytes,
	       us(histogram_mean(h)), us((double)histogram_percentile(h, 50)),
	       us((double)histogram_percentile(h, 99)), us((double)histogram_percentile(h, 99.9)));
	if (isnan(f->per_second))
		printf("  %12s %9s\n", "-", "-");
	else
		printf("  %12.0f %9.1f\n", f->per_second, f->per_second * (double)f->bytes / 1e6);
	fflush(stdout);
}

static void json_figure(struct json *j, const struct raw_figure *f)
{
	const struct histogram *h = &f->latency;

	json_open_flat(j, NULL, '{');
	json_string(j, "operation", raw_names[f->op]);
	json_string(j, "transport", rawtransport_names[f->transport]);
	json_count(j, "bytes", f->bytes);
	json_count(j, "count", h->count);
	json_real(j, "mean_us", us(histogram_mean(h)), 3);
	json_real(j, "p50_us", us((double)histogram_percentile(h, 50)), 3);
	json_real(j, "p99_us", us((double)histogram_percentile(h, 99)), 3);
	json_real(j, "p999_us", us((double)histogram_percentile(h, 99.9)), 3);
	json_real(j, "max_us", us((double)h->max_ns), 3);
	json_real(j, "per_second", f->per_second, 1);
	json_real(j, "bytes_per_second", f->per_second * (double)f->bytes, 1);
	json_close(j, '{');
}

static void json_head(struct json *j, const struct device *device)
{
	json_open(j, NULL, '{');
	json_open(j, "config", '{');
	json_string(j, "command", "raw");
	json_string(j, "version", kvd_version());
	json_count(j, "region_bytes", o.region_bytes);
	json_string(j, "memory", memories[o.memory]);
	json_count(j, "inline_bytes", o.inline_bytes);
	json_count(j, "depth", (uint64_t)o.depth);
	json_count(j, "batch", (uint64_t)o.batch);
	json_count(j, "signal", (uint64_t)o.signal);
	json_string(j, "poll", polls[o.poll]);
	json_string(j, "cpus", o.cpus_text != NULL ? o.cpus_text : "any");
	json_count(j, "relay", (uint64_t)o.relay);
	json_count(j, "record_bytes", o.legs.record_bytes);
	json_count(j, "ack_bytes", o.legs.ack_bytes);
	json_count(j, "answer_bytes", o.legs.answer_bytes);
	json_real(j, "seconds", o.seconds, 3);
	json_close(j, '{');
	json_string(j, "device", device->line);
	json_bool(j, "software_device", device->verbs->soft);
	json_open(j, "raw", '[');
}

/* ------------------------------------------------------------------- the run */

/* The head goes before the first one. */
static void tell(const struct raw_config *config, const struct raw_figure *figure, struct json *j,
		 bool *headed)
{
	if (!*headed) {
		print_head(config->device);
		if (j != NULL)
			json_head(j, config->device);
	}
	*headed = true;
	print_figure(figure);
	if (j != NULL)
		json_figure(j, figure);
}

/* One verb of one transport, if it has it. */
static int measure_verb(struct raw_config *config, enum raw_op op, struct raw_figure *figure,
			struct json *j, bool *headed, struct err *err)
{
	unsigned sizes = raw_is_atomic(op) ? 1 : o.size_count;

	if (!o.ops[op] || !raw_has(config->transport, op))
		return 0;
	for (unsigned i = 0; i < sizes; i++) {
		if (raw_measure(config, op, o.sizes[i], figure, err) < 0)
			return -1;
		tell(config, figure, j, headed);
	}
	return 0;
}

/* All figures; j may be NULL. */
static int measure_all(struct raw_config *config, struct raw_figure *figure, struct json *j,
		       struct err *err)
{
	bool headed = false;

	for (int t = 0; t < RAWTRANSPORTS; t++) {
		config->transport = (enum rawtransport)t;
		for (int op = 0; op < RAW_OPS && is_chosen(t); op++) {
			if (measure_verb(config, (enum raw_op)op, figure, j, &headed, err) < 0)
				return -1;
		}
	}
	if (j != NULL) {
		json_close(j, '[');
		json_close(j, '{');
	}
	return 0;
}

static int measure_to_files(struct raw_config *config, struct err *err)
{
	struct raw_figure *figure = malloc(sizeof *figure);
	struct outfile out;
	struct json j = { 0 };
	int rc = -1;

	if (figure == NULL)
		return err_set(err, -1, "out of memory");
	if (o.json_path == NULL) {
		rc = measure_all(config, figure, NULL, err);
	} else if (outfile_open(&out, o.json_path, err) == 0) {
		j.file = out.file;
		rc = measure_all(config, figure, &j, err);
		if (outfile_close(&out, err) < 0)
			rc = -1;
	}
	free(figure);
	return rc;
}

/* This process, and those that it forks from now on, run where the i-th is to. */
static int move_to(unsigned i, struct err *err)
{
	cpu_set_t set;

	if (i >= o.cpu_count)
		return 0;
	CPU_ZERO(&set);
	CPU_SET((size_t)o.cpus[i], &set);
	if (sched_setaffinity(0, sizeof set, &set) == 0)
		return 0;
	return err_set_errno(err, -1, errno, "--cpus: can't run on processor %d", o.cpus[i]);
}

/* The peer, or where it is one of our own all of them, those that it forwards to first. */
static int begin_peers(struct rawpeer *peers, struct addr *addr, struct err *err)
{
	struct rawrelay_to to = { .count = 0 };

	for (; to.count < (unsigned)o.relay; to.count++) {
		if (move_to(2 + to.count, err) < 0 ||
		    rawpeer_begin(&peers[1 + to.count], NULL, o.address, o.device, NULL,
				  &to.addr[to.count], err) < 0)
			return -1;
	}
	if (move_to(1, err) < 0 ||
	    rawpeer_begin(&peers[0], o.server, o.address, o.device, &to, addr, err) < 0)
		return -1;
	return move_to(0, err);
}

static int run(struct err *err)
{
	struct rawpeer peers[1 + RAWRELAY_MAX] = { { 0 } };
	struct device device;
	struct raw_config config = {
		.device = &device,
		.region_bytes = o.region_bytes,
		.inline_bytes = o.inline_bytes,
		.depth = (uint32_t)o.depth,
		.batch = (uint32_t)o.batch,
		.signal = (uint32_t)o.signal,
		.events = o.poll == 1,
		.legs = o.legs,
		.plain = o.memory == 1,
		.seconds = o.seconds,
	};
	int rc;

	rc = begin_peers(peers, &config.addr, err);
	if (rc == 0)
		rc = device_choose(&device, o.device, &config.addr, err);
	if (rc == 0)
		rc = measure_to_files(&config, err);
	for (unsigned i = 0; i < 1 + RAWRELAY_MAX; i++)
		rawpeer_end(&peers[i]);
	return rc;
}

static int serve(struct err *err)
{
	struct addr addr;

	if (addr_parse(&addr, o.listen, err) < 0)
		return -1;
	if (strchr(o.listen, ':') == NULL)
		addr_set_port(&addr, 0);
	if (move_to(0, err) < 0)
		return -1;
	return rawpeer_serve(o.device, &addr, NULL, STDOUT_FILENO, err);
}

int command_raw(int argc, char **argv)
{
	struct err err = { "" };

	if (parse(argc, argv, &err) < 0)
		return command_fail(EXIT_USAGE, &err);
	if (o.help) {
		printf("usage: kvbench raw [--size SIZE]... [options]\n"
		       "       kvbench raw --listen ADDR[:PORT]\n");
		opt_print_help(table);
		return EXIT_DONE;
	}
	if ((o.listen != NULL ? serve(&err) : run(&err)) < 0)
		return command_fail(EXIT_TROUBLE, &err);
	return EXIT_DONE;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kvbench sg: a value that lies in K blocks with gaps between them, sent and fetched
 * in two ways each.
 *
 * Gather: one SEND (or as many as the device's list length makes necessary) with a list of
 * the blocks, against a copy of the blocks into one buffer and a SEND of that; until the
 * peer's answer to the last one.  Scatter: one READ into the blocks by a list, against a
 * READ into one buffer and copies from there; until the bytes are in the blocks.  The two
 * take turns, and so share whatever else the machine does.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/command/command.h"
#include "bench/command/sg.h"
#include "bench/format/json.h"
#include "bench/format/outfile.h"
#include "bench/measure/histogram.h"
#include "bench/measure/stopwatch.h"
#include "bench/raw/end.h"
#include "bench/raw/peer.h"
#include "bench/run/options.h"
#include "client/kvd.h"
#include "common/opt.h"

#define BLOCKS_MAX 1024
#define BLOCK_BYTES_MIN 16u
#define WR_MAX BLOCKS_MAX
#define WARMUP 50u

static struct {
	const char *server;
	const char *address;
	const char *device;
	int blocks;
	uint64_t max_bytes;
	uint64_t stride_bytes; /* 0: twice the block */
	double seconds;
	const char *json_path;
	bool help;
} o;

static const struct opt table[] = {
	{ "blocks", 'k', OPT_INT, &o.blocks, 1, BLOCKS_MAX, NULL, "N", "blocks of a value (8)" },
	{ "max", 0, OPT_SIZE, &o.max_bytes, BLOCK_BYTES_MIN, 1 << 20, NULL, "SIZE",
	  "the largest block; from 16 bytes, doubling (16K)" },
	{ "stride", 0, OPT_SIZE, &o.stride_bytes, 1, 16 << 20, NULL, "SIZE",
	  "from one block to the next (twice the block)" },
	{ "duration", 0, OPT_TIME, &o.seconds, 0, OPTIONS_SECONDS_MAX, NULL, "S",
	  "of each line (200ms)" },
	{ "server", 's', OPT_STRING, &o.server, 0, 0, NULL, "ADDR:PORT",
	  "a kvbench raw --listen (a process of its own)" },
	{ "address", 0, OPT_STRING, &o.address, 0, 0, NULL, "ADDR",
	  "of the process of its own (127.0.0.1)" },
	{ "device", 0, OPT_STRING, &o.device, 0, 0, NULL, "NAME",
	  "RDMA device; soft: the software device" },
	{ "json", 0, OPT_STRING, &o.json_path, 0, 0, NULL, "FILE", "the table, as JSON" },
	{ "help", 'h', OPT_FLAG, &o.help, 0, 0, NULL, NULL, "this list" },
	{ .name = NULL },
};

enum direction { GATHER, SCATTER, DIRECTIONS };
enum way { LIST, COPY, WAYS };

static const char *const direction_names[DIRECTIONS] = { "gather", "scatter" };

struct sg {
	struct rawend end;
	enum direction direction;
	uint64_t blocks, block_bytes, stride_bytes;
	uint8_t *value;  /* the blocks, in the registered region */
	uint8_t *packed; /* behind them */
	struct ibv_sge sge[BLOCKS_MAX];
	struct ibv_send_wr wr[WR_MAX];
	uint32_t wr_count;
	struct histogram latency[WAYS];
};

/* -------------------------------------------------------------- work requests */

static uint64_t value_bytes(const struct sg *s)
{
	return s->blocks * s->block_bytes;
}

/* One work request for the blocks from `first` on; how many it takes. */
static uint32_t add_wr(struct sg *s, uint64_t first)
{
	uint64_t left = s->blocks - first, most = s->end.config.send_sge;
	uint32_t count = (uint32_t)(left < most ? left : most);
	struct ibv_send_wr *wr = &s->wr[s->wr_count];

	*wr = (struct ibv_send_wr){
		.sg_list = &s->sge[first],
		.num_sge = (int)count,
		.opcode = s->direction == GATHER ? IBV_WR_SEND : IBV_WR_RDMA_READ,
		.send_flags = first + count == s->blocks ? IBV_SEND_SIGNALED : 0,
		.wr.rdma = { .remote_addr = s->end.remote_addr + first * s->block_bytes,
			     .rkey = s->end.remote_rkey },
	};
	if (s->wr_count > 0)
		s->wr[s->wr_count - 1].next = wr;
	s->wr_count++;
	return count;
}

static void list_blocks(struct sg *s)
{
	s->wr_count = 0;
	for (uint64_t i = 0; i < s->blocks; i++)
		s->sge[i] = (struct ibv_sge){ (uintptr_t)(s->value + i * s->stride_bytes),
					      (uint32_t)s->block_bytes, s->end.mr->lkey };
	for (uint64_t i = 0; i < s->blocks;)
		i += add_wr(s, i);
}

static void one_buffer(struct sg *s)
{
	s->sge[0] = (struct ibv_sge){ (uintptr_t)s->packed, (uint32_t)value_bytes(s),
				      s->end.mr->lkey };
	s->wr[0] = (struct ibv_send_wr){
		.sg_list = &s->sge[0],
		.num_sge = 1,
		.opcode = s->direction == GATHER ? IBV_WR_SEND : IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = s->end.remote_addr, .rkey = s->end.remote_rkey },
	};
	s->wr_count = 1;
}

static void pack(struct sg *s)
{
	for (uint64_t i = 0; i < s->blocks; i++)
		memcpy(s->packed + i * s->block_bytes, s->value + i * s->stride_bytes,
		       s->block_bytes);
}

static void unpack(struct sg *s)
{
	for (uint64_t i = 0; i < s->blocks; i++)
		memcpy(s->value + i * s->stride_bytes, s->packed + i * s->block_bytes,
		       s->block_bytes);
}

/* Posts, and waits for the last completion and, of SENDs, for all answers. */
static int run_requests(struct sg *s, struct err *err)
{
	uint32_t answers = s->direction == GATHER ? s->wr_count : 0;
	bool sent = false;
	struct ibv_send_wr *bad;
	struct ibv_wc wc[16];
	int rc = ibv_post_send(s->end.qp, s->wr, &bad);

	if (rc != 0)
		return err_set_errno(err, -1, rc, "posting a list of %u requests", s->wr_count);
	while (!sent || answers > 0) {
		int n = rawend_wait(&s->end, wc, 16, err);
		if (n < 0)
			return -1;
		for (int i = 0; i < n; i++) {
			sent |= !(wc[i].opcode & IBV_WC_RECV);
			if (!(wc[i].opcode & IBV_WC_RECV))
				continue;
			answers--;
			if (rawend_post_receive(&s->end) != 0)
				return err_set(err, -1, "posting a receive failed");
		}
	}
	return 0;
}

static int one_way(struct sg *s, enum way way, uint64_t *ns, struct err *err)
{
	uint64_t begin = stopwatch_ns();

	if (way == LIST)
		list_blocks(s);
	if (way == COPY)
		one_buffer(s);
	if (way == COPY && s->direction == GATHER)
		pack(s);
	if (run_requests(s, err) < 0)
		return -1;
	if (way == COPY && s->direction == SCATTER)
		unpack(s);
	*ns = stopwatch_ns() - begin;
	return 0;
}

/* -------------------------------------------------------------------- measure */

static int measure_line(struct sg *s, struct err *err)
{
	uint64_t end = stopwatch_ns() + (uint64_t)(o.seconds * 1e9), ns;

	histogram_clear(&s->latency[LIST]);
	histogram_clear(&s->latency[COPY]);
	for (uint64_t i = 0; i < 2 * WARMUP || stopwatch_ns() < end; i++) {
		/* LIST COPY COPY LIST ...: neither always follows the other. */
		enum way way = (i ^ (i >> 1)) & 1 ? COPY : LIST;
		if (one_way(s, way, &ns, err) < 0)
			return -1;
		if (i >= WARMUP)
			histogram_record(&s->latency[way], ns);
	}
	return 0;
}

static int sg_connect(struct sg *s, struct device *device, const struct addr *addr,
		      struct err *err)
{
	uint64_t span = s->blocks * s->stride_bytes, bytes = value_bytes(s);
	struct rawend_config config = {
		.region_bytes = span + bytes + -(span + bytes) % 64,
		.send_depth = WR_MAX + 1,
		.send_sge = RAWEND_SGE_MAX,
		.recv_depth = (uint32_t)s->blocks + 1,
		.recv_bytes = bytes,
	};

	memset(&s->end, 0, sizeof s->end);
	if (rawend_connect(&s->end, device, addr, &config,
			   s->direction == GATHER ? RAWEND_ECHO : RAWEND_PASSIVE, err) < 0)
		return -1;
	s->value = s->end.memory;
	s->packed = s->end.memory + span;
	return 0;
}

static double median_us(const struct histogram *h)
{
	return (double)histogram_percentile(h, 50) / 1e3;
}

/* Below 1: the list is better; what differs by less than 2 % is called the same. */
static double ratio(const struct sg *s)
{
	return median_us(&s->latency[LIST]) / median_us(&s->latency[COPY]);
}

static bool list_wins(const struct sg *s)
{
	return ratio(s) < 0.98;
}

static bool copy_wins(const struct sg *s)
{
	return ratio(s) > 1.02;
}

static void print_line(const struct sg *s)
{
	printf("%-8s %10" PRIu64 " %10" PRIu64 " %12.3f %12.3f %8.2f  %s\n",
	       direction_names[s->direction], s->block_bytes, value_bytes(s),
	       median_us(&s->latency[LIST]), median_us(&s->latency[COPY]), ratio(s),
	       list_wins(s) ? "list" : copy_wins(s) ? "copy" : "same");
	fflush(stdout);
}

static void json_line(struct json *j, const struct sg *s)
{
	json_open_flat(j, NULL, '{');
	json_string(j, "direction", direction_names[s->direction]);
	json_count(j, "block_bytes", s->block_bytes);
	json_count(j, "stride_bytes", s->stride_bytes);
	json_count(j, "bytes", value_bytes(s));
	json_real(j, "list_us", median_us(&s->latency[LIST]), 3);
	json_real(j, "copy_us", median_us(&s->latency[COPY]), 3);
	json_close(j, '{');
}

/* The least size at which the list won and from which on it never lost; 0: none. */
struct crossover {
	uint64_t block_bytes;
};

static void follow(struct crossover *c, const struct sg *s)
{
	if (copy_wins(s))
		c->block_bytes = 0;
	else if (list_wins(s) && c->block_bytes == 0)
		c->block_bytes = s->block_bytes;
}

static void tell(const struct crossover *c, enum direction direction)
{
	if (c->block_bytes > 0)
		printf("%s: the list is better from blocks of %" PRIu64 " bytes on\n",
		       direction_names[direction], c->block_bytes);
	else
		printf("%s: the list is better from no block size on\n",
		       direction_names[direction]);
}

static int measure_direction(struct sg *s, struct device *device, const struct addr *addr,
			     struct json *j, struct crossover *crossover, struct err *err)
{
	for (s->block_bytes = BLOCK_BYTES_MIN; s->block_bytes <= o.max_bytes; s->block_bytes *= 2) {
		int rc;
		s->stride_bytes = o.stride_bytes > s->block_bytes ? o.stride_bytes
								  : 2 * s->block_bytes;
		rc = sg_connect(s, device, addr, err);
		if (rc == 0)
			rc = measure_line(s, err);
		rawend_clear(&s->end);
		if (rc < 0)
			return -1;
		print_line(s);
		follow(crossover, s);
		if (j != NULL)
			json_line(j, s);
	}
	return 0;
}

static void json_head(struct json *j, const struct device *device)
{
	json_open(j, NULL, '{');
	json_open(j, "config", '{');
	json_string(j, "command", "sg");
	json_string(j, "version", kvd_version());
	json_count(j, "blocks", (uint64_t)o.blocks);
	json_real(j, "seconds", o.seconds, 3);
	json_close(j, '{');
	json_string(j, "device", device->line);
	json_bool(j, "software_device", device->verbs->soft);
	json_open(j, "sg", '[');
}

static int measure(struct sg *s, struct device *device, const struct addr *addr, struct json *j,
		   struct err *err)
{
	struct crossover crossovers[DIRECTIONS] = { { 0 } };

	printf("%s\n%d blocks; us until the answer (gather) or the bytes are there (scatter), p50\n\n",
	       device->line, o.blocks);
	printf("%-8s %10s %10s %12s %12s %8s  %s\n", "", "block", "bytes", "list us", "copy us",
	       "ratio", "better");
	if (j != NULL)
		json_head(j, device);
	for (int i = 0; i < DIRECTIONS; i++) {
		s->direction = (enum direction)i;
		if (measure_direction(s, device, addr, j, &crossovers[i], err) < 0)
			return -1;
	}
	printf("\n");
	for (int i = 0; i < DIRECTIONS; i++)
		tell(&crossovers[i], (enum direction)i);
	if (j != NULL) {
		json_close(j, '[');
		json_close(j, '{');
	}
	return 0;
}

static int measure_to_files(struct device *device, const struct addr *addr, struct err *err)
{
	struct sg *s = calloc(1, sizeof *s);
	struct outfile out;
	struct json j = { 0 };
	int rc = -1;

	if (s == NULL)
		return err_set(err, -1, "out of memory");
	s->blocks = (uint64_t)o.blocks;
	if (o.json_path == NULL) {
		rc = measure(s, device, addr, NULL, err);
	} else if (outfile_open(&out, o.json_path, err) == 0) {
		j.file = out.file;
		rc = measure(s, device, addr, &j, err);
		if (outfile_close(&out, err) < 0)
			rc = -1;
	}
	free(s);
	return rc;
}

/* ------------------------------------------------------------------ the command */

static int parse(int argc, char **argv, struct err *err)
{
	memset(&o, 0, sizeof o);
	o.address = "127.0.0.1";
	o.blocks = 8;
	o.max_bytes = 16384;
	o.seconds = 0.2;
	int operand = opt_parse(table, argc, argv, err->text, sizeof err->text);
	if (operand < 0)
		return -1;
	if (operand < argc)
		return err_set(err, -1, "'%s' is not an option", argv[operand]);
	return 0;
}

static int run(struct err *err)
{
	struct rawpeer peer = { 0 };
	struct device device;
	struct addr addr;
	int rc;

	if (rawpeer_begin(&peer, o.server, o.address, o.device, NULL, &addr, err) < 0)
		return -1;
	rc = device_choose(&device, o.device, &addr, err);
	if (rc == 0)
		rc = measure_to_files(&device, &addr, err);
	rawpeer_end(&peer);
	return rc;
}

int command_sg(int argc, char **argv)
{
	struct err err = { "" };

	if (parse(argc, argv, &err) < 0)
		return command_fail(EXIT_USAGE, &err);
	if (o.help) {
		printf("usage: kvbench sg [options]\n");
		opt_print_help(table);
		return EXIT_DONE;
	}
	return run(&err) < 0 ? command_fail(EXIT_TROUBLE, &err) : EXIT_DONE;
}

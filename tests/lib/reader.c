/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/reader.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/session.h"
#include "tests/lib/fixture.h"

/* One aligned word of a READ, and where its bytes go. */
struct sample {
	const uint64_t *from;
	unsigned skip, bytes;
	uint8_t *to;
	unsigned first; /* of these bytes, that go to `to`; the others to `to2` */
	uint8_t *to2;
};

struct reader {
	const struct table *table;
	struct kvd_client client;
	struct kvd_session session;
	struct op op;
	struct op_memory memory;
	uint64_t random;
	struct sample *samples;
	size_t n, room;
	uint64_t flip_offset;
	unsigned flip_bit, flip_times;
};

static void die(const char *what)
{
	fprintf(stderr, "reader: %s\n", what);
	abort();
}

/* --------------------------------------------------- in the place of the device */

static struct reader *reader_of(struct op *op)
{
	return (struct reader *)((char *)op - offsetof(struct reader, op));
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct ibv_mr *mr = calloc(1, sizeof *mr);

	(void)pd;
	(void)access;
	if (!mr)
		die("no memory");
	mr->addr = addr;
	mr->length = length;
	return mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
	free(mr);
	return 0;
}

static const struct verbs verbs_reader = { .name = "reader", .reg_mr = reg_mr,
					   .dereg_mr = dereg_mr };

static struct sample *new_sample(struct reader *r)
{
	if (r->n == r->room) {
		r->room = r->room ? 2 * r->room : 256;
		r->samples = realloc(r->samples, r->room * sizeof *r->samples);
		if (!r->samples)
			die("no memory");
	}
	return &r->samples[r->n++];
}

/* What a device checks, too. */
static void check_read(const struct reader *r, const struct op *op, uint64_t remote,
		       const uint8_t *to, uint32_t bytes, const uint8_t *to2, uint32_t bytes2)
{
	uint64_t base = (uintptr_t)r->table->base;

	if (remote < base || remote + bytes + bytes2 > base + r->table->bytes)
		die("a READ outside the table");
	if (bytes && (to < (const uint8_t *)&r->memory ||
		      to + bytes > (const uint8_t *)(&r->memory + 1)))
		die("a READ to memory that is not registered");
	if (bytes2 && (!op->mr || to2 < (const uint8_t *)op->mr->addr ||
		       to2 + bytes2 > (const uint8_t *)op->mr->addr + op->mr->length))
		die("a READ to more of the caller's memory than is registered");
}

void op_read_split(struct op *op, uint64_t remote, uint32_t rkey, void *to, uint32_t bytes,
		   void *to2, uint32_t lkey2, uint32_t bytes2, bool last)
{
	struct reader *r = reader_of(op);
	uint32_t all = bytes + bytes2;

	(void)rkey;
	(void)lkey2;
	check_read(r, op, remote, to, bytes, to2, bytes2);
	for (uint32_t at = 0; at < all;) {
		unsigned skip = (unsigned)(remote + at) & 7, n = 8 - skip;
		struct sample *s = new_sample(r);
		if (n > all - at)
			n = all - at;
		*s = (struct sample){ .from = (const uint64_t *)(uintptr_t)(remote + at - skip),
				      .skip = skip, .bytes = n };
		if (at < bytes) {
			s->to = (uint8_t *)to + at;
			s->first = n < bytes - at ? n : bytes - at;
			s->to2 = to2;
		} else {
			s->to2 = (uint8_t *)to2 + (at - bytes);
		}
		at += n;
	}
	op->reads += last;
	op->session->counters.reads++;
	op->session->counters.read_bytes += all;
}

void op_read(struct op *op, uint64_t remote, uint32_t rkey, void *to, uint32_t lkey,
	     uint32_t bytes, bool last)
{
	(void)lkey;
	op_read_split(op, remote, rkey, to, bytes, NULL, 0, 0, last);
}

uint32_t flight_room(const struct kvd_session *s)
{
	return s->sq_depth;
}

void op_done(struct op *op, int result)
{
	free(op->mr);
	op->mr = NULL;
	if (result != KVD_OK && op->allocate) {
		free(op->value);
		op->value = NULL;
	}
	op->result = result;
	op->done = true;
}

/* It would ask the server. */
int change_start(struct op *op, enum wire_op wire, unsigned flags, const void *value,
		 size_t value_bytes, uint64_t arg)
{
	(void)wire, (void)flags, (void)value, (void)value_bytes, (void)arg;
	op_done(op, KVD_EBUSY);
	return 0;
}

void change_reply(struct op *op)
{
	(void)op;
	die("a reply from nobody");
}

/* -------------------------------------------------------------------- sampling */

static void sample(struct reader *r, const struct sample *s)
{
	uint64_t word = __atomic_load_n(s->from, __ATOMIC_RELAXED);
	uint64_t offset = table_offset(r->table, s->from);
	uint8_t bytes[8];

	if (r->flip_times && r->flip_offset / 8 == offset / 8) {
		word ^= 1ull << (8 * (r->flip_offset % 8) + r->flip_bit);
		r->flip_times--;
	}
	memcpy(bytes, &word, sizeof bytes);
	if (s->first)
		memcpy(s->to, bytes + s->skip, s->first);
	if (s->bytes > s->first)
		memcpy(s->to2, bytes + s->skip + s->first, s->bytes - s->first);
}

bool reader_step(struct reader *r, unsigned words)
{
	while (words-- && !r->op.done) {
		if (r->n) {
			size_t i = fixture_random(&r->random) % r->n;
			sample(r, &r->samples[i]);
			r->samples[i] = r->samples[--r->n];
		}
		if (!r->n) {
			r->op.reads = 0;
			get_advance(&r->op);
		}
	}
	return !r->op.done;
}

void reader_begin(struct reader *r, const void *key, size_t key_bytes, void *value,
		  size_t value_bytes_max)
{
	struct op *op = &r->op;

	if (op->allocate)
		free(op->value);
	memset(op, 0, sizeof *op);
	op->session = &r->session;
	op->kind = OP_GET;
	op->memory = &r->memory;
	memcpy(op->key, key, key_bytes);
	op->key_bytes = (uint32_t)key_bytes;
	op->hash = hash_key(key, key_bytes);
	op->value = value;
	op->value_bytes_max = value_bytes_max;
	op->allocate = !value;
	r->n = 0;
	get_start(op);
}

struct reader_result reader_end(struct reader *r)
{
	const struct op *op = &r->op;

	assert(op->done);
	return (struct reader_result){ .result = op->result, .value = op->value,
				       .value_bytes = op->result_bytes,
				       .version = op->result_version };
}

struct reader_result reader_get(struct reader *r, const void *key, size_t key_bytes, void *value,
				size_t value_bytes_max)
{
	reader_begin(r, key, key_bytes, value, value_bytes_max);
	while (reader_step(r, 1u << 30))
		;
	return reader_end(r);
}

void reader_flip(struct reader *r, uint64_t offset, unsigned bit, unsigned times)
{
	r->flip_offset = offset;
	r->flip_bit = bit;
	r->flip_times = times;
}

const struct kvd_counters *reader_counters(const struct reader *r)
{
	return &r->session.counters;
}

/* ---------------------------------------------------------------- begin and end */

struct reader *reader_new(const struct table *t, size_t mirror_bytes, uint64_t seed)
{
	struct reader *r = calloc(1, sizeof *r);

	if (!r)
		die("no memory");
	r->table = t;
	r->random = seed;
	r->client.dir_entries = t->dir_entries;
	r->client.dir = calloc(t->dir_entries, sizeof *r->client.dir);
	r->client.limits.message_bytes_max = 1u << 16;
	r->client.mirror = mirror_new(mirror_bytes);
	atomic_store(&r->client.buckets, __atomic_load_n(&t->header->buckets, __ATOMIC_ACQUIRE));
	r->session.client = &r->client;
	r->session.verbs = &verbs_reader;
	r->session.sq_depth = 64;
	r->session.welcome = (struct wire_welcome){
		.table_addr = (uintptr_t)t->base, .table_bytes = t->bytes, .stripes = t->stripes,
		.scratch_offset = t->scratch_offset, .dir_offset = t->dir_offset,
		.dir_entries = t->dir_entries, .segment_bytes = t->segment_bytes,
		.workers = t->workers,
	};
	if (!r->client.dir)
		die("no memory");
	return r;
}

void reader_delete(struct reader *r)
{
	if (r->op.allocate)
		free(r->op.value);
	free(r->op.mr);
	mirror_delete(r->client.mirror);
	free((void *)r->client.dir);
	free(r->samples);
	free(r);
}

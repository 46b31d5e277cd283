/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/reader.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/get/get.h"
#include "client/op/engine.h"
#include "client/op/hints.h"
#include "client/op/look.h"
#include "client/op/message.h"
#include "client/op/operation.h"
#include "client/op/operation_impl.h"
#include "client/op/post.h"
#include "client/op/request.h"
#include "tests/lib/fixture.h"

/* One aligned word of a READ, and which bytes of it go where; of a quick reader all of it. */
struct sample {
	const uint64_t *from;
	unsigned skip, bytes;
	uint8_t *to;
};

/* A READ whose bytes go to the caller's memory when all of them are there. */
struct scatter {
	uint8_t *staged;
	struct ibv_sge sge[KVD_IOV_MAX + 1];
	unsigned n;
};

struct reader {
	const struct table *table;
	struct kvd_options options;
	_Atomic uint64_t buckets;
	struct engine engine;
	struct op op;
	struct op_memory memory;
	struct get *get;
	uint64_t random;
	bool in_order;
	bool quick;
	uint64_t table_bytes;
	struct sample *samples;
	size_t n, room;
	struct scatter *scatters;
	size_t scatter_count;
	const void *into; /* the caller's memory, or NULL */
	uint64_t flip_offset;
	unsigned flip_bit, flip_times;
	struct reader_scratches scratches;
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

static const struct verbs verbs_reader = { .name = "reader",
					   .reg_mr = reg_mr,
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
static void check_remote(const struct reader *r, uint64_t remote, uint32_t bytes)
{
	uint64_t base = (uintptr_t)r->table->base;

	if (remote < base || remote + bytes > base + r->table_bytes)
		die("a READ outside the table");
}

static void check_local(const struct reader *r, const void *to, uint64_t bytes)
{
	const uint8_t *at = to, *begin = (const uint8_t *)&r->memory;

	if (at < begin || at + bytes > begin + sizeof r->memory)
		die("a READ to memory that is not registered");
}

static void post_read(struct reader *r, uint64_t remote, uint8_t *to, uint32_t bytes)
{
	check_remote(r, remote, bytes);
	for (uint32_t at = 0; at < bytes;) {
		unsigned skip = (unsigned)(remote + at) & 7, n = 8 - skip;
		if (n > bytes - at || r->quick)
			n = bytes - at;
		*new_sample(r) =
			(struct sample){ .from = (const uint64_t *)(uintptr_t)(remote + at - skip),
					 .skip = skip,
					 .bytes = n,
					 .to = to + at };
		at += n;
	}
	r->engine.counters.reads++;
	r->engine.counters.read_bytes += bytes;
}

static void note_scratch(struct reader *r, uint64_t remote, uint32_t bytes)
{
	uint64_t offset = remote - (uintptr_t)r->table->base - r->table->scratch_offset;

	if (offset >= r->table->workers * sizeof(struct layout_scratch))
		return;
	offset %= sizeof(struct layout_scratch);
	if (offset >= offsetof(struct layout_scratch, item))
		r->scratches.items++;
	else if (bytes > offsetof(struct layout_scratch, txn))
		r->scratches.txns++;
	else
		r->scratches.changes++;
}

void op_read(struct op *op, uint64_t remote, uint32_t rkey, void *to, uint32_t bytes, bool last)
{
	struct reader *r = reader_of(op);

	(void)rkey;
	check_local(r, to, bytes);
	note_scratch(r, remote, bytes);
	post_read(r, remote, to, bytes);
	op->reads += last;
}

uint32_t op_read_item(struct op *op, uint64_t remote, uint32_t rkey, uint64_t from,
		      uint32_t head_bytes, uint32_t bytes)
{
	struct reader *r = reader_of(op);
	uint32_t head = from < head_bytes ? head_bytes - (uint32_t)from : 0, covered = 0;
	struct scatter *s;

	(void)rkey;
	head = head < bytes ? head : bytes;
	r->scatters = realloc(r->scatters, (r->scatter_count + 1) * sizeof *r->scatters);
	if (!r->scatters)
		die("no memory");
	s = &r->scatters[r->scatter_count++];
	*s = (struct scatter){ .n = 0 };
	if (head) {
		check_local(r, op->memory->item + from, head);
		s->sge[s->n++] = (struct ibv_sge){ (uintptr_t)op->memory->item + from, head, 0 };
	}
	if (bytes > head && !op->value.registered)
		die("a READ to memory of the caller that is not registered");
	if (bytes > head)
		s->n += pieces_sge(&op->value, from + head - head_bytes, bytes - head,
				   s->sge + s->n, KVD_IOV_MAX, &covered);
	s->staged = malloc(head + covered + 1);
	if (!s->staged)
		die("no memory");
	post_read(r, remote, s->staged, head + covered);
	op->reads++;
	return head + covered;
}

static void scatter_all(struct reader *r)
{
	for (size_t i = 0; i < r->scatter_count; i++) {
		struct scatter *s = &r->scatters[i];
		uint64_t at = 0;
		for (unsigned k = 0; k < s->n; at += s->sge[k++].length)
			memcpy((void *)(uintptr_t)s->sge[k].addr, s->staged + at, s->sge[k].length);
		free(s->staged);
	}
	r->scatter_count = 0;
}

/* There are no kvd_buffers. */
bool buffers_find(struct buffers *buffers, unsigned device, const void *addr, size_t bytes,
		  struct buffer_keys *keys)
{
	(void)buffers, (void)device, (void)addr, (void)bytes, (void)keys;
	return false;
}

uint32_t engine_room(const struct engine *e)
{
	return e->sq_depth;
}

int op_set_value(struct op *op, const struct iovec *iov, int count)
{
	return pieces_set(&op->value, iov, count);
}

void op_free(struct op *op)
{
	(void)op;
	die("a value of too many pieces");
}

void op_done(struct op *op, int result)
{
	pieces_release(&op->value, op->engine->registrar.verbs);
	if (result != KVD_OK) {
		free(op->out.allocated);
		op->out.allocated = NULL;
	}
	op->out.result = result;
	op->done = true;
}

/* It would ask the server. */
void hints_note(struct engine *e, uint64_t word)
{
	(void)e, (void)word; /* no kvd wants any */
}

int request_send(struct op *op, const struct wire_request *ask, size_t value_bytes)
{
	(void)ask, (void)value_bytes;
	op_done(op, KVD_EBUSY);
	return 0;
}

/* Its kvd is of no cluster. */
bool look_again(struct engine *e, uint64_t reign)
{
	(void)e, (void)reign;
	die("a lease is looked for");
	return false;
}

/* There is no cluster. */
bool request_is_moved(struct op *op)
{
	(void)op;
	return false;
}

bool message_put_off(struct op *op)
{
	(void)op;
	die("a reply from nobody");
	return false;
}

void request_tell(struct engine *e, const struct wire_request *ask)
{
	(void)e, (void)ask;
}

void request_learn(struct op *op, const uint8_t *payload)
{
	(void)op, (void)payload;
}

int request_result(struct engine *e, uint32_t key_bytes, uint64_t status)
{
	(void)e, (void)key_bytes, (void)status;
	die("a reply from nobody");
	return 0;
}

int request_fail(struct engine *e, uint32_t key_bytes, int code, const char *why)
{
	(void)e, (void)key_bytes, (void)why;
	return code;
}

/* -------------------------------------------------------------------- sampling */

static void sample(struct reader *r, const struct sample *s)
{
	if (r->quick) {
		memcpy(s->to, (const uint8_t *)s->from + s->skip, s->bytes);
		return;
	}
	uint64_t word = __atomic_load_n(s->from, __ATOMIC_RELAXED);
	uint64_t offset = table_offset(r->table, s->from);
	uint8_t bytes[8];

	if (r->flip_times && r->flip_offset / 8 == offset / 8) {
		word ^= 1ull << (8 * (r->flip_offset % 8) + r->flip_bit);
		r->flip_times--;
	}
	memcpy(bytes, &word, sizeof bytes);
	memcpy(s->to, bytes + s->skip, s->bytes);
}

bool reader_step(struct reader *r, unsigned words)
{
	while (words-- && !r->op.done) {
		if (r->n) {
			size_t i = r->in_order ? r->n - 1 : fixture_random(&r->random) % r->n;
			sample(r, &r->samples[i]);
			r->samples[i] = r->samples[--r->n];
		}
		if (!r->n) {
			scatter_all(r);
			r->op.reads = 0;
			get_class.advance(&r->op);
		}
	}
	return !r->op.done;
}

void reader_begin(struct reader *r, const void *key, size_t key_bytes, void *value,
		  size_t value_bytes_max)
{
	struct op *op = &r->op;

	struct iovec all = { value, value_bytes_max };

	free(op->out.allocated);
	memset(op, 0, sizeof *op);
	op->engine = &r->engine;
	op->class = &get_class;
	op->memory = &r->memory;
	op->own = r->get;
	memcpy(op->key, key, key_bytes);
	op->key_bytes = (uint32_t)key_bytes;
	r->into = value;
	op->begun_ns = clock_ns();
	r->n = 0;
	get_start(op, value ? GET_PLAIN : GET_ALLOCATES, &all, value ? 1 : 0);
}

struct reader_result reader_end(struct reader *r)
{
	const struct op *op = &r->op;

	assert(op->done);
	return (struct reader_result){ .result = op->out.result,
				       .value = op->out.allocated ? op->out.allocated : r->into,
				       .value_bytes = op->out.bytes,
				       .version = op->out.version };
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

struct reader_scratches reader_scratches(const struct reader *r)
{
	return r->scratches;
}

const struct kvd_counters *reader_counters(const struct reader *r)
{
	return &r->engine.counters;
}

/* ---------------------------------------------------------------- begin and end */

struct reader *reader_new(const struct table *t, size_t mirror_bytes, uint64_t seed)
{
	struct reader *r = calloc(1, sizeof *r);

	if (!r)
		die("no memory");
	r->table = t;
	r->table_bytes = t->bytes;
	r->random = seed;
	r->engine.table.directory = directory_new(1, t->dir_entries);
	r->in_order = !seed;
	r->engine.options = &r->options;
	r->engine.message_bytes_max = 1u << 16;
	r->engine.table.mirror = mirror_new(mirror_bytes);
	r->engine.table.buckets = &r->buckets;
	atomic_store(&r->buckets, __atomic_load_n(&t->header->buckets, __ATOMIC_ACQUIRE));
	r->engine.registrar.verbs = &verbs_reader;
	r->engine.sq_depth = 64;
	r->engine.depth = 1;
	r->engine.table.unit_mask = t->unit_mask;
	r->engine.table.welcome = (struct wire_welcome){
		.table_addr = (uintptr_t)t->base,
		.table_bytes = t->bytes,
		.stripes = t->stripes,
		.scratch_offset = t->scratch_offset,
		.dir_offset = t->dir_offset,
		.dir_entries = t->dir_entries,
		.segment_bytes = t->segment_bytes,
		.workers = t->workers,
		.hash_seed = t->hash_seed,
	};
	r->engine.ops = &r->op;
	r->op.memory = &r->memory;
	r->get = gets_new(&r->engine);
	if (!r->engine.table.directory || !r->get)
		die("no memory");
	return r;
}

void reader_delete(struct reader *r)
{
	free(r->op.out.allocated);
	free(r->scatters);
	free(r->get);
	mirror_delete(r->engine.table.mirror);
	directory_leave(&r->engine.table.directory);
	free(r->samples);
	free(r);
}

void reader_hurry(struct reader *r, uint64_t table_bytes)
{
	r->quick = true;
	r->table_bytes = r->engine.table.welcome.table_bytes = table_bytes;
}

void reader_restart(struct reader *r)
{
	mirror_clear(r->engine.table.mirror);
	directory_leave(&r->engine.table.directory);
	r->engine.table.directory = directory_new(1, r->table->dir_entries);
	if (!r->engine.table.directory)
		die("no memory");
	atomic_store(&r->buckets, __atomic_load_n(&r->table->header->buckets, __ATOMIC_ACQUIRE));
}

void reader_forget(struct reader *r, uint64_t buckets)
{
	atomic_store_explicit(&r->buckets, buckets, memory_order_relaxed);
}

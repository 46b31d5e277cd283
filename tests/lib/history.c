/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/history.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct log {
	uint64_t n; /* only its owner writes it, before it fills in the record */
	struct linear_op op[];
};

struct history {
	struct log *log;
	size_t bytes;
	size_t max;
};

uint64_t history_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

int history_open(const char *path, size_t records_max, struct history **history)
{
	struct history *h = calloc(1, sizeof *h);
	int fd, rc = ENOMEM;

	if (!h)
		return ENOMEM;
	h->max = records_max;
	h->bytes = sizeof *h->log + records_max * sizeof *h->log->op;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) {
		rc = errno;
		goto fail;
	}
	/* Sparse: costs what is written. */
	if (ftruncate(fd, (off_t)h->bytes)) {
		rc = errno;
		goto fail_fd;
	}
	h->log = mmap(NULL, h->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (h->log == MAP_FAILED) {
		rc = errno;
		goto fail_fd;
	}
	close(fd);
	*history = h;
	return 0;

fail_fd:
	close(fd);
fail:
	free(h);
	return rc;
}

void history_close(struct history **history)
{
	struct history *h = *history;

	if (!h)
		return;
	munmap(h->log, h->bytes);
	free(h);
	*history = NULL;
}

struct linear_op *history_invoke(struct history *h, uint32_t client, enum linear_kind kind,
				 uint64_t key, uint64_t value)
{
	if (h->log->n == h->max)
		return NULL;
	struct linear_op *op = &h->log->op[h->log->n];
	*op = (struct linear_op){ .key = key, .value = value, .return_ns = LINEAR_OPEN,
				  .client = client, .kind = (uint8_t)kind,
				  .result = LINEAR_UNKNOWN };
	op->invoke_ns = history_now_ns();
	/* Killed before this: the call was never made. */
	__atomic_store_n(&h->log->n, h->log->n + 1, __ATOMIC_RELEASE);
	return op;
}

void history_return(struct linear_op *op, enum linear_result result, uint64_t value,
		    uint64_t version)
{
	if (result == LINEAR_UNKNOWN)
		return;
	if (op->kind == LINEAR_GET)
		op->value = value;
	op->version = version;
	op->return_ns = history_now_ns();
	/* Last: killed before this, the result stays open. */
	__atomic_store_n(&op->result, (uint8_t)result, __ATOMIC_RELEASE);
}

int history_collect(const struct history *h, struct linear_op **ops, size_t *n)
{
	struct linear_op *all;

	if (!h->log->n)
		return 0;
	all = realloc(*ops, (*n + h->log->n) * sizeof *all);
	if (!all)
		return ENOMEM;
	memcpy(all + *n, h->log->op, h->log->n * sizeof *all);
	for (size_t i = *n; i < *n + h->log->n; i++)
		if (all[i].result == LINEAR_UNKNOWN)
			all[i].return_ns = LINEAR_OPEN;
	*n += h->log->n;
	*ops = all;
	return 0;
}

static void print_number(FILE *out, const char *name, uint64_t n, int is_known)
{
	if (is_known)
		fprintf(out, "\"%s\":%" PRIu64 ",", name, n);
	else
		fprintf(out, "\"%s\":null,", name);
}

void history_print(FILE *out, const struct linear_op *op)
{
	static const char *const kinds[] = { [LINEAR_GET] = "get", [LINEAR_PUT] = "put",
					     [LINEAR_DEL] = "del" };
	static const char *const results[] = { [LINEAR_DONE] = "ok",
					       [LINEAR_NOT_FOUND] = "not_found",
					       [LINEAR_UNKNOWN] = "unknown",
					       [LINEAR_NOTHING] = "error" };

	fprintf(out, "{\"client\":%" PRIu32 ",\"op\":\"%s\",\"key\":\"%" PRIu64 "\",", op->client,
		kinds[op->kind], op->key);
	print_number(out, "value", op->value, op->value != 0);
	print_number(out, "version", op->version, op->version != 0);
	print_number(out, "invoke_ns", op->invoke_ns, 1);
	print_number(out, "return_ns", op->return_ns, op->return_ns != LINEAR_OPEN);
	fprintf(out, "\"result\":\"%s\"}\n", results[op->result]);
}

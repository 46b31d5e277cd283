/* SPDX-License-Identifier: BSD-2-Clause */
/* copy.h -- copies to and from memory that others change at the same time, and lists of it. */
#ifndef COMMON_SOFTVERBS_BASE_COPY_H
#define COMMON_SOFTVERBS_BASE_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

/* Memory that others change at the same time is touched in aligned words of 8
 * bytes, each once, in rising order. */
void sv_copy_from_shared(void *dst, const void *shared, size_t bytes);
void sv_copy_to_shared(void *shared, const void *src, size_t bytes);

typedef void sv_copy_fn(void *dst, const void *src, size_t bytes);
void sv_copy_plain(void *dst, const void *src, size_t bytes);
/* Copies between a flat buffer and bytes [offset, offset + bytes) of a list. */
void sv_scatter(const struct ibv_sge *sge, int nsge, uint64_t offset, const void *src,
		size_t bytes, sv_copy_fn *copy);
void sv_gather(const struct ibv_sge *sge, int nsge, uint64_t offset, void *dst, size_t bytes,
	       sv_copy_fn *copy);

#endif

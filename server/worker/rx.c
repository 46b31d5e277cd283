/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/worker/rx.h"

#include <errno.h>
#include <stdlib.h>

#define CHAIN 32
/* Receives beyond what its connections may use: for those that are coming. */
#define SPARE_PART 4u

int rx_init(struct rx *x, struct ibv_srq *srq, uint32_t count, uint8_t *memory, uint32_t lkey)
{
	*x = (struct rx){ .srq = srq, .memory = memory, .lkey = lkey, .count = count };
	x->free = calloc(count, sizeof *x->free);
	if (!x->free)
		return ENOMEM;
	for (uint32_t i = 1; i < count; i++)
		rx_release(x, i);
	return 0;
}

void rx_fini(struct rx *x)
{
	free(x->free);
}

/* So many receives are posted as may be used at once: in turn they would all be used
 * otherwise, and each message come to memory that no cache has. */
static uint32_t wanted(const struct rx *x, uint32_t credits)
{
	uint32_t want = credits + x->count / SPARE_PART;

	return want < x->posted ? 0 : want - x->posted;
}

/* Posts free buffers in chains. */
int rx_refill(struct rx *x, uint32_t credits)
{
	struct ibv_recv_wr wr[CHAIN], *bad;
	struct ibv_sge sge[CHAIN];

	for (uint32_t want = wanted(x, credits); x->free_count && want;) {
		uint32_t n = x->free_count < CHAIN ? x->free_count : CHAIN;
		if (n > want)
			n = want;
		want -= n;
		for (uint32_t i = 0; i < n; i++) {
			uint32_t b = x->free[--x->free_count];
			sge[i] = (struct ibv_sge){ .addr = (uintptr_t)rx_buffer(x, b),
						   .length = WIRE_MESSAGE_BYTES_MAX,
						   .lkey = x->lkey };
			wr[i] = (struct ibv_recv_wr){ .wr_id = b, .sg_list = &sge[i], .num_sge = 1,
						      .next = i + 1 < n ? &wr[i + 1] : NULL };
		}
		int rc = ibv_post_srq_recv(x->srq, wr, &bad);
		if (rc)
			return rc;
		x->posted += n;
	}
	return 0;
}

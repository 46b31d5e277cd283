/* SPDX-License-Identifier: BSD-2-Clause */
/* bare_ctx.h -- behind bare.h: a context and a protection domain, and what is left of their users in the end. */
#ifndef TESTS_UNIT_SOFTVERBS_BARE_CTX_H
#define TESTS_UNIT_SOFTVERBS_BARE_CTX_H

#include "bare.h"
#include "common/softverbs/object/async.h"
#include "common/softverbs/object/mr.h"

static struct sv_ctx ctx;
static struct sv_pd pd;
#define CONTEXT (&ctx.vctx.context)

static inline int ctx_begin(void **state)
{
	int ret = bare_begin(state);

	memset(&ctx, 0, sizeof(ctx));
	memset(&pd, 0, sizeof(pd));
	ctx.users = 1;
	ctx.tail = &ctx.head;
	CONTEXT->num_comp_vectors = 1;
	CONTEXT->async_fd = sv_bell_open();
	pd.ib.context = CONTEXT;
	pd.id = 3;
	bare_proc.next_chan = 1; /* 0 is no channel */
	return ret || CONTEXT->async_fd < 0 || fcntl(CONTEXT->async_fd, F_SETFL, O_NONBLOCK);
}

/* Nobody uses them any more, nothing is in the tables. */
static inline int ctx_end(void **state)
{
	assert_true(ctx.users == 1 && !pd.users);
	assert_true(!bare_proc.chans && !bare_proc.windows && !bare_proc.offers);
	for (unsigned i = 0; i < SV_CQS; i++)
		assert_null(bare_proc.cq[i]);
	for (unsigned i = 0; i < SV_SRQS; i++)
		assert_null(bare_proc.srq[i]);
	for (unsigned i = 0; i < SV_MRS / 64; i++)
		assert_int_equal(bare_proc.keys[i], 0);
	assert_null(ctx.head);
	assert_ptr_equal(ctx.tail, &ctx.head);
	sv_fd_close(CONTEXT->async_fd);
	return bare_end(state);
}

/* How many events are written there and not yet read; the descriptor doesn't block. */
static inline unsigned written(int fd)
{
	unsigned n = 0;
	uint64_t one;

	while (read(fd, &one, sizeof(one)) == sizeof(one))
		n++;
	for (unsigned i = 0; i < n; i++)
		sv_bell_ring(fd);
	return n;
}

#endif

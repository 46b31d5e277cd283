/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * regions [DEVICE] -- memory regions with each right, and what a peer may do then.
 *
 * Remote rights of region and queue pair both have to allow it.  One refusal ends a
 * connection, so each try has its own.
 */
#include "doc/examples/example.h"

static const struct {
	const char *name;
	int access;
	int read, write; /* allowed? */
} rights[] = {
	{ "none", 0, 0, 0 },
	{ "local write", IBV_ACCESS_LOCAL_WRITE, 0, 0 },
	{ "remote read", IBV_ACCESS_REMOTE_READ, 1, 0 },
	{ "remote write", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0, 1 },
	{ "all", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
			 IBV_ACCESS_REMOTE_ATOMIC, 1, 1 },
};

/* Tries it on a connection of its own: how does it end? */
static enum ibv_wc_status attempt(struct ibv_context *context, int access, enum ibv_wr_opcode opcode)
{
	struct end a, b;
	struct ibv_mr *all;
	struct ibv_wc wc;

	open_end(&a, context, NULL, NULL);
	open_end(&b, context, NULL, NULL);
	connect_ends(&a, &b);
	all = b.mr;
	b.mr = ibv_reg_mr(b.pd, b.mem, MEM_BYTES, access);
	NEED(b.mr);
	post(&a, &b, opcode, 8);
	while (!ibv_poll_cq(a.cq, 1, &wc))
		;
	NEED_0(ibv_dereg_mr(all));
	close_end(&a);
	close_end(&b);
	return wc.status;
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);
	int bad = 0;

	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
		enum ibv_wc_status read = attempt(context, rights[i].access, IBV_WR_RDMA_READ);
		enum ibv_wc_status write = attempt(context, rights[i].access, IBV_WR_RDMA_WRITE);

		printf("%-14s READ: %-22s WRITE: %s\n", rights[i].name, ibv_wc_status_str(read),
		       ibv_wc_status_str(write));
		bad |= rights[i].read != (read == IBV_WC_SUCCESS);
		bad |= rights[i].write != (write == IBV_WC_SUCCESS);
	}
	NEED_0(ibv_close_device(context));
	return bad;
}

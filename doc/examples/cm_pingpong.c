/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_pingpong -- a message to and fro, over a connection made by rdma_cm.
 *
 *	cm_pingpong server ADDRESS		prints its port
 *	cm_pingpong ADDRESS PORT
 *
 * rdma_cm finds device, port and GID from the address and moves the queue pair
 * through its states; ids without an event channel make each call wait for its end.
 */
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include "doc/examples/example.h"

#define ROUNDS 1000
#define BYTES 64

static struct rdma_addrinfo *resolve(const char *address, const char *port, int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags | RAI_NUMERICHOST,
				       .ai_port_space = RDMA_PS_TCP }, *res;

	NEED_0(rdma_getaddrinfo(address, port, &hints, &res));
	return res;
}

static struct ibv_qp_init_attr qp_attr(void)
{
	return (struct ibv_qp_init_attr){
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
}

static struct rdma_cm_id *accept_one(const char *address, struct rdma_cm_id **listener)
{
	struct rdma_addrinfo *res = resolve(address, "0", RAI_PASSIVE);
	struct ibv_qp_init_attr attr = qp_attr();
	struct rdma_cm_id *id;

	NEED_0(rdma_create_ep(listener, res, NULL, &attr));
	rdma_freeaddrinfo(res);
	NEED_0(rdma_listen(*listener, 1));
	printf("%d\n", be16toh(rdma_get_src_port(*listener)));
	fflush(stdout);
	NEED_0(rdma_get_request(*listener, &id)); /* sleeps */
	return id;
}

static struct rdma_cm_id *make_id(const char *address, const char *port)
{
	struct rdma_addrinfo *res = resolve(address, port, 0);
	struct ibv_qp_init_attr attr = qp_attr();
	struct rdma_cm_id *id;

	NEED_0(rdma_create_ep(&id, res, NULL, &attr));
	rdma_freeaddrinfo(res);
	return id;
}

static void receive(struct rdma_cm_id *id)
{
	struct ibv_wc wc;

	NEED(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	NEED(wc.byte_len == BYTES);
}

static void send_one(struct rdma_cm_id *id, char *mem, struct ibv_mr *mr)
{
	struct ibv_wc wc;

	NEED_0(rdma_post_send(id, NULL, mem, BYTES, mr, 0));
	NEED(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
}

int main(int argc, char **argv)
{
	int is_server = argc == 3 && !strcmp(argv[1], "server");
	struct rdma_cm_id *listener = NULL, *id;
	static char in[BYTES], out[BYTES];
	struct ibv_mr *mr_in, *mr_out;

	if (argc != 3) {
		fprintf(stderr, "usage: cm_pingpong server ADDRESS | ADDRESS PORT\n");
		return 2;
	}
	id = is_server ? accept_one(argv[2], &listener) : make_id(argv[1], argv[2]);
	mr_in = rdma_reg_msgs(id, in, BYTES);
	mr_out = rdma_reg_msgs(id, out, BYTES);
	NEED(mr_in && mr_out);
	/* A receive first: the other's message may come with the connection. */
	NEED_0(rdma_post_recv(id, NULL, in, BYTES, mr_in));
	NEED_0(is_server ? rdma_accept(id, NULL) : rdma_connect(id, NULL));
	for (int i = 0; i < ROUNDS; i++) {
		if (!is_server) {
			snprintf(out, sizeof(out), "ping %d", i);
			send_one(id, out, mr_out);
		}
		receive(id);
		if (is_server)
			memcpy(out, in, BYTES);
		else
			NEED(!memcmp(in, out, BYTES));
		if (i + 1 < ROUNDS)
			NEED_0(rdma_post_recv(id, NULL, in, BYTES, mr_in));
		if (is_server)
			send_one(id, out, mr_out);
	}
	if (!is_server) {
		printf("%d rounds, the last: %s\n", ROUNDS, in);
		NEED_0(rdma_disconnect(id));
	}
	rdma_dereg_mr(mr_in);
	rdma_dereg_mr(mr_out);
	rdma_destroy_ep(id);
	if (listener)
		rdma_destroy_ep(listener);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * datagram [DEVICE] -- datagrams (UD), and the two ways to an address handle.
 *
 * The client makes one of the server's address.  The server makes one of what it received: the
 * completion and the GRH say from where it came, so that it needs to know nobody before.
 */
#include "doc/examples/ud.h"

/* Of an address that is known. */
static struct ibv_ah *handle_of_port(struct end *end)
{
	struct ibv_ah_attr attr = { 0 };
	struct ibv_port_attr port;
	union ibv_gid gid;
	struct ibv_ah *ah;

	NEED_0(ibv_query_port(end->context, 1, &port));
	NEED_0(ibv_query_gid(end->context, 1, gid_index(end->context), &gid));
	fill_address(&attr, end->context, &gid, port.lid);
	ah = ibv_create_ah(end->pd, &attr);
	NEED(ah);
	return ah;
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);
	struct end client, server;
	struct ibv_ah *to, *back;
	struct ibv_wc wc;

	open_ud(&client, context);
	open_ud(&server, context);
	to = handle_of_port(&client);
	post_receive(&server, 1);
	post_receive(&client, 2);

	send_datagram(&client, to, server.qp->qp_num, "a question");
	next_completion(client.cq);
	wc = next_completion(server.cq);
	printf("from queue pair %s: %s\n", wc.src_qp == client.qp->qp_num ? "of the client" : "unknown",
	       server.mem + GRH_BYTES);
	back = ibv_create_ah_from_wc(server.pd, &wc, (struct ibv_grh *)(void *)server.mem, 1);
	NEED(back);
	send_datagram(&server, back, wc.src_qp, "an answer");
	next_completion(server.cq);
	wc = next_completion(client.cq);
	printf("%u bytes and a GRH: %s\n", wc.byte_len - GRH_BYTES, client.mem + GRH_BYTES);
	NEED_0(ibv_destroy_ah(to));
	NEED_0(ibv_destroy_ah(back));
	close_end(&client);
	close_end(&server);
	NEED_0(ibv_close_device(context));
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * multicast [DEVICE] -- one datagram for all queue pairs of a group.
 *
 * A group is an address; queue pairs are attached to it.  What is sent to the address, and to
 * the number of all ones, reaches each that has the sender's Q_Key.  On InfiniBand the port has to
 * join the group at the subnet manager first, which rdma_join_multicast() does.
 */
#include <arpa/inet.h>
#include "doc/examples/ud.h"

#define ALL_ONES 0xffffffu
#define MEMBERS 3

static struct ibv_ah *handle_of_group(struct end *end, const union ibv_gid *group)
{
	struct ibv_ah_attr attr = { 0 };
	struct ibv_ah *ah;

	fill_address(&attr, end->context, group, 0);
	ah = ibv_create_ah(end->pd, &attr);
	NEED(ah);
	return ah;
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);
	struct end sender, member[MEMBERS];
	union ibv_gid group;
	struct ibv_ah *ah;

	NEED(inet_pton(AF_INET6, "::ffff:239.1.2.3", group.raw) == 1);
	open_ud(&sender, context);
	for (int i = 0; i < MEMBERS; i++) {
		open_ud(&member[i], context);
		NEED_0(ibv_attach_mcast(member[i].qp, &group, 0));
		post_receive(&member[i], 1);
	}
	ah = handle_of_group(&sender, &group);
	send_datagram(&sender, ah, ALL_ONES, "to all");
	next_completion(sender.cq);
	for (int i = 0; i < MEMBERS; i++) {
		next_completion(member[i].cq);
		printf("member %d: %s\n", i, member[i].mem + GRH_BYTES);
	}
	NEED_0(ibv_destroy_ah(ah));
	for (int i = 0; i < MEMBERS; i++) {
		NEED_0(ibv_detach_mcast(member[i].qp, &group, 0));
		close_end(&member[i]);
	}
	close_end(&sender);
	NEED_0(ibv_close_device(context));
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* devices -- lists the RDMA devices of this machine, and what kind of node each is. */
#include "doc/examples/example.h"

int main(void)
{
	struct ibv_device **list;
	int n;

	list = ibv_get_device_list(&n);
	NEED(list);
	for (int i = 0; i < n; i++)
		printf("%-16s %s\n", ibv_get_device_name(list[i]),
		       ibv_node_type_str(list[i]->node_type));
	ibv_free_device_list(list);
	if (!n)
		fprintf(stderr, "there is none\n");
	return n ? 0 : 1;
}

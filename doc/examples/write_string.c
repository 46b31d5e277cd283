/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * write_string -- a string is written into another process's memory.
 *
 *	write_string server [DEVICE]		prints its port, and the string
 *	write_string PORT STRING [DEVICE]
 *
 * What the two have to know of each other -- queue pair, GID, address, key -- goes
 * over a TCP connection.  The server's CPU does nothing for the WRITE; over TCP
 * it hears that the string is there.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include "doc/examples/example.h"

struct card { /* in the byte order of the machine: both are on one */
	union ibv_gid gid;
	uint64_t addr;
	uint32_t qpn, rkey;
	uint16_t lid;
};

static int open_socket(struct sockaddr_in *addr)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	NEED(fd >= 0);
	*addr = (struct sockaddr_in){ .sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	return fd;
}

static int accept_one(void)
{
	struct sockaddr_in addr;
	socklen_t bytes = sizeof(addr);
	int listener = open_socket(&addr), fd;

	NEED_0(bind(listener, (struct sockaddr *)&addr, sizeof(addr)));
	NEED_0(listen(listener, 1));
	NEED_0(getsockname(listener, (struct sockaddr *)&addr, &bytes));
	printf("%d\n", ntohs(addr.sin_port));
	fflush(stdout);
	fd = accept(listener, NULL, NULL);
	NEED(fd >= 0);
	close(listener);
	return fd;
}

static int connect_to(int port)
{
	struct sockaddr_in addr;
	int fd = open_socket(&addr);

	addr.sin_port = htons((uint16_t)port);
	NEED_0(connect(fd, (struct sockaddr *)&addr, sizeof(addr)));
	return fd;
}

static void exchange(int fd, struct end *end, struct card *theirs)
{
	struct card own = { .addr = (uintptr_t)end->mem, .qpn = end->qp->qp_num,
			    .rkey = end->mr->rkey };
	struct ibv_port_attr port;

	NEED_0(ibv_query_port(end->context, 1, &port));
	own.lid = port.lid;
	NEED_0(ibv_query_gid(end->context, 1, gid_index(end->context), &own.gid));
	NEED(write(fd, &own, sizeof(own)) == (ssize_t)sizeof(own));
	NEED(recv(fd, theirs, sizeof(*theirs), MSG_WAITALL) == (ssize_t)sizeof(*theirs));
	connect_qp(end->context, end->qp, theirs->qpn, theirs->lid, &theirs->gid);
}

/* Both have done what they do before. */
static void meet(int fd)
{
	char byte = 0;

	NEED(write(fd, &byte, 1) == 1);
	NEED(read(fd, &byte, 1) == 1);
}

static void write_string(struct end *end, const struct card *to, const char *string)
{
	struct ibv_sge sge = { .addr = (uintptr_t)end->mem, .lkey = end->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE };
	struct ibv_send_wr *bad;

	snprintf(end->mem, MEM_BYTES, "%s", string);
	sge.length = (uint32_t)strlen(end->mem) + 1;
	wr.wr.rdma.remote_addr = to->addr;
	wr.wr.rdma.rkey = to->rkey;
	NEED_0(ibv_post_send(end->qp, &wr, &bad));
	next_completion(end->cq);
}

int main(int argc, char **argv)
{
	int is_server = argc > 1 && !strcmp(argv[1], "server"), fd;
	struct ibv_context *context;
	struct card theirs;
	struct end end;

	if (argc < 2 || (!is_server && argc < 3)) {
		fprintf(stderr, "usage: write_string server [DEVICE] | PORT STRING [DEVICE]\n");
		return 2;
	}
	context = open_device(argc > 3 - is_server ? argv[3 - is_server] : NULL);
	open_end(&end, context, NULL, NULL);
	fd = is_server ? accept_one() : connect_to(atoi(argv[1]));
	exchange(fd, &end, &theirs);
	meet(fd); /* both queue pairs are ready */
	if (!is_server)
		write_string(&end, &theirs, argv[2]);
	meet(fd); /* it is written */
	if (is_server)
		printf("%.*s\n", MEM_BYTES, end.mem);
	close(fd);
	close_end(&end);
	NEED_0(ibv_close_device(context));
	return 0;
}

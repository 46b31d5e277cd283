#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What libsoftverbs-preload.so does beside a system that has devices: its own before them in one
# list, each call and event where it belongs.  The system's libraries are ones that this makes.
. "${KVD_SOURCE:-.}/tests/lib/kit.sh"
requires cc
preload=$KVD_BUILD/common/softverbs/.libs/libsoftverbs-preload.so
[ -e "$preload" ] || skip "built without libsoftverbs-preload.so"
export SOFTVERBS_FABRIC=preload-others-$$

cat >"$tmp/verbs.c" <<'C'
#include <infiniband/verbs.h>
#include <stdlib.h>

int lists_freed, events_acked;
static struct ibv_device devices[3] = { { .name = "sys0" }, { .name = "sys1" }, { .name = "sys2" } };
static struct ibv_device *list[4];

struct ibv_device **ibv_get_device_list(int *num)
{
	int n = atoi(getenv("DEVICES"));

	*num = n < 0 ? 9 : n;
	for (int i = 0; i < n; i++)
		list[i] = &devices[i];
	return n < 0 ? NULL : list;
}

void ibv_free_device_list(struct ibv_device **freed)
{
	lists_freed += freed == list ? 1 : 100;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	events_acked++;
}

int ibv_get_device_index(struct ibv_device *device)
{
	return 40 + (int)(device - devices);
}
C
cat >"$tmp/cm.c" <<'C'
#include <infiniband/verbs.h>

struct ibv_device **list_of_cm(int *num)
{
	struct ibv_device **list = ibv_get_device_list(num);
	return list;
}
C
cat >"$tmp/program.c" <<'C'
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#undef ibv_query_port

#define CHECK(what) \
	do { \
		if (!(what)) { \
			printf("line %d: %s (errno %d)\n", __LINE__, #what, errno); \
			exit(1); \
		} \
	} while (0)

extern int lists_freed, events_acked;
struct ibv_device **list_of_cm(int *num);
static bool has_no_memory;
void *__libc_calloc(size_t n, size_t bytes);

void *calloc(size_t n, size_t bytes)
{
	return has_no_memory ? NULL : __libc_calloc(n, bytes);
}

static void check_list(struct ibv_device **list, int nsoft, int n, int nsystem)
{
	char name[8];
	int freed = lists_freed;

	CHECK(list && n == nsoft + nsystem && !list[n]);
	CHECK(!nsoft || !strcmp(list[0]->name, "soft0"));
	for (int i = 0; i < nsystem; i++) {
		snprintf(name, sizeof(name), "sys%d", i);
		CHECK(!strcmp(list[nsoft + i]->name, name));
		CHECK(ibv_get_device_index(list[nsoft + i]) == 40 + i);
	}
	CHECK(!nsoft || ibv_get_device_index(list[0]) == -1);
	ibv_free_device_list(list);
	CHECK(lists_freed == freed + (atoi(getenv("DEVICES")) >= 0));
}

static void lists(void)
{
	int n = 77, nsystem = atoi(getenv("DEVICES"));
	struct ibv_device **list = ibv_get_device_list(&n);

	check_list(list, 1, n, nsystem < 0 ? 0 : nsystem);
	list = ibv_get_device_list(NULL);
	CHECK(list);
	for (n = 0; list[n]; n++)
		;
	check_list(list, 1, n, nsystem < 0 ? 0 : nsystem);
	n = 77;
	list = list_of_cm(&n);
	if (nsystem < 0)
		CHECK(!list);
	else
		check_list(list, 0, n, nsystem);
	ibv_free_device_list(NULL);
	lists_freed = 0;
	n = 77;
	has_no_memory = true;
	list = list_of_cm(&n);
	has_no_memory = false;
	CHECK(!list && (nsystem < 0 || !n) && lists_freed == (nsystem >= 0));
	puts("as it should be");
}

static struct ibv_context *open_soft(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list ? ibv_open_device(list[0]) : NULL;

	CHECK(context);
	ibv_free_device_list(list);
	return context;
}

/* Each is its own device's, whatever it is of; what has no object is the system's. */
static void events(void)
{
	static const int of_qp[] = { IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR,
				     IBV_EVENT_COMM_EST, IBV_EVENT_SQ_DRAINED, IBV_EVENT_PATH_MIG,
				     IBV_EVENT_PATH_MIG_ERR, IBV_EVENT_QP_LAST_WQE_REACHED };
	struct ibv_context *soft = open_soft();
	struct ibv_pd *pd = ibv_alloc_pd(soft);
	struct ibv_cq *cq = ibv_create_cq(soft, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					 .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_srq_init_attr srq_init = { .attr = { 1, 1, 0 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_init);
	struct ibv_device device = { .name = "sys0" };
	struct ibv_context other = { .device = &device };
	struct ibv_cq other_cq = { .context = &other };
	struct ibv_qp other_qp = { .context = &other };
	struct ibv_srq other_srq = { .context = &other };
	struct ibv_async_event event = { .event_type = IBV_EVENT_CQ_ERR };
	int acked = 0;

	CHECK(pd && cq && qp && srq);
	event.element.cq = cq;
	ibv_ack_async_event(&event);
	CHECK(events_acked == acked);
	event.element.cq = &other_cq;
	ibv_ack_async_event(&event);
	CHECK(events_acked == ++acked);
	for (size_t i = 0; i < sizeof(of_qp) / sizeof(of_qp[0]); i++) {
		event.event_type = of_qp[i];
		event.element.qp = qp;
		ibv_ack_async_event(&event);
		CHECK(events_acked == acked);
		event.element.qp = &other_qp;
		ibv_ack_async_event(&event);
		CHECK(events_acked == ++acked);
	}
	for (int i = 0; i < 2; i++) {
		event.event_type = i ? IBV_EVENT_SRQ_ERR : IBV_EVENT_SRQ_LIMIT_REACHED;
		event.element.srq = srq;
		ibv_ack_async_event(&event);
		CHECK(events_acked == acked);
		event.element.srq = &other_srq;
		ibv_ack_async_event(&event);
		CHECK(events_acked == ++acked);
	}
	event.event_type = IBV_EVENT_DEVICE_FATAL;
	event.element.port_num = 1;
	ibv_ack_async_event(&event);
	CHECK(events_acked == ++acked);
	puts("as it should be");
}

/* As a program of before port_cap_flags2 calls it. */
static void ports(void)
{
	const size_t known = offsetof(struct ibv_port_attr, port_cap_flags2);
	struct ibv_context *soft = open_soft();
	struct ibv_port_attr attr;

	memset(&attr, 0xa5, sizeof(attr));
	CHECK(ibv_query_port(soft, 2, (struct _compat_ibv_port_attr *)&attr));
	CHECK(((unsigned char *)&attr)[0] == 0xa5);
	CHECK(!ibv_query_port(soft, 1, (struct _compat_ibv_port_attr *)&attr));
	CHECK(attr.state == IBV_PORT_ACTIVE && attr.gid_tbl_len == 2);
	for (size_t i = known; i < sizeof(attr); i++)
		CHECK(((unsigned char *)&attr)[i] == 0xa5);
	puts("as it should be");
}

/* What there is none of, and says so. */
static void refusals(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;
	struct ibv_ece ece = { 0 };
	struct ibv_pd *pd = ibv_alloc_pd(open_soft());

	CHECK(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	errno = 0;
	CHECK(rdma_set_local_ece(id, &ece) == -1 && errno == EOPNOTSUPP);
	errno = 0;
	CHECK(rdma_get_remote_ece(id, &ece) == -1 && errno == EOPNOTSUPP);
	errno = 0;
	CHECK(!ibv_reg_dmabuf_mr(pd, 0, 64, 0, 0, 0) && errno == EOPNOTSUPP);
	errno = 0;
	CHECK(!ibv_import_mr(pd, 1) && errno == EOPNOTSUPP);
	puts("as it should be");
}

/* The system has no such function. */
static void missing(void)
{
	struct ibv_device device = { .name = "sys0" };

	ibv_get_device_guid(&device);
	puts("as it should be");
}

int main(int argc, char **argv)
{
	(void)argc;
	switch (argv[1][0]) {
	case 'l':
		lists();
		break;
	case 'e':
		events();
		break;
	case 'p':
		ports();
		break;
	case 'r':
		refusals();
		break;
	default:
		missing();
	}
	return 0;
}
C
library() { cc -shared -fPIC -Wl,-soname,"$1" -o "$tmp/$1" "${@:2}"; }
{ library libibverbs.so.1 "$tmp/verbs.c" && library librdmacm.so.1 "$tmp/cm.c" &&
	cc -rdynamic -Wl,--unresolved-symbols=ignore-all -o "$tmp/program" "$tmp/program.c" \
		"$tmp/libibverbs.so.1" "$tmp/librdmacm.so.1"; } >"$tmp/said" 2>&1 ||
	{ cat "$tmp/said"; fail "the program can't be made"; }

# under WHAT: the program beside these libraries; its words go to $tmp/said.
under() { LD_LIBRARY_PATH=$tmp LD_PRELOAD=$preload timeout "$patience_s" "$tmp/program" "$@" >"$tmp/said" 2>&1; }

for DEVICES in -1 0 1 3; do
	export DEVICES
	under lists || { cat "$tmp/said"; fail "the list beside $DEVICES devices"; }
done
for what in events ports refusals; do
	under $what || { cat "$tmp/said"; fail "$what"; }
done
if under missing; then fail "a function that the system has not was called"; fi
grep -q "no ibv_get_device_guid()" "$tmp/said" || { cat "$tmp/said"; fail "nobody says what is missing"; }

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * addr.c -- connection management: addresses that ids are bound to, or look for.
 *
 * All addresses of this host are those of the devices, so whatever is resolved is
 * resolved at once.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "common/softverbs/base/proc.h"
#include "common/softverbs/cm/addr.h"
#include "common/softverbs/cm/event.h"
#include "common/softverbs/cm/id.h"
#include "common/softverbs/cm/sock.h"
#include "common/softverbs/cm/sync.h"
#include "common/softverbs/softverbs.h"

static socklen_t addr_bytes(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
					     sizeof(struct sockaddr_in);
}

static bool is_wildcard(const struct sockaddr *addr)
{
	const struct sockaddr_in6 *in6 = (const void *)addr;
	const struct sockaddr_in *in = (const void *)addr;

	return addr->sa_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr) :
					     in->sin_addr.s_addr == htonl(INADDR_ANY);
}

static bool is_group(const struct sockaddr *addr)
{
	const struct sockaddr_in6 *in6 = (const void *)addr;
	const struct sockaddr_in *in = (const void *)addr;

	return addr->sa_family == AF_INET6 ? IN6_IS_ADDR_MULTICAST(&in6->sin6_addr) :
					     IN_MULTICAST(ntohl(in->sin_addr.s_addr));
}

static void set_loopback(struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)addr)->sin6_addr = in6addr_loopback;
	else
		((struct sockaddr_in *)(void *)addr)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

/* 0 if an address is one of this host. */
static int check_local(const struct sockaddr *addr)
{
	struct sockaddr_storage copy = { 0 };
	int fd, ret;

	if (addr->sa_family != AF_INET && addr->sa_family != AF_INET6)
		return EAFNOSUPPORT;
	memcpy(&copy, addr, addr_bytes(addr));
	if (addr->sa_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)&copy)->sin6_port = 0;
	else
		((struct sockaddr_in *)(void *)&copy)->sin_port = 0;
	fd = socket(addr->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	ret = bind(fd, (struct sockaddr *)&copy, addr_bytes(addr)) ? errno : 0;
	close(fd);
	return ret;
}

int sv_cm_bind_id(struct sv_id *id, const struct sockaddr *addr)
{
	int ret;

	if (id->state != SV_CM_IDLE)
		return EINVAL;
	ret = check_local(addr);
	if (!ret)
		ret = sv_cm_bind(id, addr);
	if (ret)
		return ret;
	if (!is_wildcard(addr))
		sv_cm_set_device(id);
	id->state = SV_CM_BOUND;
	return 0;
}

int sv_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	pthread_mutex_lock(&sv_cm.lock);
	return sv_cm_done(sv_cm_bind_id(sv_id_of(id), addr));
}

/* Without a source: the destination's address, which is of this host (or a group, then it is
 * loopback), and a port that nobody could listen on anyway. */
static void set_source(struct sv_id *id)
{
	struct rdma_addr *addr = &id->id.route.addr;
	uint16_t port = 0;

	if (addr->src_addr.sa_family && !is_wildcard(&addr->src_addr))
		return;
	if (addr->src_addr.sa_family == addr->dst_addr.sa_family)
		port = addr->src_sin.sin_port; /* same place in both families */
	addr->src_storage = addr->dst_storage;
	if (is_group(&addr->dst_addr))
		set_loopback(&addr->src_addr);
	if (!port) {
		sv_random(&port, sizeof(port));
		port |= htons(0x8000);
	}
	addr->src_sin.sin_port = port;
}

/* Whether it is of a device whose port is cut: from there nobody is reached. */
static bool choose_source(struct sv_id *id)
{
	set_source(id);
	return sv_device_is_cut(sv_device_of(&id->id.route.addr.src_addr));
}

static void set_destination(struct sv_id *id, const struct sockaddr *dst)
{
	struct rdma_addr *addr = &id->id.route.addr;

	memcpy(&addr->dst_storage, dst, addr_bytes(dst));
	if (is_wildcard(dst))
		set_loopback(&addr->dst_addr);
}

int sv_resolve_addr(struct rdma_cm_id *cm_id, struct sockaddr *src, struct sockaddr *dst,
		    int timeout_ms)
{
	struct sv_id *id = sv_id_of(cm_id);
	int ret;

	(void)timeout_ms;
	if (dst->sa_family != AF_INET && dst->sa_family != AF_INET6)
		return sv_cm_fail(EAFNOSUPPORT);
	pthread_mutex_lock(&sv_cm.lock);
	ret = src && id->state == SV_CM_IDLE ? sv_cm_bind_id(id, src) : 0;
	if (!ret && id->state != SV_CM_IDLE && id->state != SV_CM_BOUND)
		ret = EINVAL;
	if (ret)
		return sv_cm_done(ret);
	set_destination(id, dst);
	ret = is_group(dst) ? 0 : check_local(&cm_id->route.addr.dst_addr);
	if (ret) {
		sv_cm_queue(id, RDMA_CM_EVENT_ADDR_ERROR, -ret, NULL);
	} else if (choose_source(id)) {
		sv_cm_queue(id, RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH, NULL);
	} else {
		sv_cm_set_device(id);
		id->state = SV_CM_ADDR_RESOLVED;
		sv_cm_queue(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
	}
	pthread_mutex_unlock(&sv_cm.lock);
	return sv_cm_complete(cm_id);
}

int sv_resolve_route(struct rdma_cm_id *cm_id, int timeout_ms)
{
	struct sv_id *id = sv_id_of(cm_id);

	(void)timeout_ms;
	pthread_mutex_lock(&sv_cm.lock);
	if (id->state != SV_CM_ADDR_RESOLVED)
		return sv_cm_done(EINVAL);
	id->state = SV_CM_ROUTE_RESOLVED;
	sv_cm_queue(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
	pthread_mutex_unlock(&sv_cm.lock);
	return sv_cm_complete(cm_id);
}

__be16 sv_get_src_port(struct rdma_cm_id *id)
{
	return id->route.addr.src_sin.sin_port; /* same place in sockaddr_in6 */
}

__be16 sv_get_dst_port(struct rdma_cm_id *id)
{
	return id->route.addr.dst_sin.sin_port;
}

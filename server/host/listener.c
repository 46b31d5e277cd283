/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/host/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/host/host.h"
#include "server/host/rails.h"
#include "server/worker/context.h"

#define BACKLOG 128

/* Fills in up to LISTENERS_MAX; how many there are, or -1. */
static int parse(const char *list, struct listener *listeners, struct err *err)
{
	char text[1024], *save, *word;
	int n = 0;

	if (snprintf(text, sizeof text, "%s", list) >= (int)sizeof text)
		return err_set(err, -1, "the list of addresses is too long");
	for (word = strtok_r(text, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		if (n == LISTENERS_MAX)
			return err_set(err, -1, "more than %d addresses", LISTENERS_MAX);
		if (addr_parse(&listeners[n++].addr, word, err))
			return -1;
	}
	return n ? n : err_set(err, -1, "'%s' is not an address: write HOST:PORT or [V6]:PORT", list);
}

int listeners_parse(struct host *h, const char *list, struct err *err)
{
	int n = parse(list, h->listeners, err);

	if (n < 0)
		return -1;
	h->listener_count = (unsigned)n;
	h->servers->addr = h->listeners[0].addr;
	return 0;
}

int listeners_check(const char *list, struct err *err)
{
	struct listener unused[LISTENERS_MAX];

	return parse(list, unused, err) < 0 ? -1 : 0;
}

static int explain_bind(const struct server *s, const struct addr *addr, int error, struct err *err)
{
	char names[256];

	if (error == EADDRINUSE)
		return err_set(err, -1, "%s is in use: another kvd serves it; use another port, or port 0 "
			       "for any", addr->text);
	if (s->device.bootstrap && error == ENETDOWN)
		return err_set(err, -1, "the port of %s is down (cable, switch, 'ip link')",
			       s->device.name);
	if (!s->device.bootstrap && (error == ENODEV || error == EADDRNOTAVAIL))
		return err_set(err, -1, "no RDMA device serves the address %s (devices: %s): give the "
			       "address of an RDMA interface ('rdma link' lists them)", addr->text,
			       device_list(names, sizeof names));
	return err_set_errno(err, -1, error, "can't bind to %s", addr->text);
}

/* The first says which device it is, in the line; each has a rail. */
static int check_device(struct host *h, struct listener *l, bool first, struct err *err)
{
	struct server *s = h->servers;
	struct device other = s->device;

	if (device_check(first ? &s->device : &other, l->id, &l->addr, err))
		return -1;
	if (!l->id->verbs)
		return err_set(err, -1, "%s is on no single device: give the address of one interface, or "
			       "of several with commas between", l->addr.text);
	return 0;
}

static int open_one(struct host *h, struct listener *l, bool first, struct err *err)
{
	struct server *s = h->servers;
	const struct verbs *v = s->verbs;

	if (v->create_id(h->channel, &l->id, h, RDMA_PS_TCP))
		return err_set_errno(err, -1, errno, "can't create an RDMA id");
	if (device_prepare(&s->device, l->id))
		return err_set_errno(err, -1, errno, "can't prepare an RDMA id");
	if (v->bind_addr(l->id, &l->addr.sa))
		return explain_bind(s, &l->addr, errno, err);
	if (check_device(h, l, first, err))
		return -1;
	addr_set_port(&l->addr, ntohs(v->get_src_port(l->id)));
	return rails_add(h, l, err);
}

int listeners_open(struct host *h, struct err *err)
{
	struct server *s = h->servers;

	h->channel = s->verbs->create_event_channel();
	if (!h->channel)
		return err_set_errno(err, -1, errno,
				     "can't open an RDMA event channel (is the module rdma_ucm loaded?)");
	int flags = fcntl(h->channel->fd, F_GETFL);
	if (flags < 0 || fcntl(h->channel->fd, F_SETFL, flags | O_NONBLOCK))
		return err_set_errno(err, -1, errno, "can't set up event descriptors");
	for (unsigned i = 0; i < h->listener_count; i++)
		if (open_one(h, &h->listeners[i], i == 0, err))
			return -1;
	s->addr = h->listeners[0].addr;
	return 0;
}

int listeners_listen(struct host *h, struct err *err)
{
	const struct server *s = h->servers;

	for (unsigned i = 0; i < h->listener_count; i++) {
		const struct listener *l = &h->listeners[i];
		if (!s->verbs->listen(l->id, BACKLOG))
			continue;
		return errno == EADDRINUSE
			       ? explain_bind(s, &l->addr, errno, err)
			       : err_set_errno(err, -1, errno, "can't listen on %s", l->addr.text);
	}
	return 0;
}

void listeners_close(struct host *h)
{
	for (unsigned i = 0; i < h->listener_count; i++) {
		if (h->listeners[i].id)
			h->servers->verbs->destroy_id(h->listeners[i].id);
		h->listeners[i].id = NULL;
	}
}

void listeners_close_lost(struct host *h)
{
	const struct server *s = h->servers;

	for (unsigned i = 0; i < h->listener_count; i++) {
		struct listener *l = &h->listeners[i];
		if (!l->id || !atomic_load(&s->rails[l->rail].is_lost))
			continue;
		s->verbs->destroy_id(l->id);
		l->id = NULL;
	}
}

unsigned listeners_find(const struct host *h, struct rdma_cm_id *id)
{
	unsigned of_device = 0;
	struct addr addr;

	addr_from(&addr, rdma_get_local_addr(id));
	for (unsigned i = h->listener_count; i-- > 0;) {
		const struct listener *l = &h->listeners[i];
		if (!strcmp(l->addr.text, addr.text))
			return i;
		if (h->servers->rails[l->rail].ctx == id->verbs)
			of_device = i;
	}
	return of_device; /* introduced over TCP, an id's address is that of the other network */
}

const struct addr *listeners_widest(const struct host *h)
{
	for (unsigned i = 0; i < h->listener_count; i++)
		if (!addr_is_loopback(&h->listeners[i].addr))
			return &h->listeners[i].addr;
	return &h->listeners[0].addr;
}

const char *listeners_text(const struct host *h, char *buf, size_t buf_bytes)
{
	size_t used = 0;

	buf[0] = '\0';
	for (unsigned i = 0; i < h->listener_count && used < buf_bytes; i++)
		used += (size_t)snprintf(buf + used, buf_bytes - used, "%s%s", i ? ", " : "",
					 h->listeners[i].addr.text);
	return buf;
}

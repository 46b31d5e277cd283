/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/rdma/device.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_soft_name(const char *name)
{
	return !strcmp(name, "soft") || !strcmp(name, "soft0");
}

/* Calls ibv_get_device_list and says whether `name` (NULL: any) is in it. */
static bool system_has(const char *name, char *names, size_t names_bytes)
{
	int n = 0;
	size_t used = 0;
	bool found = false;
	struct ibv_device **list = verbs_system.get_device_list(&n);

	snprintf(names, names_bytes, "none");
	for (int i = 0; list && i < n; i++) {
		int rc = snprintf(names + used, names_bytes - used, "%s%s", i ? ", " : "",
				  list[i]->name);
		if (rc > 0 && used + (size_t)rc < names_bytes)
			used += (size_t)rc;
		found |= !name || !strcmp(name, list[i]->name);
	}
	if (list)
		verbs_system.free_device_list(list);
	return found;
}

const char *device_list(char *buf, size_t buf_bytes)
{
	system_has(NULL, buf, buf_bytes);
	return buf;
}

static int choose_soft(struct device *device, const char *why, struct err *err)
{
	if (!verbs_soft)
		return err_set(err, -1,
			       "the software RDMA device is needed (%s), but this build has none: "
			       "configure without --disable-softverbs", why);
	device->verbs = verbs_soft;
	snprintf(device->name, sizeof device->name, "soft0");
	snprintf(device->line, sizeof device->line, "software device soft0 (%s)", why);
	return 0;
}

/* How the queue pairs of two ends are introduced to each other. */
static int take_bootstrap(struct device *d, const char *how, struct err *err)
{
	if (strcmp(how, "tcp") && strcmp(how, "cm"))
		return err_set(err, -1, "bootstrap: '%s' is neither tcp nor cm", how);
	d->bootstrap = !strcmp(how, "tcp");
	return 0;
}

/* "ack-timeout=14": into the device. */
static int take_option(struct device *d, const char *text, struct err *err)
{
	const struct {
		const char *name;
		int *value;
		int min, max;
	} known[] = { { "ack-timeout=", &d->tuning.ack_timeout, 1, 31 },
		      { "retries=", &d->tuning.retries, 0, 6 },
		      { "sl=", &d->tuning.service_level, 0, 15 },
		      { "tc=", &d->tuning.traffic_class, 0, 255 },
		      { "port=", &d->path.port, 1, 254 },
		      { "gid=", &d->path.gid_index, 0, 255 },
		      { "pkey=", &d->path.pkey_index, 0, 65535 } };

	for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++) {
		size_t bytes = strlen(known[i].name);
		char *end;
		if (strncmp(text, known[i].name, bytes))
			continue;
		long n = strtol(text + bytes, &end, 0);
		if (end == text + bytes || *end || n < known[i].min || n > known[i].max)
			return err_set(err, -1, "device: '%s' wants a number from %d to %d", text,
				       known[i].min, known[i].max);
		*known[i].value = (int)n;
		return 0;
	}
	if (!strncmp(text, "bootstrap=", 10))
		return take_bootstrap(d, text + 10, err);
	return err_set(err, -1, "device: '%s' is none of ack-timeout=N, retries=N, sl=N, tc=N, "
		       "bootstrap=tcp, port=N, gid=N, pkey=N", text);
}

/* Splits "NAME,OPTION=N,...": the name stays in `text`. */
static int take_options(struct device *d, char *text, struct err *err)
{
	const char *bootstrap = secure_getenv("KVD_BOOTSTRAP");
	char *next = strchr(text, ',');

	d->tuning = (struct device_tuning){ DEVICE_UNSET, DEVICE_UNSET, DEVICE_UNSET,
					    DEVICE_UNSET };
	d->path = (struct bootstrap_device){ .gid_index = DEVICE_UNSET };
	if (bootstrap && *bootstrap && take_bootstrap(d, bootstrap, err))
		return -1;
	while (next) {
		char *option = next + 1;
		*next = '\0';
		next = strchr(option, ',');
		if (next)
			*next = '\0';
		int rc = take_option(d, option, err);
		if (next)
			*next = ',';
		if (rc)
			return rc;
	}
	if (!d->bootstrap && (d->path.port || d->path.pkey_index || d->path.gid_index >= 0))
		return err_set(err, -1, "device: port, gid and pkey are for bootstrap=tcp: otherwise they "
			       "are those of the address");
	return 0;
}

/* "0002:c903:0001:0203", with or without colons: into its device's name. */
static void name_of_guid(char *text, size_t text_bytes)
{
	unsigned long long guid = 0;
	unsigned digits = 0;
	int n = 0;

	for (const char *at = text; *at; at++) {
		if (*at == ':')
			continue;
		if (!isxdigit((unsigned char)*at) || ++digits > 16)
			return;
		guid = guid << 4 | (unsigned)(*at <= '9' ? *at - '0' : (*at | 32) - 'a' + 10);
	}
	struct ibv_device **list = digits == 16 ? verbs_system.get_device_list(&n) : NULL;
	for (int i = 0; list && i < n; i++)
		if (be64toh(verbs_system.get_device_guid(list[i])) == guid)
			snprintf(text, text_bytes, "%s", list[i]->name);
	if (list)
		verbs_system.free_device_list(list);
}

/* An address of the other network tells no device: the name, or there is but one. */
static int choose_only(struct device *device, struct err *err)
{
	int n = 0;
	char names[256];
	struct ibv_device **list = verbs_system.get_device_list(&n);

	if (list && n == 1)
		snprintf(device->name, sizeof device->name, "%s", list[0]->name);
	if (list)
		verbs_system.free_device_list(list);
	return n == 1 ? 0
		      : err_set(err, -1, "bootstrap over TCP: which of the RDMA devices (%s)?  Name it: "
				"--device NAME", device_list(names, sizeof names));
}

static int use_bootstrap(struct device *device, struct err *err)
{
	size_t used;

	if (!device->name[0] && choose_only(device, err))
		return -1;
	memcpy(device->path.name, device->name, sizeof device->path.name);
	device->verbs = bootstrap_verbs(device->verbs);
	used = strlen(device->line);
	snprintf(device->line + used, sizeof device->line - used, ", introduced over TCP");
	return 0;
}

static int choose(struct device *device, const char *name, const struct addr *addr,
		  struct err *err);

int device_choose(struct device *device, const char *name, const struct addr *addr,
		  struct err *err)
{
	struct device asked = { .verbs = NULL };
	char text[128] = "";

	memset(device, 0, sizeof *device);
	if (name && snprintf(text, sizeof text, "%s", name) >= (int)sizeof text)
		return err_set(err, -1, "device: '%s' is too long", name);
	if (take_options(&asked, text, err))
		return -1;
	name_of_guid(text, sizeof text);
	int rc = choose(device, *text ? text : NULL, addr, err);
	device->tuning = asked.tuning;
	device->bootstrap = asked.bootstrap;
	device->path = asked.path;
	return !rc && device->bootstrap ? use_bootstrap(device, err) : rc;
}

const char *device_spec(const char *name, const char *bootstrap, char *buf, size_t buf_bytes)
{
	if (!bootstrap)
		return name;
	snprintf(buf, buf_bytes, "%s,bootstrap=%s", name ? name : "", bootstrap);
	return buf;
}

int device_prepare(const struct device *device, struct rdma_cm_id *id)
{
	struct bootstrap_device path = device->path;

	return device->bootstrap
		       ? device->verbs->set_option(id, BOOTSTRAP_LEVEL, 0, &path, sizeof path)
		       : 0;
}

static int choose(struct device *device, const char *name, const struct addr *addr,
		  struct err *err)
{
	char names[256];

	memset(device, 0, sizeof *device);
	if (name && is_soft_name(name))
		return choose_soft(device, "named by --device", err);
	if (name) {
		if (!system_has(name, names, sizeof names))
			return err_set(err, -1,
				       "there is no RDMA device '%s' (there are: %s; 'soft' is the software "
				       "device)", name, names);
		device->verbs = &verbs_system;
		/* The kernel's names are shorter (IBV_SYSFS_NAME_MAX). */
		snprintf(device->name, sizeof device->name, "%.*s", (int)sizeof device->name - 1, name);
		snprintf(device->line, sizeof device->line, "RDMA device %s (named by --device)",
			 device->name);
		return 0;
	}
	if (addr_is_loopback(addr))
		return choose_soft(device, "loopback address", err);
	if (!system_has(NULL, names, sizeof names))
		return choose_soft(device, "this machine has no RDMA device", err);
	device->verbs = &verbs_system;
	snprintf(device->line, sizeof device->line, "RDMA device of %s", addr->text);
	return 0;
}

/* The line: device, port, and what rdma_cm chose, which is what goes wrong first. */
static void tell_path(struct device *device, const struct rdma_cm_id *id, const struct addr *addr)
{
	struct ibv_port_attr attr;
	char gid[INET6_ADDRSTRLEN] = "?";
	unsigned mtu = 0;

	memset(&attr, 0, sizeof attr);
	if (id->port_num && !device->verbs->query_port(id->verbs, id->port_num, &attr))
		mtu = 128u << attr.active_mtu;
	inet_ntop(AF_INET6, id->route.addr.addr.ibaddr.sgid.raw, gid, sizeof gid);
	snprintf(device->line, sizeof device->line, "RDMA device %s (%s %s), port %u, %s %s, MTU %u%s",
		 id->verbs->device->name, device->name[0] ? "named by --device; for" : "of the address",
		 addr->text, id->port_num,
		 attr.link_layer == IBV_LINK_LAYER_ETHERNET ? "RoCE v2 GID" : "GID", gid, mtu,
		 device->bootstrap ? ", introduced over TCP" : "");
}

int device_check(struct device *device, const struct rdma_cm_id *id, const struct addr *addr,
		 struct err *err)
{
	char names[256];

	if (device->verbs->soft)
		return 0;
	if (!id->verbs)
		return err_set(err, -1,
			       "no RDMA device serves the address %s (devices: %s): give the address of "
			       "an RDMA interface ('rdma link' lists them)", addr->text,
			       device_list(names, sizeof names));
	const char *found = id->verbs->device->name;
	if (device->name[0] && strcmp(device->name, found))
		return err_set(err, -1, "the address %s belongs to the RDMA device %s, not to %s",
			       addr->text, found, device->name);
	tell_path(device, id, addr);
	return 0;
}

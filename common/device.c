/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/device.h"

#include <stdio.h>
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

int device_choose(struct device *device, const char *name, const struct addr *addr,
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
		snprintf(device->name, sizeof device->name, "%s", name);
		snprintf(device->line, sizeof device->line, "RDMA device %s (named by --device)", name);
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
	if (!device->name[0])
		snprintf(device->line, sizeof device->line, "RDMA device %s (of the address %s)", found,
			 addr->text);
	return 0;
}

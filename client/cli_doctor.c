/* SPDX-License-Identifier: BSD-2-Clause */
/* doctor and counters: what this machine's RDMA is like, with nobody asked. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli.h"
#include "common/doctor.h"
#include "common/hwcount.h"

int cli_doctor(struct cli *cli, const struct cli_args *args)
{
	unsigned findings = doctor_examine(stdout, 0);

	(void)args;
	fflush(stdout);
	return findings ? cli_fail(cli, CLI_FALSE, "%u thing%s to put right, marked FIX", findings,
				   findings == 1 ? "" : "s")
			: CLI_DONE;
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_counter(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && strcmp(entry->d_name, "lifespan") != 0;
}

static void print_counter(const char *folder, const char *name, bool all)
{
	const struct hwcount_meaning *m = hwcount_find(name);
	char path[1024];
	uint64_t value;
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	file = fopen(path, "re");
	if (!file)
		return;
	if (fscanf(file, "%" SCNu64, &value) == 1 && (all || value))
		printf("  %-32s %14" PRIu64 "  %s%s\n", name, value, m && m->trouble ? "! " : "",
		       m ? m->meaning : "");
	fclose(file);
}

static void print_folder(const char *device, const char *port, const char *kind, bool all)
{
	char folder[512];
	struct dirent **names;
	int count;

	snprintf(folder, sizeof folder, "/sys/class/infiniband/%s/ports/%s/%s", device, port, kind);
	count = scandir(folder, &names, is_counter, compare_names);
	if (count < 0)
		return;
	for (int i = 0; i < count; i++) {
		print_counter(folder, names[i]->d_name, all);
		free(names[i]);
	}
	free(names);
}

static void print_ports(const char *device, bool all)
{
	char folder[512];
	struct dirent **ports;
	int count;

	snprintf(folder, sizeof folder, "/sys/class/infiniband/%s/ports", device);
	count = scandir(folder, &ports, is_counter, compare_names);
	for (int i = 0; i < count; i++) {
		printf("%s port %s\n", device, ports[i]->d_name);
		print_folder(device, ports[i]->d_name, "hw_counters", all);
		print_folder(device, ports[i]->d_name, "counters", all);
		free(ports[i]);
	}
	if (count >= 0)
		free(ports);
}

int cli_counters(struct cli *cli, const struct cli_args *args)
{
	struct dirent **devices;
	int count = scandir("/sys/class/infiniband", &devices, is_counter, compare_names);

	for (int i = 0; i < count; i++) {
		print_ports(devices[i]->d_name, args->given[CLI_COUNTERS_ALL]);
		free(devices[i]);
	}
	if (count >= 0)
		free(devices);
	return count > 0 ? CLI_DONE
			 : cli_fail(cli, CLI_FALSE, "this machine has no RDMA device that counts (the software "
				    "device does not)");
}

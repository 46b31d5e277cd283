/* SPDX-License-Identifier: BSD-2-Clause */
/* doctor and counters: what this machine's RDMA is like, with nobody asked. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/command/device.h"
#include "client/cli/session/answer.h"
#include "common/rdma/doctor.h"
#include "common/rdma/hwcount.h"

enum { COUNTERS_ALL };

static const struct cli_option counters_options[] = {
	[COUNTERS_ALL] = { "all", 'a', NULL, "those that are 0, too" },
	{ 0 },
};

static int run_doctor(struct cli *cli, const struct cli_args *args)
{
	unsigned findings = doctor_examine(stdout, 0);

	(void)args;
	fflush(stdout);
	return findings ? cli_fail(cli, CLI_FALSE, "%u thing%s to put right, marked FIX", findings,
				   findings == 1 ? "" : "s")
			: CLI_DONE;
}

const struct cli_command cli_doctor = {
	.name = "doctor",
	.arguments = "",
	.summary = "find what hinders RDMA here",
	.help = "Examines modules, devices, ports, limits, huge pages, NUMA and firewall of this\n"
		"machine. Each gets a line: ok, or what to type. The status is 1 if there is\n"
		"something to put right. It needs no server.",
	.run = run_doctor,
};

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
	char path[2048];
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

/* `part` of the device, with a title if it is not NULL and there are any. */
static void print_folder(const char *device, const char *part, const char *title, bool all)
{
	char folder[600];
	struct dirent **names;
	int count;

	snprintf(folder, sizeof folder, "/sys/class/infiniband/%s/%s", device, part);
	count = scandir(folder, &names, is_counter, compare_names);
	if (count < 0)
		return;
	if (count && title)
		printf("%s %s\n", device, title);
	for (int i = 0; i < count; i++) {
		print_counter(folder, names[i]->d_name, all);
		free(names[i]);
	}
	free(names);
}

static void print_device(const char *device, bool all)
{
	static const char *const kinds[] = { "hw_counters", "counters" };
	char folder[512], part[512];
	struct dirent **ports;
	int count;

	snprintf(folder, sizeof folder, "/sys/class/infiniband/%s/ports", device);
	count = scandir(folder, &ports, is_counter, compare_names);
	for (int i = 0; i < count; i++) {
		printf("%s port %s\n", device, ports[i]->d_name);
		for (int k = 0; k < 2; k++) {
			snprintf(part, sizeof part, "ports/%s/%s", ports[i]->d_name, kinds[k]);
			print_folder(device, part, NULL, all);
		}
		free(ports[i]);
	}
	if (count >= 0)
		free(ports);
	/* Those of mlx4, by the name of this kernel or of Mellanox's own driver. */
	print_folder(device, "hw_counters", "as a whole", all);
	print_folder(device, "diag_counters", "as a whole", all);
}

static int run_counters(struct cli *cli, const struct cli_args *args)
{
	struct dirent **devices;
	int count = scandir("/sys/class/infiniband", &devices, is_counter, compare_names);

	for (int i = 0; i < count; i++) {
		print_device(devices[i]->d_name, args->given[COUNTERS_ALL]);
		free(devices[i]);
	}
	if (count >= 0)
		free(devices);
	return count > 0 ? CLI_DONE
			 : cli_fail(cli, CLI_FALSE, "this machine has no RDMA device that counts; the software "
				    "device does not");
}

const struct cli_command cli_counters = {
	.name = "counters",
	.arguments = "",
	.summary = "show counters of devices",
	.help = "Shows what the RDMA devices of this machine have counted, and what it means.\n"
		"A ! marks what tells of trouble. It needs no server.",
	.options = counters_options,
	.run = run_counters,
};

/* SPDX-License-Identifier: BSD-2-Clause */
/* doctor and counters: what this machine's RDMA is like, with nobody asked. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/command/device.h"
#include "client/cli/session/answer.h"
#include "client/cli/text/json_write.h"
#include "common/rdma/doctor.h"
#include "common/rdma/hwcount.h"

enum { DOCTOR_JSON };

static const struct cli_option doctor_options[] = {
	[DOCTOR_JSON] = { "json", 'j', NULL, "a line of JSON for each thing" },
	{ 0 },
};

static void print_json(void *arg, const char *mark, const char *what, const char *text)
{
	struct cli_json json = { .to = arg };

	cli_json_open(&json, NULL, '{');
	cli_json_text(&json, "mark", mark);
	cli_json_text(&json, "what", what);
	cli_json_text(&json, "text", text);
	cli_json_end(&json);
}

static int run_doctor(struct cli *cli, const struct cli_args *args)
{
	unsigned findings;

	if (args->given[DOCTOR_JSON])
		return doctor_examine_each(print_json, stdout, 0) ? CLI_FALSE : CLI_DONE;
	findings = doctor_examine(stdout, 0);
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
	.options = doctor_options,
	.run = run_doctor,
};

enum { COUNTERS_ALL, COUNTERS_JSON };

static const struct cli_option counters_options[] = {
	[COUNTERS_ALL] = { "all", 'a', NULL, "those that are 0, too" },
	[COUNTERS_JSON] = { "json", 'j', NULL, "a line of JSON for each counter" },
	{ 0 },
};

/* What is shown, and how. */
struct showing {
	bool all, json;
	const char *device;
	const char *port; /* NULL: of the device as a whole */
};

static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_counter(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && strcmp(entry->d_name, "lifespan") != 0;
}

static void counter_json(const struct showing *s, const char *name, uint64_t value,
			 const struct hwcount_meaning *m)
{
	struct cli_json json = { .to = stdout };

	cli_json_open(&json, NULL, '{');
	cli_json_text(&json, "device", s->device);
	if (s->port)
		cli_json_number(&json, "port", strtoull(s->port, NULL, 10));
	cli_json_text(&json, "counter", name);
	cli_json_number(&json, "value", value);
	cli_json_bool(&json, "trouble", m && m->trouble);
	cli_json_text(&json, "meaning", m ? m->meaning : "");
	cli_json_end(&json);
}

static void print_counter(const struct showing *s, const char *folder, const char *name)
{
	const struct hwcount_meaning *m = hwcount_find(name);
	char path[2048];
	uint64_t value;
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	file = fopen(path, "re");
	if (!file)
		return;
	if (fscanf(file, "%" SCNu64, &value) == 1 && (s->all || value)) {
		if (s->json)
			counter_json(s, name, value, m);
		else
			printf("  %-32s %14" PRIu64 "  %s%s\n", name, value,
			       m && m->trouble ? "! " : "", m ? m->meaning : "");
	}
	fclose(file);
}

/* `part` of the device, with a title if it is not NULL and there are any. */
static void print_folder(const struct showing *s, const char *part, const char *title)
{
	char folder[600];
	struct dirent **names;
	int count;

	snprintf(folder, sizeof folder, "/sys/class/infiniband/%s/%s", s->device, part);
	count = scandir(folder, &names, is_counter, compare_names);
	if (count < 0)
		return;
	if (count && title && !s->json)
		printf("%s %s\n", s->device, title);
	for (int i = 0; i < count; i++) {
		print_counter(s, folder, names[i]->d_name);
		free(names[i]);
	}
	free(names);
}

static void print_device(struct showing *s)
{
	static const char *const kinds[] = { "hw_counters", "counters" };
	char folder[512], part[512];
	struct dirent **ports;
	int count;

	snprintf(folder, sizeof folder, "/sys/class/infiniband/%s/ports", s->device);
	count = scandir(folder, &ports, is_counter, compare_names);
	for (int i = 0; i < count; i++) {
		s->port = ports[i]->d_name;
		if (!s->json)
			printf("%s port %s\n", s->device, s->port);
		for (int k = 0; k < 2; k++) {
			snprintf(part, sizeof part, "ports/%s/%s", s->port, kinds[k]);
			print_folder(s, part, NULL);
		}
		free(ports[i]);
	}
	if (count >= 0)
		free(ports);
	s->port = NULL;
	/* Those of mlx4, by the name of this kernel or of Mellanox's own driver. */
	print_folder(s, "hw_counters", "as a whole");
	print_folder(s, "diag_counters", "as a whole");
}

static int run_counters(struct cli *cli, const struct cli_args *args)
{
	struct showing showing = { .all = args->given[COUNTERS_ALL], .json = args->given[COUNTERS_JSON] };
	struct dirent **devices;
	int count = scandir("/sys/class/infiniband", &devices, is_counter, compare_names);

	for (int i = 0; i < count; i++) {
		showing.device = devices[i]->d_name;
		print_device(&showing);
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

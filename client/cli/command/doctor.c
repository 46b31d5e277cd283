/* SPDX-License-Identifier: BSD-2-Clause */
/* doctor and counters: what this machine's RDMA is like, with nobody asked. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cluster/doctor.h"
#include "client/cli/command/device.h"
#include "client/cli/session/answer.h"
#include "client/cli/session/front.h"
#include "client/cli/text/json_write.h"
#include "common/rdma/doctor.h"
#include "common/rdma/hwcount.h"

/* Where a kvfront is if nothing else was said: its unit's socket, and memcached's port. */
static const char *const fronts[] = { "/run/kvfront/kvfront.sock", "127.0.0.1:11211" };

enum { DOCTOR_JSON, DOCTOR_FRONT, DOCTOR_CLUSTER };

static const struct cli_option doctor_options[] = {
	[DOCTOR_JSON] = { "json", 'j', NULL, "a line of JSON for each thing" },
	[DOCTOR_FRONT] = { "front", 'f', "WHERE", "a kvfront's socket, or HOST:PORT" },
	[DOCTOR_CLUSTER] = { "cluster", 'c', NULL, "the cluster that -s is a member of" },
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

static void print_line(void *arg, const char *mark, const char *what, const char *text)
{
	fprintf(arg, "%-5s %-16s %s\n", mark, what, text);
}

/* The kvfront that was named, or those that are found; how many things want a remedy. */
static unsigned examine_fronts(const char *where,
			       void (*each)(void *arg, const char *mark, const char *what,
					    const char *text))
{
	unsigned findings = 0, count = where ? 1 : sizeof fronts / sizeof *fronts;
	struct cli_front f;

	for (unsigned i = 0; i < count; i++) {
		cli_front_examine(where ? where : fronts[i], &f);
		if (!where && !f.is_there)
			continue;
		each(stdout, f.mark, "kvfront", f.text);
		findings += strcmp(f.mark, "FIX") == 0;
	}
	return findings;
}

static int run_doctor(struct cli *cli, const struct cli_args *args)
{
	bool json = args->given[DOCTOR_JSON];
	char where[256];

	if (args->given[DOCTOR_FRONT] &&
	    (args->option[DOCTOR_FRONT].bytes >= sizeof where || !args->option[DOCTOR_FRONT].bytes))
		return cli_fail(cli, CLI_USAGE, "--front wants a socket's path, or HOST:PORT");
	snprintf(where, sizeof where, "%.*s", (int)args->option[DOCTOR_FRONT].bytes,
		 args->given[DOCTOR_FRONT] ? (const char *)args->option[DOCTOR_FRONT].data : "");
	unsigned findings = doctor_examine_each(json ? print_json : print_line, stdout, 0);
	findings += examine_fronts(*where ? where : NULL, json ? print_json : print_line);
	if (args->given[DOCTOR_CLUSTER])
		findings += cluster_doctor(cli, json ? print_json : print_line);
	fflush(stdout);
	if (json)
		return findings ? CLI_FALSE : CLI_DONE;
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
		"something to put right. It needs no server. A kvfront is asked, too: the one\n"
		"that --front names, or at its unit's socket and at 127.0.0.1:11211. With\n"
		"--cluster the members of a cluster are asked, of which -s names one or more.",
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

/* SPDX-License-Identifier: BSD-2-Clause */
/* kvbench plot: pictures of reports. */
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/command/command.h"
#include "bench/command/plot.h"
#include "bench/format/jsonread.h"
#include "bench/report/picture.h"
#include "common/opt.h"

#define RUNS_MAX 256
#define LABEL_BYTES 96

static struct {
	const char *output;
	int format_at;
	bool help;
} o;

static const char *const formats[] = { "svg", "png", NULL };

static const struct opt table[] = {
	{ "output", 'o', OPT_STRING, &o.output, 0, 0, NULL, "PREFIX",
	  "begin the pictures' names with it (kvbench-)" },
	{ "format", 0, OPT_CHOICE, &o.format_at, 0, 0, formats, "svg|png", "of the pictures" },
	{ "help", 'h', OPT_FLAG, &o.help, 0, 0, NULL, NULL, "this list" },
	{ .name = NULL },
};

/* One report of a run. */
struct run {
	const struct jsonread *json;
	char label[LABEL_BYTES];
};

struct plot {
	struct jsonread *files[RUNS_MAX];
	unsigned file_count;
	struct run runs[RUNS_MAX];
	unsigned run_count;
	bool is_alone; /* there is one file, whose name tells nothing apart */
	const struct jsonread *sg; /* of the last file that has one */
};

/* --------------------------------------------------------------------- reading */

static void add_run(struct plot *p, const struct jsonread *json, const char *name)
{
	const char *inner = jsonread_string(jsonread_member(json, "name"), NULL);
	struct run *run = &p->runs[p->run_count];

	if (p->run_count == RUNS_MAX || jsonread_member(json, "operations") == NULL)
		return;
	run->json = json;
	if (inner != NULL && p->is_alone)
		snprintf(run->label, sizeof run->label, "%.80s", inner);
	else
		snprintf(run->label, sizeof run->label, "%.40s%s%.40s", name,
			 inner != NULL ? ": " : "", inner != NULL ? inner : "");
	p->run_count++;
}

static int add_file(struct plot *p, const char *path, struct err *err)
{
	struct jsonread *json = jsonread_new_file(path, err);
	const struct jsonread *all;
	char copy[4096], *name;

	if (json == NULL)
		return -1;
	if (p->file_count == RUNS_MAX) {
		jsonread_delete(&json);
		return err_set(err, -1, "more than %d files", RUNS_MAX);
	}
	p->files[p->file_count++] = json;
	snprintf(copy, sizeof copy, "%s", path);
	name = basename(copy);
	if (strlen(name) > 5 && strcmp(name + strlen(name) - 5, ".json") == 0)
		name[strlen(name) - 5] = '\0';
	all = jsonread_member(json, "compare");
	if (all == NULL)
		add_run(p, json, name);
	for (all = all != NULL ? all->first : NULL; all != NULL; all = all->next)
		add_run(p, all, name);
	if (jsonread_member(json, "sg") != NULL)
		p->sg = json;
	return 0;
}

static double number(const struct run *run, const char *path)
{
	return jsonread_number(jsonread_path(run->json, path), NAN);
}

/* -------------------------------------------------------------------- pictures */

static int begin(struct picture *picture, const char *name, struct picture_config *config,
		 char *path, size_t path_bytes, struct err *err)
{
	snprintf(path, path_bytes, "%s%s.%s", o.output, name, formats[o.format_at]);
	config->path = path;
	return picture_begin(picture, config, err);
}

static int end(struct picture *picture, const char *path, struct err *err)
{
	if (picture_end(picture, err) < 0)
		return -1;
	printf("%s\n", path);
	return 0;
}

static bool is_soft(const struct jsonread *json)
{
	const struct jsonread *soft = jsonread_member(json, "software_device");

	return soft != NULL && soft->kind == JSONREAD_BOOL && soft->number != 0;
}

/* "on the software device", where any of the runs was: its times are no NIC's. */
static const char *device_words(const struct plot *p)
{
	for (unsigned i = 0; i < p->run_count; i++) {
		if (is_soft(p->runs[i].json))
			return " (software device)";
	}
	return "";
}

static void draw_curve(struct picture *picture, const struct run *run,
		       const struct jsonread *operation)
{
	const struct jsonread *points = jsonread_member(operation, "percentiles");
	double count = jsonread_number(jsonread_member(operation, "count"), 0);

	if (points == NULL || count <= 0)
		return;
	picture_series(picture, run->label);
	for (const struct jsonread *at = points->first; at != NULL; at = at->next) {
		double percentile = jsonread_number(at->first, 100);
		double value = jsonread_number(at->first->next, NAN);
		/* The greatest value stands where one in `count` is. */
		picture_point(picture, percentile < 100 ? 1 / (1 - percentile / 100) : count, value);
	}
}

static const struct jsonread *operation_of(const struct run *run, const char *kind)
{
	return jsonread_member(jsonread_member(run->json, "operations"), kind);
}

/* Whether a run before the i-th has that kind of operation: it has its panel. */
static bool has_panel(const struct plot *p, unsigned i, const char *kind)
{
	for (unsigned k = 0; k < i; k++) {
		if (operation_of(&p->runs[k], kind) != NULL)
			return true;
	}
	return false;
}

static void draw_panel(struct picture *picture, const struct plot *p, const char *kind)
{
	picture_panel(picture, kind);
	for (unsigned i = 0; i < p->run_count; i++) {
		const struct jsonread *operation = operation_of(&p->runs[i], kind);
		if (operation != NULL)
			draw_curve(picture, &p->runs[i], operation);
	}
}

static int draw_latencies(const struct plot *p, struct err *err)
{
	char path[4096], title[128];
	struct picture picture;
	struct picture_config config = {
		.title = title,
		.x_label = "percentile (%)",
		.y_label = "latency (\302\265s)",
		.log_x = true,
		.log_y = true,
		.settings = "set xtics ('0' 1, '50' 2, '90' 10, '99' 100, '99.9' 1000, "
			    "'99.99' 1e4, '99.999' 1e5, '99.9999' 1e6)\n",
	};

	snprintf(title, sizeof title, "Latency by percentile%s", device_words(p));
	if (begin(&picture, "latency", &config, path, sizeof path, err) < 0)
		return -1;
	for (unsigned i = 0; i < p->run_count; i++) {
		const struct jsonread *all = jsonread_member(p->runs[i].json, "operations");
		for (const struct jsonread *at = all->first; at != NULL; at = at->next) {
			if (!has_panel(p, i, at->key))
				draw_panel(&picture, p, at->key);
		}
	}
	return end(&picture, path, err);
}

static void draw_timeline(struct picture *picture, const struct run *run)
{
	const struct jsonread *line = jsonread_member(run->json, "timeline");
	bool any = false;

	picture_series(picture, run->label);
	for (line = line != NULL ? line->first : NULL; line != NULL; line = line->next) {
		double from = jsonread_number(jsonread_member(line, "from_seconds"), 0);
		double to = jsonread_number(jsonread_member(line, "to_seconds"), NAN);
		double rate = jsonread_number(jsonread_member(line, "throughput"), NAN);
		/* The rest behind the last whole second is too short to tell, unless it is all. */
		if (to - from > 0.5 || !any)
			picture_point(picture, (from + to) / 2, rate / 1e3);
		any = true;
	}
}

static int draw_throughput(const struct plot *p, struct err *err)
{
	char path[4096], title[128];
	struct picture picture;
	struct picture_config config = {
		.title = title,
		.x_label = "time (s)",
		.y_label = "throughput (1,000 operations/s)",
	};

	snprintf(title, sizeof title, "Throughput over time%s", device_words(p));
	if (begin(&picture, "throughput", &config, path, sizeof path, err) < 0)
		return -1;
	for (unsigned i = 0; i < p->run_count; i++)
		draw_timeline(&picture, &p->runs[i]);
	return end(&picture, path, err);
}

/* --------------------------------------------------------------------- scaling */

/* What runs of one line have in common. */
static void group_of(const struct run *run, const char *over, char *group, size_t bytes)
{
	bool threads = strcmp(over, "config.threads") == 0;
	double reads = number(run, "config.readproportion");

	snprintf(group, bytes, "%s%s, %.0f %% READ, depth %.0f, %.0f %s",
		 jsonread_string(jsonread_path(run->json, "config.store"), "?"),
		 strcmp(jsonread_string(jsonread_path(run->json, "config.get"), "read"), "message")
				 == 0 ? " by message" : "",
		 100 * reads, number(run, "config.depth"),
		 number(run, threads ? "config.recordcount" : "config.threads"),
		 threads ? "keys" : "threads");
}

static bool differs(const struct plot *p, const char *over)
{
	for (unsigned i = 1; i < p->run_count; i++) {
		if (number(&p->runs[i], over) != number(&p->runs[0], over))
			return true;
	}
	return false;
}

/* One line: the runs of a group by growing x. */
static void draw_group(struct picture *picture, const struct plot *p, const char *over,
		       const char *group)
{
	double last = -1;

	picture_series(picture, group);
	for (;;) {
		const struct run *next = NULL;
		for (unsigned i = 0; i < p->run_count; i++) {
			char of[128];
			double x = number(&p->runs[i], over);
			group_of(&p->runs[i], over, of, sizeof of);
			if (strcmp(of, group) == 0 && x > last &&
			    (next == NULL || x < number(next, over)))
				next = &p->runs[i];
		}
		if (next == NULL)
			return;
		last = number(next, over);
		picture_point(picture, last, number(next, "overall.throughput") / 1e3);
	}
}

static int draw_scaling(const struct plot *p, const char *over, const char *what, struct err *err)
{
	char path[4096], title[128], name[64], group[128], before[128];
	struct picture picture;
	struct picture_config config = {
		.title = title,
		.x_label = what,
		.y_label = "throughput (1,000 operations/s)",
		.log_x = strcmp(what, "keys") == 0,
		.settings = strcmp(what, "keys") == 0 ? "set xtics format '%.0f'" : "set xtics 1",
	};

	if (!differs(p, over))
		return 0;
	snprintf(title, sizeof title, "Throughput by %s%s", what, device_words(p));
	snprintf(name, sizeof name, "scaling-%s", what);
	if (begin(&picture, name, &config, path, sizeof path, err) < 0)
		return -1;
	for (unsigned i = 0; i < p->run_count; i++) {
		bool first = true;
		group_of(&p->runs[i], over, group, sizeof group);
		for (unsigned k = 0; k < i && first; k++) {
			group_of(&p->runs[k], over, before, sizeof before);
			first = strcmp(group, before) != 0;
		}
		if (first)
			draw_group(&picture, p, over, group);
	}
	return end(&picture, path, err);
}

/* ----------------------------------------------------------- scatter and gather */

static void draw_sg_line(struct picture *picture, const struct jsonread *lines,
			 const char *direction, const char *way, const char *title)
{
	picture_series(picture, title);
	for (const struct jsonread *at = lines->first; at != NULL; at = at->next) {
		if (strcmp(jsonread_string(jsonread_member(at, "direction"), ""), direction) == 0)
			picture_point(picture, jsonread_number(jsonread_member(at, "block_bytes"), NAN),
				      jsonread_number(jsonread_member(at, way), NAN));
	}
}

static int draw_sg(const struct plot *p, struct err *err)
{
	const struct jsonread *lines = p->sg != NULL ? jsonread_member(p->sg, "sg") : NULL;
	char path[4096], title[160];
	struct picture picture;
	struct picture_config config = {
		.title = title,
		.x_label = "block (bytes)",
		.y_label = "latency (\302\265s)",
		.log_x = true,
		.log_y = true,
	};

	if (lines == NULL)
		return 0;
	snprintf(title, sizeof title, "%.0f blocks: one list against a copy%s",
		 jsonread_number(jsonread_path(p->sg, "config.blocks"), NAN),
		 is_soft(p->sg) ? " (software device)" : "");
	if (begin(&picture, "sg", &config, path, sizeof path, err) < 0)
		return -1;
	draw_sg_line(&picture, lines, "gather", "list_us", "gather list, SEND");
	draw_sg_line(&picture, lines, "gather", "copy_us", "pack, then SEND");
	draw_sg_line(&picture, lines, "scatter", "list_us", "READ, scatter list");
	draw_sg_line(&picture, lines, "scatter", "copy_us", "READ, then unpack");
	return end(&picture, path, err);
}

/* ------------------------------------------------------------------- the command */

static int draw_all(const struct plot *p, struct err *err)
{
	if (p->run_count == 0 && p->sg == NULL)
		return err_set(err, -1, "no report of kvbench run, compare or sg in these files");
	if (p->run_count > 0 && (draw_latencies(p, err) < 0 || draw_throughput(p, err) < 0 ||
				 draw_scaling(p, "config.threads", "threads", err) < 0 ||
				 draw_scaling(p, "config.recordcount", "keys", err) < 0))
		return -1;
	return draw_sg(p, err);
}

static int read_and_draw(int count, char **paths, struct err *err)
{
	struct plot *p = calloc(1, sizeof *p);
	int rc = 0;

	if (p == NULL)
		return err_set(err, -1, "out of memory");
	p->is_alone = count == 1;
	for (int i = 0; i < count && rc == 0; i++)
		rc = add_file(p, paths[i], err);
	if (rc == 0)
		rc = draw_all(p, err);
	for (unsigned i = 0; i < p->file_count; i++)
		jsonread_delete(&p->files[i]);
	free(p);
	return rc;
}

/* Takes the options out from among the files; the number of files, or -1 with err. */
static int parse(int argc, char **argv, struct err *err)
{
	int files = 0, at = 0;

	memset(&o, 0, sizeof o);
	o.output = "kvbench-";
	while (at < argc) {
		int operand = opt_parse(table, argc - at, argv + at, err->text, sizeof err->text);
		if (operand < 0)
			return -1;
		at += operand;
		if (at < argc)
			argv[files++] = argv[at];
	}
	return files;
}

int command_plot(int argc, char **argv)
{
	struct err err = { "" };
	int files = parse(argc, argv, &err);

	if (files < 0)
		return command_fail(EXIT_USAGE, &err);
	if (o.help) {
		printf("usage: kvbench plot [options] FILE.json...\n");
		opt_print_help(table);
		return EXIT_DONE;
	}
	if (files == 0) {
		err_set(&err, -1, "which files? kvbench plot FILE.json...");
		return command_fail(EXIT_USAGE, &err);
	}
	if (read_and_draw(files, argv, &err) < 0)
		return command_fail(EXIT_USAGE, &err);
	return EXIT_DONE;
}

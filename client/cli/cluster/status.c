/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli cluster status: a table of the members, and in plain words what is wrong and what helps. */
#include <string.h>

#include "client/cli/cluster/status.h"
#include "client/cli/session/answer.h"
#include "client/cli/text/json_write.h"

/* ------------------------------------------------------------------ in plain words */
static void list(FILE *to, const struct members *m, bool (*is)(const struct member *m))
{
	const char *comma = "";

	for (unsigned i = 0; i < m->count; i++)
		if (is(&m->of[i])) {
			fprintf(to, "%s%s", comma, m->of[i].name);
			comma = ", ";
		}
}

static bool is_lost(const struct member *m)
{
	return member_is_of_set(m) && !m->answered;
}

static bool is_cut_off(const struct member *m)
{
	return m->answered && !m->reached;
}

static bool is_unfit(const struct member *m)
{
	return m->answered && !m->fit;
}

static bool is_spare(const struct member *m)
{
	return m->answered && !member_is_of_set(m);
}

static unsigned count(const struct members *m, bool (*is)(const struct member *m))
{
	unsigned n = 0;

	for (unsigned i = 0; i < m->count; i++)
		n += is(&m->of[i]);
	return n;
}

static unsigned judge_agreement(const struct members *m, FILE *to)
{
	unsigned away = count(m, is_cut_off);

	if (!away)
		return 0;
	fprintf(to, "ZooKeeper (%s) is not reached by ", m->agreement);
	list(to, m, is_cut_off);
	fputs(": what is served goes on, but nobody can take over, join or leave. Bring ZooKeeper back "
	      "(its log says why it is away); nothing else is to be done.\n", to);
	return 1;
}

/* Nobody of the set lives: what it had is gone with it, unless one comes back. */
static void tell_of_end(const struct members *m, FILE *to)
{
	fputs("All that are in sync are lost: ", to);
	list(to, m, is_lost);
	fputs(". If one of them still runs and is only cut off, bring back its network: it goes on. "
	      "Otherwise what they had is gone", to);
	if (count(m, is_spare)) {
		fputs(", but for what a member has that was left out earlier: ", to);
		list(to, m, is_spare);
		fputs(". \"kvcli -s ADDRESS cluster force\" makes it primary with that, after it has told "
		      "what is given up", to);
	}
	fputs(".\n", to);
}

static unsigned judge_primary(const struct members *m, FILE *to)
{
	const struct member *p = members_primary(m);

	if (!m->epoch) {
		fputs("Nobody has made the cluster yet: \"kvcli cluster init --copies N\", once N members "
		      "are there.\n", to);
		return 1;
	}
	if (p)
		return 0;
	if (!members_in_sync(m))
		tell_of_end(m, to);
	else
		fputs("No member serves at this moment: one that is in sync is taking over, or can't as "
		      "ZooKeeper is away. Ask again.\n", to);
	return 1;
}

static unsigned judge_copies(const struct members *m, FILE *to)
{
	unsigned have = members_in_sync(m), want = (unsigned)m->copies;

	if (!m->epoch || !have || have >= want)
		return 0;
	fprintf(to, "%u of %u copies are there%s. ", have, want,
		have == 1 ? ": the next loss is the loss of all" : "");
	if (count(m, is_lost)) {
		fputs("Lost: ", to);
		list(to, m, is_lost);
		fputs(". ", to);
	}
	fputs("Start a kvd with the same --cluster, --cluster-key and --memory: it is copied to.\n", to);
	return 1;
}

unsigned cluster_judge(const struct members *m, FILE *to)
{
	unsigned wrong = judge_agreement(m, to) + judge_primary(m, to) + judge_copies(m, to);

	if (count(m, is_unfit)) {
		fputs("Unfit: ", to);
		list(to, m, is_unfit);
		fputs(" lacks a change (its log says why), and waits to be copied to.\n", to);
		wrong++;
	}
	return wrong;
}

/* ------------------------------------------------------------------ for people */
static void figure(char *to, size_t bytes, double value, const char *unit)
{
	if (value < 0)
		snprintf(to, bytes, "-");
	else
		snprintf(to, bytes, "%.0f%s", value, unit);
}

/* What it does, and how long it may. */
static void doing(const struct member *m, char *to, size_t bytes)
{
	if (!m->answered)
		snprintf(to, bytes, m->there ? "does not answer" : "gone");
	else if (!m->fit)
		snprintf(to, bytes, "unfit, waits for a copy");
	else if (m->copied >= 0)
		snprintf(to, bytes, "being copied to: %.0f %%", 100 * m->copied);
	else if (!strcmp(m->state, "primary"))
		snprintf(to, bytes, "serves, lease %.0f ms", m->lease_ms);
	else
		snprintf(to, bytes, "%s", m->state);
}

static void show(const struct member *m, int width, int clients)
{
	char silent[24], lag[24], text[64];

	figure(silent, sizeof silent, !strcmp(m->role, "primary") ? -1 : m->silent_ms, " ms");
	figure(lag, sizeof lag, m->lag, "");
	doing(m, text, sizeof text);
	printf("%-*s  %-*s  %-8s %-8s %6s %8s  %s%s\n", width, m->name, clients,
	       *m->clients ? m->clients : "-", m->role, member_is_of_set(m) ? "yes" : "no", lag, silent,
	       text, m->answered && !m->reached ? "; ZooKeeper away" : "");
}

static void print_table(const struct members *m)
{
	int width = 6, clients = 7;

	for (unsigned i = 0; i < m->count; i++) {
		int n = (int)strlen(m->of[i].name), c = (int)strlen(m->of[i].clients);
		width = n > width ? n : width;
		clients = c > clients ? c : clients;
	}
	printf("epoch %.0f, reign %.0f, %u of %.0f copies in sync, ZooKeeper %s\n\n", m->epoch, m->reign,
	       members_in_sync(m), m->copies, m->agreement);
	printf("%-*s  %-*s  %-8s %-8s %6s %8s  %s\n", width, "MEMBER", clients, "CLIENTS", "ROLE",
	       "IN SYNC", "LAG", "SILENT", "STATE");
	for (unsigned i = 0; i < m->count; i++)
		show(&m->of[i], width, clients);
	for (unsigned i = 0; i < m->count; i++)
		if (m->of[i].failovers > 0)
			printf("\n%s took over %.0f time%s since its start, in %.0f ms the last time\n",
			       m->of[i].name, m->of[i].failovers, m->of[i].failovers > 1 ? "s" : "",
			       1000 * m->of[i].failover_s);
	putchar('\n');
}

/* ------------------------------------------------------------------ for programs */
static void maybe(struct cli_json *json, const char *name, double value)
{
	if (value >= 0)
		cli_json_number(json, name, (uint64_t)value);
	else
		cli_json_null(json, name);
}

static void member_json(struct cli_json *json, const struct member *m)
{
	char text[32];

	cli_json_open(json, NULL, '{');
	cli_json_text(json, "name", m->name);
	cli_json_text(json, "clients", m->clients);
	cli_json_text(json, "role", m->role);
	cli_json_bool(json, "in_sync", member_is_of_set(m));
	cli_json_bool(json, "answers", m->answered);
	cli_json_bool(json, "listed", m->there);
	maybe(json, "silent_ms", m->silent_ms);
	maybe(json, "lag_records", m->lag);
	maybe(json, "copied_percent", m->copied < 0 ? -1 : 100 * m->copied);
	if (m->answered) {
		cli_json_text(json, "state", m->state);
		cli_json_text(json, "version", m->version);
		cli_json_bool(json, "fit", m->fit);
		cli_json_bool(json, "reaches_agreement", m->reached);
		cli_json_number(json, "epoch", (uint64_t)m->epoch);
		cli_json_number(json, "lease_left_ms", (uint64_t)m->lease_ms);
		cli_json_number(json, "keys", (uint64_t)m->keys);
		cli_json_number(json, "failovers", (uint64_t)m->failovers);
		snprintf(text, sizeof text, "%.3f", m->failover_s);
		cli_json_figure(json, "failover_seconds", text);
	} else {
		cli_json_text(json, "why", m->why);
	}
	cli_json_close(json, '}');
}

static void print_json(const struct members *m, unsigned wrong)
{
	struct cli_json json = { .to = stdout };
	const struct member *p = members_primary(m);

	cli_json_open(&json, NULL, '{');
	cli_json_number(&json, "epoch", (uint64_t)m->epoch);
	cli_json_number(&json, "reign", (uint64_t)m->reign);
	cli_json_number(&json, "copies", (uint64_t)m->copies);
	cli_json_number(&json, "in_sync", members_in_sync(m));
	cli_json_text(&json, "agreement", m->agreement);
	if (p)
		cli_json_text(&json, "primary", p->name);
	else
		cli_json_null(&json, "primary");
	cli_json_bool(&json, "is_well", !wrong);
	cli_json_open(&json, "members", '[');
	for (unsigned i = 0; i < m->count; i++)
		member_json(&json, &m->of[i]);
	cli_json_close(&json, ']');
	cli_json_end(&json);
}

int cluster_status(struct cli *cli, bool json)
{
	static struct members m;
	FILE *none = json ? fopen("/dev/null", "w") : NULL;
	unsigned wrong;
	int status;

	if (!members_ask(cli, &m, &status)) {
		if (none)
			fclose(none);
		return status;
	}
	if (!json)
		print_table(&m);
	wrong = cluster_judge(&m, none ? none : stdout);
	if (json)
		print_json(&m, wrong);
	else if (!wrong)
		puts("All is well.");
	if (none)
		fclose(none);
	return wrong ? CLI_FALSE : CLI_DONE;
}

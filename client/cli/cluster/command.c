/* SPDX-License-Identifier: BSD-2-Clause */
/* kvcli cluster: a cluster is made, looked at, and changed by hand. */
#include "client/cli/cluster/command.h"
#include "client/cli/cluster/status.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/session/answer.h"
#include "client/cli/session/session.h"

enum { CLUSTER_COPIES, CLUSTER_SHARDS, CLUSTER_JSON, CLUSTER_YES };

const struct cli_option cluster_options[] = {
	[CLUSTER_COPIES] = { "copies", 'c', "N", "init: how many hold the keys; default 2" },
	[CLUSTER_SHARDS] = { "shards", 's', "N", "init: how many shards; there is 1 yet" },
	[CLUSTER_JSON] = { "json", 'j', NULL, "status: as one JSON object" },
	[CLUSTER_YES] = { "yes", 'y', NULL, "force: don't ask" },
	{ 0 },
};

#define COPIES_MAX 8

/* Whether it is one of the list, which has commas between. */
static bool is_among(const char *list, const char *word)
{
	size_t bytes = strlen(word);

	for (; *list; list += strcspn(list, ","), list += *list == ',')
		if (bytes && strcspn(list, ",") == bytes && !strncmp(list, word, bytes))
			return true;
	return false;
}

/* Who is meant: by name, or by an address for clients, or all of these. */
static const struct member *who(struct cli *cli, const struct members *m, const char *word,
				int *status)
{
	for (unsigned i = 0; i < m->count; i++)
		if (!strcmp(m->of[i].name, word) || !strcmp(m->of[i].clients, word) ||
		    is_among(m->of[i].clients, word))
			return &m->of[i];
	*status = cli_fail(cli, CLI_USAGE, "cluster: no member %.80s: \"kvcli cluster status\" lists them",
			   word);
	return NULL;
}

static int command(struct cli *cli, int what, const char *member, int copies)
{
	kvd_session *session;
	int status, result;
	char *said = NULL;

	session = cli_connect(cli, &status);
	if (!session)
		return status;
	result = kvd_cluster(session, what, member, copies, &said);
	if (result < 0)
		return cli_fail_session(cli, result);
	puts(said);
	free(said);
	return CLI_DONE;
}

static int init(struct cli *cli, const struct cli_args *args)
{
	uint64_t copies = 0, shards = 1;

	if (args->given[CLUSTER_COPIES] &&
	    !cli_args_number(&args->option[CLUSTER_COPIES], 1, COPIES_MAX, &copies))
		return cli_fail(cli, CLI_USAGE, "cluster init --copies wants a whole number from 1 to %d",
				COPIES_MAX);
	if (args->given[CLUSTER_SHARDS] &&
	    !cli_args_number(&args->option[CLUSTER_SHARDS], 1, 1, &shards))
		return cli_fail(cli, CLI_USAGE, "cluster init --shards: a cluster has one shard, yet");
	return command(cli, KVD_CLUSTER_INIT, NULL, (int)copies);
}

/* Without a name: the first that is in sync. */
static const struct member *next_primary(struct cli *cli, const struct members *m, int *status)
{
	for (unsigned i = 0; i < m->count; i++)
		if (!strcmp(m->of[i].role, "backup") && m->of[i].answered)
			return &m->of[i];
	*status = cli_fail(cli, CLI_FALSE, "cluster promote: no other member is in sync");
	return NULL;
}

static int promote(struct cli *cli, const char *word)
{
	static struct members m;
	const struct member *to;
	int status;

	if (!members_ask(cli, &m, &status))
		return status;
	to = word ? who(cli, &m, word, &status) : next_primary(cli, &m, &status);
	return to ? command(cli, KVD_CLUSTER_PROMOTE, to->name, 0) : status;
}

static int remove_one(struct cli *cli, const char *word)
{
	static struct members m;
	const struct member *gone;
	int status;

	if (!members_ask(cli, &m, &status))
		return status;
	gone = who(cli, &m, word, &status);
	return gone ? command(cli, KVD_CLUSTER_REMOVE, gone->name, 0) : status;
}

/* ------------------------------------------------------------------ force */
static const struct member *self_of(const struct members *m)
{
	for (unsigned i = 0; i < m->count; i++)
		if (m->of[i].answered)
			return &m->of[i];
	return NULL;
}

static void tell_price(const struct members *m, const struct member *self)
{
	const struct member *p = members_primary(m);

	printf("%s is not in sync. It holds %.0f keys, as of epoch %.0f at the latest; the present epoch "
	       "is %.0f.\n", self->name, self->keys, self->epoch, m->epoch);
	puts("Made primary, it serves those alone. All changes since it was left out are given up, also "
	     "those\nthat were answered; keys that were deleted since may be there again.");
	if (p)
		printf("%s serves at this moment, with all changes. There is no reason to do this.\n",
		       p->name);
	cluster_judge(m, stdout);
}

static bool is_meant(void)
{
	char line[16] = "";

	printf("Type \"yes\" to do it: ");
	fflush(stdout);
	return fgets(line, sizeof line, stdin) && !strcmp(line, "yes\n");
}

static int force(struct cli *cli, bool yes)
{
	static struct members m, own;
	const struct member *self;
	int status;

	if (!members_ask(cli, &m, &status))
		return status;
	own = (struct members){ .epoch = -1 };
	if (members_of(cli->session, &own) || !(self = self_of(&own)))
		return cli_fail(cli, CLI_SERVER, "cluster: %s does not say who it is", cli->server);
	tell_price(&m, self);
	if (!yes && !isatty(STDIN_FILENO))
		return cli_fail(cli, CLI_USAGE, "cluster force: nobody is there to be asked: --yes does it");
	if (!yes && !is_meant())
		return cli_fail(cli, CLI_FALSE, "cluster force: nothing was done");
	return command(cli, KVD_CLUSTER_FORCE, self->name, 0);
}

/* ------------------------------------------------------------------ all */
static int wrong_use(struct cli *cli)
{
	return cli_fail(cli, CLI_USAGE, "cluster: usage: cluster init [--copies N] | status [--json] | "
			"promote [MEMBER] | remove MEMBER | force [--yes]");
}

static int run(struct cli *cli, const struct cli_args *args, const char *word)
{
	const struct cli_word *what = &args->operand[0];

	if (cli_word_is(what, "init") && args->count == 1)
		return init(cli, args);
	if (cli_word_is(what, "status") && args->count == 1)
		return cluster_status(cli, args->given[CLUSTER_JSON]);
	if (cli_word_is(what, "promote"))
		return promote(cli, word);
	if (cli_word_is(what, "remove") && args->count == 2)
		return remove_one(cli, word);
	if (cli_word_is(what, "force") && args->count == 1)
		return force(cli, args->given[CLUSTER_YES]);
	return wrong_use(cli);
}

int cluster_run(struct cli *cli, const struct cli_args *args)
{
	char *word = args->count > 1 ? cli_word_string(&args->operand[1]) : NULL;
	int status;

	if (args->count > 1 && !word)
		return wrong_use(cli);
	status = run(cli, args, word);
	free(word);
	return status;
}
